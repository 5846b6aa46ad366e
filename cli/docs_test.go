package cli_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// quickStart is the lines of the first block of shell in a document.
func quickStart(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```sh\n")
	block, _, closed := strings.Cut(rest, "\n```")
	if !ok || !closed {
		t.Fatalf("%s has no block of shell", name)
	}
	return strings.Split(block, "\n")
}

// bare takes the comments off lines.
func bare(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		l, _, _ = strings.Cut(l, " #")
		out[i] = strings.TrimRight(l, " ")
	}
	return out
}

// TestQuickStart runs what both READMEs tell a newcomer to type, as they say
// it, in a folder with nothing but the fixtures.
func TestQuickStart(t *testing.T) {
	lines := quickStart(t, "../README.md")
	if len(lines) != 12 {
		t.Errorf("the quick start has %d lines, want 12", len(lines))
	}
	lines = bare(lines)
	if other := bare(quickStart(t, "../README.zh.md")); !slices.Equal(lines, other) {
		t.Errorf("the quick starts differ:\n%s\n\n%s", strings.Join(lines, "\n"), strings.Join(other, "\n"))
	}
	fixtures, err := filepath.Abs("../fixtures")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink(fixtures, "fixtures"); err != nil {
		t.Skipf("links cannot be made here: %v", err)
	}
	if err := os.Mkdir("bin", 0o755); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for i := 0; i < len(lines); i++ {
		words := strings.Fields(lines[i])
		switch words[0] {
		case "make":
		case "cat": // cat > FILE <<'EOF'
			end := i + 1 + slices.Index(lines[i+1:], "EOF")
			if err := os.WriteFile(words[2], []byte(strings.Join(lines[i+1:end], "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			i = end
		case "bin/convert":
			if out := output(t, words[1:]...); out == "" {
				t.Errorf("`%s` prints nothing", lines[i])
			}
			ran++
		default:
			t.Errorf("this test does not know how to run `%s`", lines[i])
		}
	}
	if ran != 4 {
		t.Errorf("%d commands were run, want 4", ran)
	}
	sameTree(t, "bin/out", filepath.Join(fixtures, "golden/mindspore/01_tutorial_8to4_optshard/expected"), same)
}

// documents is the names of the project's documents, seen from here.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"../*.md", "../specs/*.md", "../specs/formats/*.md", "../core/*.md", "../formats/*.md", "*.md", "help/*.md", "../fixtures/*.md", "../fixtures/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, files...)
	}
	if len(out) < 20 {
		t.Fatalf("%d documents were found", len(out))
	}
	return out
}

// named calls f with the first group of every match in every document.
func named(t *testing.T, expression string, f func(document, name string)) {
	t.Helper()
	re := regexp.MustCompile(expression)
	n := 0
	for _, d := range documents(t) {
		text, err := os.ReadFile(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range re.FindAllStringSubmatch(string(text), -1) {
			f(d, m[1])
			n++
		}
	}
	if n < 20 {
		t.Errorf("%d matches were found", n)
	}
}

// A relative link in a document leads to a file or folder of the repository.
func TestLinksLeadSomewhere(t *testing.T) {
	named(t, `\]\(([^)#:]+)\)`, func(document, name string) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(document), filepath.FromSlash(name))); err != nil {
			t.Errorf("%s links to %s, which is not there", document, name)
		}
	})
}

// A path in backticks that begins with a folder of the repository names
// something in it.
func TestDocumentsNameWhatIsThere(t *testing.T) {
	named(t, "`((?:core|formats|cli|specs|fixtures)/[A-Za-z0-9_./-]*)`", func(document, name string) {
		// The formats' specs name files of other projects too.
		if strings.Contains(name, "NAME") || strings.Contains(filepath.ToSlash(document), "specs/formats/") {
			return
		}
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(name))); err != nil {
			t.Errorf("%s names `%s`, which is not there", document, name)
		}
	})
}

// The table of formats in the README has every format, and says of each what
// the program says.
func TestReadmeListsEveryFormat(t *testing.T) {
	row := regexp.MustCompile(`(?m)^(\w+) +(yes|no) +(yes|no) `)
	formats := row.FindAllStringSubmatch(output(t, "formats"), -1)
	if len(formats) < 3 {
		t.Fatalf("`convert formats` lists %d formats", len(formats))
	}
	title := map[string]string{"mindspore": "MindSpore", "safetensors": "safetensors", "torch": "PyTorch"}
	for _, doc := range []struct{ name, yes, no string }{{"../README.md", "yes", "no"}, {"../README.zh.md", "是", "否"}} {
		text, err := os.ReadFile(doc.name)
		if err != nil {
			t.Fatal(err)
		}
		words := map[string]string{"yes": doc.yes, "no": doc.no}
		for _, f := range formats {
			want := regexp.MustCompile(`(?m)^\| ` + title[f[1]] + `[^|]* \| ` + words[f[2]] + ` \| ` + words[f[3]] + ` \|`)
			if title[f[1]] == "" || !want.Match(text) {
				t.Errorf("%s does not say of %s: read %s, write %s", doc.name, f[1], f[2], f[3])
			}
		}
	}
}

// coreImports gives what the files of a package of core import of core, tests
// aside.
func coreImports(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if p, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "github.com/seed-e934e81e/convert/core/"); ok && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	slices.Sort(out)
	return out
}

// The table of imports in core/DESIGN.md is that of the code.
func TestDesignTableOfImports(t *testing.T) {
	text, err := os.ReadFile("../core/DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `core/([a-z/]+)` \\| [^|]* \\| ([a-z/ ]*)\\|").FindAllStringSubmatch(string(text), -1) {
		table[m[1]] = strings.Fields(m[2])
	}
	entries, err := os.ReadDir("../core")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"checkpoint/memory"}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	for _, name := range names {
		want, ok := table[name]
		if !ok {
			t.Errorf("core/DESIGN.md does not have the package core/%s", name)
			continue
		}
		if got := coreImports(t, filepath.Join("../core", name)); !slices.Equal(got, want) {
			t.Errorf("core/%s imports %v of core, core/DESIGN.md says %v", name, got, want)
		}
		delete(table, name)
	}
	for name := range table {
		t.Errorf("core/DESIGN.md has core/%s, which is not there", name)
	}
}
