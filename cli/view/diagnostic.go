package view

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/seed-e934e81e/convert/core/diag"
)

// Diagnostics draws a list, with an empty line between those of several lines.
func Diagnostics(w io.Writer, s Style, list diag.List) error {
	for i, d := range list {
		text := Diagnostic(s, d)
		if i > 0 {
			text = "\n" + text
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// Diagnostic draws a diagnostic: what, where, the line of text with what is
// wrong in it underlined, and what to do.
//
//	error: `verify.mode` is `diggest`, it can be …
//	  --> job.toml:11:8
//	   |
//	11 | mode = "diggest"
//	   |        ^^^^^^^^^
//	hint: did you mean `digest`?
func Diagnostic(s Style, d *diag.Diagnostic) string {
	var b strings.Builder
	summary := d.Summary
	if d.Err != nil {
		summary += ": " + d.Err.Error()
	}
	fmt.Fprintf(&b, "%s %s\n", severity(s, d.Severity), s.paint(bold, Clean(summary)))
	at := d.Subject
	gutter := ""
	if at.Source != "" && at.Line > 0 {
		gutter = strings.Repeat(" ", len(fmt.Sprint(at.Line)))
	} else {
		gutter = " "
	}
	if place := where(at, summary); place != "" {
		fmt.Fprintf(&b, "%s%s %s\n", gutter, s.paint(blue, "-->"), place)
	}
	if at.Source != "" && at.Line > 0 {
		caret(&b, s, at, gutter)
	}
	if hint := Hint(d); hint != "" {
		fmt.Fprintf(&b, "%s %s\n", s.paint(cyan, "hint:"), Clean(hint))
	}
	return b.String()
}

// Hint is what a diagnostic advises, or what its cause does.
func Hint(d *diag.Diagnostic) string {
	for d.Hint == "" {
		var cause *diag.Diagnostic
		if !errors.As(d.Err, &cause) {
			return ""
		}
		d = cause
	}
	return d.Hint
}

func severity(s Style, v diag.Severity) string {
	c := red
	switch v {
	case diag.Warning:
		c = yellow
	case diag.Note:
		c = cyan
	}
	return s.paint(c, v.String()+":")
}

// where names the place, but for what the summary names already.
func where(at diag.Subject, summary string) string {
	tensor := at.Tensor
	at.Tensor = ""
	var parts []string
	if place := at.String(); place != "" {
		parts = append(parts, Clean(place))
	}
	if tensor != "" && !strings.Contains(summary, "`"+tensor+"`") {
		parts = append(parts, "tensor `"+Clean(tensor)+"`")
	}
	return strings.Join(parts, ", ")
}

// caret draws the line of text and underlines a part of it. A line that is
// wider than the terminal is cut on both sides.
func caret(b *strings.Builder, s Style, at diag.Subject, gutter string) {
	runes := []rune(strings.ToValidUTF8(at.Source, "\ufffd"))
	from := min(max(at.Column-1, 0), len(runes))
	to := min(from+max(at.Width, 1), len(runes))
	before, marked, after := plain(runes[:from]), plain(runes[from:to]), plain(runes[to:])
	if s.Width > 0 {
		before, marked, after = window(before, marked, after, max(s.Width-len(gutter)-3, 20))
	}
	bar := s.paint(blue, "|")
	under := strings.Repeat("^", max(Width(marked), 1))
	fmt.Fprintf(b, "%s %s\n", gutter, bar)
	fmt.Fprintf(b, "%s %s %s\n", s.paint(blue, fmt.Sprint(at.Line)), bar, strings.TrimRight(before+marked+after, " "))
	fmt.Fprintf(b, "%s %s %s%s\n", gutter, bar, strings.Repeat(" ", Width(before)), s.paint(red, under))
}

// plain writes text so that each character has the width that Width says.
func plain(r []rune) string {
	return Clean(strings.ReplaceAll(string(r), "\t", "    "))
}

// window cuts a line to a width so that what is marked stays in sight.
func window(before, marked, after string, width int) (string, string, string) {
	if Width(before)+max(Width(marked), 1)+Width(after) <= width {
		return before, marked, after
	}
	marked = Cut(marked, width*2/3)
	room := width - max(Width(marked), 1)
	if right := min(Width(after), room/3); Width(before) > room-right {
		before = cutLeft(before, room-right)
	}
	return before, marked, Cut(after, max(room-Width(before), 1))
}

// cutLeft shortens text on its left side.
func cutLeft(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	for s != "" && Width(s) > width-1 {
		_, n := utf8.DecodeRuneInString(s)
		s = s[n:]
	}
	return "…" + s
}
