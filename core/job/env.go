package job

import (
	"strings"

	"github.com/seed-e934e81e/convert/core/diag"
)

// expand replaces `${NAME}` by what the environment says; `$${` stands for the
// characters `${`. keep, if not nil, tells which names are not of the
// environment: they stay as they are, and what is filled in, as well as `$$`,
// is written for a reader that takes `$$` for a dollar sign.
func (d *decoder) expand(n *node, s string, keep func(name string) bool) (string, bool) {
	var b strings.Builder
	ok := true
	seen := map[string]int{}
	for s != "" {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		switch {
		case keep != nil && strings.HasPrefix(s, "$$"):
			b.WriteString("$$")
			s = s[2:]
		case strings.HasPrefix(s, "$${"):
			b.WriteString("${")
			s = s[3:]
		case strings.HasPrefix(s, "${"):
			end := strings.IndexByte(s, '}')
			if end < 0 {
				d.fail(d.at.value(n), "`${` has no `}`").WithHint("write `$${` for the characters themselves")
				return "", false
			}
			name, whole := s[2:end], s[:end+1]
			s = s[end+1:]
			if keep != nil && keep(name) {
				b.WriteString(whole)
				break
			}
			seen[whole]++
			v, set := d.lookup(n, name, whole, seen[whole])
			if keep != nil && !set {
				d.list[len(d.list)-1].WithHint("`${…}` is a group of `match` by its name, `(?P<name>…)`, or by its number, or else an environment variable")
			}
			if keep != nil {
				v = strings.ReplaceAll(v, "$", "$$")
			}
			b.WriteString(v)
			ok = ok && set
		default:
			b.WriteByte('$')
			s = s[1:]
		}
	}
	b.WriteString(s)
	return b.String(), ok
}

func (d *decoder) lookup(n *node, name, whole string, nth int) (string, bool) {
	if !variable(name) {
		d.fail(d.inside(n, whole, nth), "%s names no environment variable", quote(whole)).WithHint("write `$${` for the characters `${` themselves")
		return "", false
	}
	if d.options.Env != nil {
		if v, ok := d.options.Env(name); ok {
			return v, true
		}
	}
	d.fail(d.inside(n, whole, nth), "the environment variable `%s` is not set", name).WithHint("set it, or write `$${` for the characters `${` themselves")
	return "", false
}

func variable(name string) bool {
	for i := range len(name) {
		b := name[i]
		if b == '-' || !bare(b) || i == 0 && b >= '0' && b <= '9' {
			return false
		}
	}
	return name != ""
}

// inside is the place of the nth occurrence of part in the text of a value, or
// the value's where escapes hide it.
func (d *decoder) inside(n *node, part string, nth int) diag.Subject {
	at := n.place.value
	if n.setting != nil || at.end == 0 {
		return d.at.value(n)
	}
	raw, from := d.at.text[at.off:at.end], 0
	for ; nth > 0; nth-- {
		i := strings.Index(raw[from:], part)
		if i < 0 {
			return d.at.value(n)
		}
		from += i + len(part)
	}
	return d.at.span(span{at.off + from - len(part), at.off + from})
}
