package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/manifest"
)

// keyRow is a row of a table of keys: the keys, and whether they may be absent.
var keyRow = regexp.MustCompile("^\\| (`[a-z0-9_.\\[\\]]+`(?:, `[a-z0-9_.\\[\\]]+`)*) \\| ([^|]*)\\|")

// specKeys gives the keys that a section of a spec has tables of, and whether
// each is optional. The section begins at a heading that contains a text.
func specKeys(t *testing.T, file, heading string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../specs", file))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	in := false
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "## ") {
			in = strings.Contains(line, heading)
		}
		if m := keyRow.FindStringSubmatch(line); in && m != nil {
			for _, k := range strings.Split(m[1], ", ") {
				out[strings.Trim(k, "`")] = strings.Contains(m[2], "*optional*")
			}
		}
	}
	if len(out) < 5 {
		t.Fatalf("%s: %d keys were found under %q", file, len(out), heading)
	}
	return out
}

// typeKeys gives the keys of a document's type, and whether each may be left
// out.
func typeKeys(prefix string, v reflect.Type, out map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		typeKeys(prefix, v.Elem(), out)
	case reflect.Slice:
		typeKeys(prefix+"[]", v.Elem(), out)
	case reflect.Struct:
		for i := range v.NumField() {
			name, options, _ := strings.Cut(v.Field(i).Tag.Get("json"), ",")
			if prefix != "" {
				name = prefix + "." + name
			}
			out[name] = options == "omitempty"
			typeKeys(name, v.Field(i).Type, out)
		}
	}
}

func sameKeys(t *testing.T, file string, got, spec map[string]bool) {
	t.Helper()
	for k, optional := range got {
		if _, ok := spec[k]; !ok {
			t.Errorf("specs/%s does not have the key `%s`", file, k)
		} else if spec[k] != optional {
			t.Errorf("specs/%s says optional = %v of `%s`, the program %v", file, spec[k], k, optional)
		}
	}
	for k := range spec {
		if _, ok := got[k]; !ok {
			t.Errorf("specs/%s has the key `%s`, the program does not", file, k)
		}
	}
}

func TestSpecsHaveEveryKeyOfTheDocuments(t *testing.T) {
	for _, x := range []struct {
		file, heading string
		document      any
	}{
		{"plan.md", "The document", view.PlanDocument{}},
		{"inspect.md", "The document", view.InspectDocument{}},
		{"run.md", "convert/run/v1", view.RunDocument{}},
		{"manifest.md", "The document", manifest.Manifest{}},
	} {
		got := map[string]bool{}
		typeKeys("", reflect.TypeOf(x.document), got)
		sameKeys(t, x.file, got, specKeys(t, x.file, x.heading))
	}
}

// valueKeys gives the keys of a document that was written.
func valueKeys(prefix string, v any, out map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if prefix != "" {
				k = prefix + "." + k
			}
			out[k] = true
			valueKeys(k, x, out)
		}
	case []any:
		for _, x := range v {
			valueKeys(prefix+"[]", x, out)
		}
	}
}

func TestSpecsHaveEveryKeyThatIsWritten(t *testing.T) {
	generated := filepath.Join(t.TempDir(), "generated")
	for _, x := range []struct {
		heading string
		args    []string
	}{
		{"convert/generate/v1", []string{"generate", generated, "--json", "--layers", "1", "--hidden", "64", "--ffn", "128", "--vocab", "64"}},
		{"convert/formats/v1", []string{"formats", "--json"}},
		{"convert/version/v1", []string{"version", "--json"}},
	} {
		var v map[string]any
		if err := json.Unmarshal([]byte(output(t, x.args...)), &v); err != nil {
			t.Fatal(err)
		}
		if v["schema"] != x.heading {
			t.Errorf("%v writes schema %v, want %s", x.args, v["schema"], x.heading)
		}
		got := map[string]bool{}
		valueKeys("", v, got)
		spec := specKeys(t, "run.md", x.heading)
		for k := range got {
			if _, ok := spec[k]; !ok {
				t.Errorf("specs/run.md does not have the key `%s` of %s", k, x.heading)
			}
		}
		for k, optional := range spec {
			if !optional && !got[k] {
				t.Errorf("specs/run.md has the key `%s` of %s, the program does not", k, x.heading)
			}
		}
	}
}

// TestPlanDigestVectors: a job has the digest that specs/plan.md says,
// whatever its target is called. Where what a plan covers has changed on
// purpose, the table changes with it.
func TestPlanDigestVectors(t *testing.T) {
	text, err := os.ReadFile("../specs/plan.md")
	if err != nil {
		t.Fatal(err)
	}
	vectors := regexp.MustCompile("(?m)^\\| `fixtures/jobs/([a-z-]+)\\.toml` \\| ([0-9a-f]{64}) \\|$").FindAllStringSubmatch(string(text), -1)
	if len(vectors) < 5 {
		t.Fatalf("%d vectors were found in specs/plan.md", len(vectors))
	}
	jobs := exampleJobs(t)
	for _, v := range vectors {
		path, _ := jobs[v[1]]["target"].(map[string]any)["path"].(string)
		for _, set := range [][]string{nil, {"--set", "target.path=" + filepath.Join(t.TempDir(), filepath.Base(path)), "--set", "run.workers=7"}} {
			var p struct{ Digest string }
			args := append([]string{"plan", "--json", "-f", filepath.Join(jobsFolder, v[1]+".toml")}, set...)
			if err := json.Unmarshal([]byte(output(t, args...)), &p); err != nil {
				t.Fatal(err)
			}
			if p.Digest != v[2] {
				t.Errorf("%v: the plan's digest is %s, specs/plan.md says %s", args, p.Digest, v[2])
			}
		}
	}
}
