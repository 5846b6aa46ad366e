// Package core_test holds the source of core and formats against the rules of
// its architecture: what may import what, and that it compiles to WebAssembly.
package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/seed-e934e81e/convert/"

// allowed is what a package may import of our own and of others, itself and
// through what it imports. The words of a format's line are those of formatBase.
var allowed = map[string]string{
	"core/box":               "",
	"core/diag":              "",
	"core/dtype":             "",
	"core/manifest":          "core/dtype core/storage core/diag x/sys",
	"core/weightmap":         "",
	"core/sum":               "crc64nvme x/sys",
	"core/storage":           "core/diag x/sys",
	"core/mesh":              "core/diag",
	"core/mapping":           "core/box core/dtype core/diag",
	"core/layout":            "core/mesh core/box core/diag",
	"core/checkpoint":        "core/dtype core/box core/layout core/mesh core/storage core/diag x/sys",
	"core/checkpoint/memory": "core/checkpoint core/dtype core/box core/layout core/mesh core/storage core/diag x/sys",
	"core/job":               "core/layout core/mapping core/mesh core/box core/dtype core/storage core/diag x/sys BurntSushi/toml",
	"core/ranks":             "core/checkpoint core/dtype core/box core/layout core/mesh core/storage core/diag core/weightmap x/sys",
	"core/plan":              "core/checkpoint core/dtype core/box core/layout core/mesh core/storage core/diag core/mapping core/weightmap x/sys",
	"core/tensor":            "core/dtype core/box core/storage core/diag x/sys arrow",
	"core/engine": "core/plan core/checkpoint core/tensor core/manifest core/storage core/sum core/box core/dtype core/layout core/mesh " +
		"core/mapping core/weightmap core/diag x/sys arrow crc64nvme",
	"core/seeded": "core/checkpoint core/dtype core/box core/layout core/mesh core/storage core/sum core/diag x/sys crc64nvme",
	"core/pipeline": "core/job core/ranks core/plan core/engine core/checkpoint core/tensor core/manifest core/storage core/sum core/box core/dtype " +
		"core/layout core/mesh core/mapping core/weightmap core/diag x/sys arrow crc64nvme BurntSushi/toml",

	"formats/pickle":      "",
	"formats/jsontext":    "",
	"formats/mindspore":   formatBase,
	"formats/safetensors": formatBase + " formats/jsontext",
	"formats/torch":       formatBase + " formats/pickle",
	"formats/conformance": formatBase,
	"formats/all":         formatBase + " core/ranks core/weightmap formats/mindspore formats/safetensors formats/torch formats/pickle formats/jsontext",
}

const formatBase = "core/checkpoint core/dtype core/storage core/layout core/mesh core/box core/diag x/sys"

// others are the short words for packages that are not ours.
var others = map[string]string{
	"golang.org/x/sys":              "x/sys",
	"github.com/minio/crc64nvme":    "crc64nvme",
	"github.com/BurntSushi/toml":    "BurntSushi/toml",
	"github.com/apache/arrow/go/v1": "arrow",
}

// few are packages of the standard library that only some may import, and who
// does. The operating system, and what depends on the place where a program
// runs, is storage's alone; plans know no clock.
var few = map[string]string{
	"os":            "core/storage",
	"syscall":       "core/storage",
	"path/filepath": "core/storage core/job",
	"unsafe":        "core/storage core/tensor core/engine",
	"reflect":       "formats/conformance",
	"log":           "",
	"flag":          "",
	"net":           "",
	"plugin":        "",
	"testing":       "formats/conformance",
	"time":          "core/storage core/checkpoint core/engine core/job formats/conformance",
	"sync":          "core/storage core/sum core/tensor core/engine core/ranks formats/conformance",
	"sync/atomic":   "core/storage core/sum core/tensor core/engine formats/conformance",
	"math/rand":     "",
	"math/rand/v2":  "core/checkpoint/memory formats/conformance",
	"crypto/rand":   "core/storage",
	"encoding/json": "core/manifest core/weightmap core/seeded formats/mindspore formats/conformance",
}

