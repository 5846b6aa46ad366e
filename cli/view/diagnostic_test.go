package view

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/diag"
)

func TestDiagnostic(t *testing.T) {
	line := diag.Subject{File: "job.toml", Line: 11, Column: 52, Width: 1, Source: `mesh = { axes = ["pp", "dp", "tp"], shape = [1, 2, 6] }`}
	for _, tt := range []struct {
		name  string
		style Style
		d     *diag.Diagnostic
		want  string
	}{
		{"a line of text", Style{}, &diag.Diagnostic{Summary: "`wq` does not split evenly: 4096 rows over tp=6", Subject: line, Hint: "4096 is divisible by 2, 4 and 8"}, `
error: ` + "`wq`" + ` does not split evenly: 4096 rows over tp=6
  --> job.toml:11:52
   |
11 | mesh = { axes = ["pp", "dp", "tp"], shape = [1, 2, 6] }
   |                                                    ^
hint: 4096 is divisible by 2, 4 and 8
`},
		{"a line without its text", Style{}, &diag.Diagnostic{Summary: "s", Subject: diag.Subject{File: "job.toml", Line: 18}}, `
error: s
 --> job.toml:18
`},
		{"no place", Style{}, diag.Warnf("w").WithHint("h"), `
warning: w
hint: h
`},
		{"a note", Style{}, &diag.Diagnostic{Severity: diag.Note, Summary: "n"}, `
note: n
`},
		{"a place in a file", Style{}, diag.Errorf(diag.Damaged, "damaged").InFile("rank_3/a.ckpt").OfRank(3).AtByte(1 << 30).OfTensor("norm"), `
error: damaged
 --> rank_3/a.ckpt rank 3 at byte 1073741824, tensor ` + "`norm`" + `
`},
		{"a tensor that the summary names", Style{}, diag.Errorf(diag.Usage, "`norm` has no place").OfTensor("norm"), `
error: ` + "`norm`" + ` has no place
`},
		{"a tensor alone", Style{}, diag.Errorf(diag.Usage, "no place").OfTensor("norm"), `
error: no place
 --> tensor ` + "`norm`" + `
`},
		{"a cause", Style{}, diag.Errorf(diag.Failed, "cannot read").Wrap(errors.New("disk is on fire")), `
error: cannot read: disk is on fire
`},
		{"wide characters before the caret", Style{}, &diag.Diagnostic{Summary: "s", Subject: diag.Subject{File: "j", Line: 1, Column: 6, Width: 2, Source: "\t\"数据\", 12"}}, `
error: s
 --> j:1:6
  |
1 |     "数据", 12
  |           ^^
`},
		{"wide characters underlined", Style{}, &diag.Diagnostic{Summary: "s", Subject: diag.Subject{File: "j", Line: 1, Column: 2, Width: 2, Source: "\"数据\""}}, `
error: s
 --> j:1:2
  |
1 | "数据"
  |  ^^^^
`},
		{"a caret past the end of the line", Style{}, &diag.Diagnostic{Summary: "s", Subject: diag.Subject{File: "j", Line: 1, Column: 4, Width: 1, Source: "a ="}}, `
error: s
 --> j:1:4
  |
1 | a =
  |    ^
`},
		{"a line wider than the terminal", Style{Width: 40}, &diag.Diagnostic{Summary: "s", Subject: diag.Subject{File: "j", Line: 1, Column: 61, Width: 3, Source: strings.Repeat("a", 60) + "bcd" + strings.Repeat("e", 60)}}, `
error: s
 --> j:1:61
  |
1 | …aaaaaaaaaaaaaaaaaaaaabcdeeeeeeeeee…
  |                       ^^^
`},
		{"what could steer a terminal", Style{}, diag.Errorf(diag.Usage, "no `a\x1b[2Jb`").InFile("x\ny").OfTensor("\u202e\xff"), `
error: no ` + "`a\\x1b[2Jb`" + `
 --> x\x0ay, tensor ` + "`\\u202e\\xff`" + `
`},
		{"colours", Style{Color: true}, &diag.Diagnostic{Summary: "s", Hint: "h", Subject: diag.Subject{File: "j", Line: 1, Column: 1, Width: 1, Source: "a"}}, "\n" +
			"\x1b[1;31merror:\x1b[0m \x1b[1ms\x1b[0m\n" +
			" \x1b[34m-->\x1b[0m j:1:1\n" +
			"  \x1b[34m|\x1b[0m\n" +
			"\x1b[34m1\x1b[0m \x1b[34m|\x1b[0m a\n" +
			"  \x1b[34m|\x1b[0m \x1b[1;31m^\x1b[0m\n" +
			"\x1b[1;36mhint:\x1b[0m h\n"},
	} {
		if got := "\n" + Diagnostic(tt.style, tt.d); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestDiagnosticsAreApart(t *testing.T) {
	var b strings.Builder
	if err := Diagnostics(&b, Style{}, diag.List{diag.Warnf("a"), diag.Warnf("b")}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "warning: a\n\nwarning: b\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestColor(t *testing.T) {
	for _, tt := range []struct {
		mode     ColorMode
		terminal bool
		noColor  string
		term     string
		want     bool
	}{
		{ColorAuto, true, "", "xterm", true},
		{ColorAuto, false, "", "xterm", false},
		{ColorAuto, true, "1", "xterm", false},
		{ColorAuto, true, "", "dumb", false},
		{ColorAlways, false, "1", "dumb", true},
		{ColorNever, true, "", "xterm", false},
	} {
		env := func(n string) string { return map[string]string{"NO_COLOR": tt.noColor, "TERM": tt.term}[n] }
		if got := Color(tt.mode, tt.terminal, env); got != tt.want {
			t.Errorf("Color(%s, terminal %v, NO_COLOR=%q, TERM=%q) = %v, want %v", tt.mode, tt.terminal, tt.noColor, tt.term, got, tt.want)
		}
	}
}
