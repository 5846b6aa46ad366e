package mapping

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// template is a name with places for groups. Go's own expansion reads `$1_x`
// as a group called "1_x" and replaces unknown groups by nothing; names that
// vanish would be found out late, so this one reads digits only after `$` and
// refuses what the expression does not have.
type template []piece

type piece struct {
	text  string
	group int // a group of the expression, or 0 for text
}

func parseTemplate(s string, re *regexp.Regexp) (template, *RuleError) {
	var t template
	for s != "" {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			return append(t, piece{text: s}), nil
		}
		if i > 0 {
			t = append(t, piece{text: s[:i]})
		}
		p, n, err := reference(s[i:], re)
		if err != nil {
			return nil, err
		}
		t = append(t, p)
		s = s[i+n:]
	}
	return t, nil
}

// reference reads what stands at a dollar sign and its length.
func reference(s string, re *regexp.Regexp) (piece, int, *RuleError) {
	if strings.HasPrefix(s, "$$") {
		return piece{text: "$"}, 2, nil
	}
	word, n := "", 1
	if strings.HasPrefix(s, "${") {
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return piece{}, 0, &RuleError{Part: To, Msg: "has a `${` without its `}`"}
		}
		word, n = s[2:end], end+1
	} else {
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		word = s[1:n]
	}
	if word == "" {
		return piece{}, 0, &RuleError{Part: To, Msg: "has a `$` that names no group", Hint: "write `$1`, `${1}` or `${name}` for a group, `$$` for a dollar sign"}
	}
	g := group(word, re)
	if g < 0 {
		return piece{}, 0, &RuleError{Part: To, Msg: fmt.Sprintf("refers to group `%s`, which `match` does not have", word), Hint: groups(re)}
	}
	return piece{group: g}, n, nil
}

// group is the number of a group, or -1. Group 0 is no part of a new name: it
// is spelled with a pair of brackets around the whole expression.
func group(word string, re *regexp.Regexp) int {
	if n, err := strconv.Atoi(word); err == nil {
		if n >= 1 && n <= re.NumSubexp() {
			return n
		}
		return -1
	}
	if n := re.SubexpIndex(word); n > 0 {
		return n
	}
	return -1
}

func groups(re *regexp.Regexp) string {
	var names []string
	for i, n := range re.SubexpNames()[1:] {
		if n != "" {
			names = append(names, fmt.Sprintf("`${%s}`", n))
		} else {
			names = append(names, fmt.Sprintf("`$%d`", i+1))
		}
	}
	if len(names) == 0 {
		return "a group is a part of `match` in brackets: `(\\d+)`"
	}
	return "it has " + strings.Join(names, ", ")
}

// expand fills in the groups, given where they lie in name.
func (t template) expand(name string, at []int) string {
	var b strings.Builder
	for _, p := range t {
		switch {
		case p.group == 0:
			b.WriteString(p.text)
		case at[2*p.group] >= 0:
			b.WriteString(name[at[2*p.group]:at[2*p.group+1]])
		}
	}
	return b.String()
}

// reason is what a regexp's error says, without its prefix.
func reason(err error) string {
	var se *syntax.Error
	if errors.As(err, &se) {
		return fmt.Sprintf("%s: `%s`", se.Code, se.Expr)
	}
	return err.Error()
}