// concurrent are the packages that start goroutines.
const concurrent = "core/engine core/ranks core/storage formats/conformance"

// source is the files of one package, tests aside.
type source struct {
	files   map[string]*ast.File
	imports map[string]string // path → a file that imports it
}

// packages parses core and formats, whatever system a file is for.
func packages(t *testing.T) map[string]*source {
	t.Helper()
	out := map[string]*source{}
	for _, root := range []string{".", "../formats"} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), "_")) {
				return filepath.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			pkg := path.Join("core", filepath.ToSlash(filepath.Dir(name)))
			if out[pkg] == nil {
				out[pkg] = &source{files: map[string]*ast.File{}, imports: map[string]string{}}
			}
			out[pkg].files[name] = f
			for _, i := range f.Imports {
				p, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					return err
				}
				out[pkg].imports[p] = name
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func has(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// word is how the table calls an imported package: "" for one of the standard
// library, "?" for one that it does not know.
func word(imported string) string {
	if own, ok := strings.CutPrefix(imported, module); ok {
		return own
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return ""
	}
	for prefix, w := range others {
		if strings.HasPrefix(imported, prefix) {
			return w
		}
	}
	return "?"
}

func TestImports(t *testing.T) {
	all := packages(t)
	for _, pkg := range slices.Sorted(maps.Keys(all)) {
		list, known := allowed[pkg]
		if !known {
			t.Errorf("package %s is not in the table of allowed imports", pkg)
			continue
		}
		seen := map[string]bool{}
		var walk func(p, way string)
		walk = func(p, way string) {
			for _, imported := range slices.Sorted(maps.Keys(all[p].imports)) {
				w := word(imported)
				if w == "" || seen[w] {
					continue
				}
				seen[w] = true
				if !has(list, w) {
					t.Errorf("%s may not import %s, and does through %s (%s)", pkg, imported, way, all[p].imports[imported])
				}
				if all[w] != nil {
					walk(w, way+" → "+w)
				}
			}
		}
		walk(pkg, pkg)
	}
	for pkg := range allowed {
		if all[pkg] == nil {
			t.Errorf("the table of allowed imports has %s, which is not there", pkg)
		}
	}
}

func TestImportsOfTheStandardLibrary(t *testing.T) {
	for pkg, s := range packages(t) {
		for imported, file := range s.imports {
			for p, who := range few {
				if (imported == p || strings.HasPrefix(imported, p+"/") && few[imported] == "" && p != "sync") && !has(who, pkg) {
					t.Errorf("%s imports %s; only these may: %q", file, imported, who)
				}
			}
		}
	}
}

// Nothing happens by itself: no init, no printing, and goroutines only where
// the architecture has them.
func TestNoInitAndNoPrinting(t *testing.T) {
	for pkg, s := range packages(t) {
		for name, f := range s.files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s has an init function", name)
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.GoStmt:
					if !has(concurrent, pkg) {
						t.Errorf("%s starts a goroutine", name)
					}
				case *ast.CallExpr:
					if p := called(x.Fun); strings.HasPrefix(p, "fmt.Print") || p == "print" || p == "println" {
						t.Errorf("%s prints", name)
					}
				}
				return true
			})
		}
	}
}

// called is the name of a function that is called: "fmt.Println", "print".
func called(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		if p, ok := x.X.(*ast.Ident); ok {
			return p.Name + "." + x.Sel.Name
		}
	}
	return ""
}

// Core and formats run in a page and in a sandbox.
func TestWebAssembly(t *testing.T) {
	if testing.Short() {
		t.Skip("compiling for other systems takes long")
	}
	for _, system := range []string{"wasip1", "js"} {
		c := exec.Command("go", "build", "./core/...", "./formats/...")
		c.Dir = ".."
		c.Env = append(os.Environ(), "GOOS="+system, "GOARCH=wasm", "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("GOOS=%s GOARCH=wasm: %v\n%s", system, err, out)
		}
	}
}
