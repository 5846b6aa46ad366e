package job

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/diag"
)

var update = flag.Bool("update", false, "rewrite the expected diagnostics")

// Every job in testdata/errors is refused with the diagnostics beside it.
// Lines that begin with "#!" are given by --set.
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no jobs in testdata/errors: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Env: env}
		for line := range strings.Lines(string(text)) {
			if s, ok := strings.CutPrefix(line, "#! "); ok {
				o.Set = append(o.Set, strings.TrimSpace(s))
			}
		}
		j, list := Parse("job.toml", text, o)
		if j != nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		got := ""
		for _, d := range list {
			if d.Code != diag.Usage && d.Severity == diag.Error {
				t.Errorf("%s: %v is of class %q, want usage", name, d, d.Code)
			}
			got += draw(d)
		}
		golden := strings.TrimSuffix(name, ".toml") + ".txt"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s gives\n%s\nwant\n%s", name, got, want)
		}
	}
}

// draw writes a diagnostic in short; the command line has its own way.
func draw(d *diag.Diagnostic) string {
	out := fmt.Sprintf("%s: %v\n", d.Severity, d)
	if d.Subject.Source != "" {
		before := []rune(d.Subject.Source)[:d.Subject.Column-1]
		pad := strings.Map(func(r rune) rune {
			if r == '\t' {
				return r
			}
			return ' '
		}, string(before))
		out += fmt.Sprintf("  | %s\n  | %s%s\n", d.Subject.Source, pad, strings.Repeat("^", d.Subject.Width))
	}
	if d.Hint != "" {
		out += "  hint: " + d.Hint + "\n"
	}
	return out
}
