package view

import (
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/diag"
)

// Whatever a diagnostic holds, it is drawn without controls that a terminal
// would obey, and the text line fits the terminal.
func FuzzDiagnostic(f *testing.F) {
	f.Add("s `x`", "h", "a.toml", "mesh = [\t1]", 3, 9, 4, 40)
	f.Add("\x1b[2J", "\u202e", "\xff", "数据 = 1", 1, 2, 100, 21)
	f.Add("", "", "", strings.Repeat("x", 300), 1<<40, 299, 1, 30)
	f.Fuzz(func(t *testing.T, summary, hint, file, source string, line, column, width, columns int) {
		at := diag.Subject{File: file, Line: line, Column: column, Width: width, Source: source, Tensor: summary}
		got := Diagnostic(Style{Width: columns}, &diag.Diagnostic{Summary: summary, Hint: hint, Subject: at})
		for _, r := range strings.ReplaceAll(got, "\n", "") {
			if unsafe(r) {
				t.Fatalf("%q holds %U", got, r)
			}
		}
		if lines := strings.Split(got, "\n"); columns >= 60 && source != "" && line > 0 {
			for _, l := range lines {
				if strings.Contains(l, " | ") && !strings.Contains(summary+hint+file, " | ") && Width(l) > columns {
					t.Errorf("%q takes %d columns of %d", l, Width(l), columns)
				}
			}
		}
	})
}
