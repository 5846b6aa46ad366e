package job

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/seed-e934e81e/convert/core/diag"
)

func seed(f *testing.F, add func(text string)) {
	f.Helper()
	files, err := filepath.Glob("testdata/errors/*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		add(string(text))
	}
	add(minimal)
	add(meshed + "[[target.layout]]\nmatch = \"*\"\nshard = [[\"tp\", \"dp\"]]\n")
	add("a.\"b \\u0041\".'c' = '''x\n''' # c\n[[x.y]]\nz=[1,{a=\"\"\"\\\"\"\"\"\"},\n2]\n[x.w]\nt = 2020-01-02 03:04:05\n")
}

// A text is either a job or has errors, and every error has a place in the
// text that is as it says.
func FuzzParse(f *testing.F) {
	seed(f, func(text string) { f.Add(text, "target.path=x") })
	f.Fuzz(func(t *testing.T, text, set string) {
		j, list := Parse("job.toml", []byte(text), Options{Env: env, Set: []string{set}})
		bad := 0
		for _, d := range list {
			if d.Severity == diag.Error {
				bad++
				if d.Code != diag.Usage {
					t.Errorf("%v is of class %q, want usage", d, d.Code)
				}
			}
			if d.Summary == "" || d.Subject.File == "" {
				t.Errorf("a diagnostic without words or place: %+v", d)
			}
			checkPlace(t, text, d.Subject)
		}
		if (j == nil) != (bad > 0) {
			t.Errorf("job %v with %d errors: %v", j != nil, bad, list)
		}
	})
}

func checkPlace(t *testing.T, text string, at diag.Subject) {
	t.Helper()
	if at.Line == 0 {
		return
	}
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	if at.Line > len(lines) || at.Source != strings.TrimSuffix(lines[at.Line-1], "\r") {
		t.Fatalf("line %d is not %q", at.Line, at.Source)
	}
	if n := utf8.RuneCountInString(at.Source); at.Column < 1 || at.Column > n+2 || at.Width < 1 || at.Width > n+1 {
		t.Errorf("column %d, width %d of a line of %d characters", at.Column, at.Width, n)
	}
}

// Whatever the decoder accepts the index understands, and knows a place for
// every key and every value of it.
func FuzzIndex(f *testing.F) {
	seed(f, func(text string) { f.Add(text) })
	f.Fuzz(func(t *testing.T, text string) {
		p, fault := index(text)
		if fault != nil && fault.deep {
			return
		}
		given := text
		if fault != nil {
			if n := strings.IndexByte(text[fault.off:], '\n'); n >= 0 {
				given = text[:fault.off+n+1]
			}
		}
		var v map[string]any
		if _, err := toml.Decode(given, &v); err != nil {
			return
		}
		if fault != nil {
			t.Fatalf("the index stops at byte %d of a text that the decoder accepts", fault.off)
		}
		placed(t, text, build("", "", v, p, nil))
	})
}

func placed(t *testing.T, text string, n *node) {
	t.Helper()
	for _, k := range n.keys {
		if k.place.key.end <= k.place.key.off || k.place.key.end > len(text) {
			t.Errorf("key %s is at %v", k.path, k.place.key)
		}
		placed(t, text, k)
	}
	for _, x := range n.items {
		placed(t, text, x)
	}
	if n.path != "" && (n.place.value.end <= n.place.value.off || n.place.value.end > len(text)) {
		t.Errorf("value %s is at %v", n.path, n.place.value)
	}
}
