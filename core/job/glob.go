package job

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Glob is a pattern on names: `*` stands for any characters, dots and slashes
// included, `?` for one, `[a-c]` for one of a class and `[!a-c]` for one
// outside of it; a backslash takes away the meaning of what follows.
type Glob struct {
	text   string
	tokens []token
}

type token struct {
	kind   tokenKind
	text   string // of a literal
	not    bool   // the class is turned round
	ranges []rune // pairs: from, to
}

type tokenKind uint8

const (
	literalToken tokenKind = iota
	anyToken
	oneToken
	classToken
)

// CompileGlob prepares a pattern.
func CompileGlob(s string) (Glob, error) {
	g := Glob{text: s}
	if s == "" {
		return g, errors.New("the pattern is empty")
	}
	for s != "" {
		switch s[0] {
		case '*':
			if n := len(g.tokens); n == 0 || g.tokens[n-1].kind != anyToken {
				g.tokens = append(g.tokens, token{kind: anyToken})
			}
			s = s[1:]
		case '?':
			g.tokens = append(g.tokens, token{kind: oneToken})
			s = s[1:]
		case '[':
			t, rest, err := class(s[1:])
			if err != nil {
				return g, err
			}
			g.tokens = append(g.tokens, t)
			s = rest
		case '\\':
			if len(s) == 1 {
				return g, errors.New("it ends in a backslash, which takes away the meaning of nothing")
			}
			g.literal(s[1:2])
			s = s[2:]
		default:
			n := strings.IndexAny(s, `*?[\`)
			if n < 0 {
				n = len(s)
			}
			g.literal(s[:n])
			s = s[n:]
		}
	}
	return g, nil
}

func (g *Glob) literal(s string) {
	if n := len(g.tokens); n > 0 && g.tokens[n-1].kind == literalToken {
		g.tokens[n-1].text += s
		return
	}
	g.tokens = append(g.tokens, token{text: s})
}

// class reads what follows an opening bracket.
func class(s string) (token, string, error) {
	t := token{kind: classToken}
	if s != "" && (s[0] == '!' || s[0] == '^') {
		t.not, s = true, s[1:]
	}
	for first := true; ; first = false {
		if s == "" {
			return t, "", errors.New("`[` has no `]`")
		}
		if s[0] == ']' && !first {
			return t, s[1:], nil
		}
		var from, to rune
		from, s = char(s)
		to = from
		if len(s) >= 2 && s[0] == '-' && s[1] != ']' {
			to, s = char(s[1:])
		}
		if to < from {
			return t, "", fmt.Errorf("the range `%c-%c` is empty", from, to)
		}
		t.ranges = append(t.ranges, from, to)
	}
}

func char(s string) (rune, string) {
	if s[0] == '\\' && len(s) > 1 {
		s = s[1:]
	}
	r, n := utf8.DecodeRuneInString(s)
	return r, s[n:]
}

// String is the pattern as it was given.
func (g Glob) String() string { return g.text }

// Everything reports whether g matches every name.
func (g Glob) Everything() bool { return len(g.tokens) == 1 && g.tokens[0].kind == anyToken }

// Match reports whether the pattern matches the whole name. The zero Glob
// matches the empty name only.
func (g Glob) Match(name string) bool {
	t, i := 0, 0
	star, mark := -1, 0 // the last `*`, and where what follows it was tried last
	for {
		if t < len(g.tokens) && g.tokens[t].kind == anyToken {
			star, mark = t, i
			t++
			continue
		}
		if t < len(g.tokens) {
			if n := g.tokens[t].length(name[i:]); n > 0 {
				i += n
				t++
				continue
			}
		} else if i == len(name) {
			return true
		}
		if star < 0 || mark >= len(name) {
			return false
		}
		_, n := utf8.DecodeRuneInString(name[mark:])
		mark += n
		t, i = star+1, mark
	}
}

// length is how much of the beginning of s the token takes, 0 for no match.
func (t *token) length(s string) int {
	if t.kind == literalToken {
		if strings.HasPrefix(s, t.text) {
			return len(t.text)
		}
		return 0
	}
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || t.kind == oneToken {
		return n
	}
	in := false
	for i := 0; i < len(t.ranges); i += 2 {
		in = in || r >= t.ranges[i] && r <= t.ranges[i+1]
	}
	if in == t.not {
		return 0
	}
	return n
}
