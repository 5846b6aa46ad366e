// Package view draws what the program has to say: diagnostics, tables, sizes
// and progress. It decides nothing and starts nothing; the terminal's width,
// the colours and the time are handed in.
package view

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is how text is drawn.
type Style struct {
	Color bool
	Width int // columns of the terminal; 0 where there is none to fit
}

// ColorMode is what `--color` says.
type ColorMode string

// The colour modes.
const (
	ColorAuto   ColorMode = "auto"
	ColorAlways ColorMode = "always"
	ColorNever  ColorMode = "never"
)

// Color decides whether to use colours on a stream: `--color` wins, then
// NO_COLOR (https://no-color.org) and a dumb terminal, then whether the stream
// is a terminal.
func Color(mode ColorMode, terminal bool, env func(string) string) bool {
	switch mode {
	case ColorAlways:
		return true
	case ColorNever:
		return false
	}
	return terminal && env("NO_COLOR") == "" && env("TERM") != "dumb"
}

type ink string

const (
	red    ink = "\x1b[1;31m"
	yellow ink = "\x1b[1;33m"
	cyan   ink = "\x1b[1;36m"
	blue   ink = "\x1b[34m"
	bold   ink = "\x1b[1m"
	faint  ink = "\x1b[2m"
	reset      = "\x1b[0m"
)

func (s Style) paint(c ink, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return string(c) + text + reset
}

// Clean makes text safe to print: what could steer a terminal is written as an
// escape, for names come from files that anybody may have made.
func Clean(s string) string {
	if strings.IndexFunc(s, unsafe) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unsafe(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unsafe(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// unsafe characters are controls and the marks that turn the direction of
// writing round.
func unsafe(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// Width is the number of columns that text takes in a terminal.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// Cut shortens text to a number of columns and shows by … that it did.
func Cut(s string, width int) string {
	if width < 1 || Width(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		if n += columns(r); n > width-1 {
			return s[:i] + "…"
		}
	}
	return s
}
