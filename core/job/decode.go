package job

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
)

// decoder turns the tree into a job and collects what is wrong with it.
type decoder struct {
	at      *places
	options Options
	list    diag.List
	errors  int
	near    map[string]bool // keys that a misspelt key was taken for
	schema  map[string]fields
}

// field decodes the value of one key; fields are the keys of a table.
type (
	field  func(*node)
	fields map[string]field
)

func (d *decoder) fail(at diag.Subject, format string, args ...any) *diag.Diagnostic {
	e := diag.Errorf(diag.Usage, format, args...)
	e.Subject = at
	d.list = append(d.list, e)
	d.errors++
	return e
}

func (d *decoder) warn(at diag.Subject, format string, args ...any) *diag.Diagnostic {
	w := diag.Warnf(format, args...)
	w.Subject = at
	d.list = append(d.list, w)
	return w
}

// table decodes the keys of a table; name is what the table is called in
// messages.
func (d *decoder) table(n *node, name string, f fields) {
	if n.kind != table {
		d.mistyped(n, "a table")
		return
	}
	for _, k := range n.keys {
		if decode, ok := f[k.name]; ok {
			decode(k)
			continue
		}
		d.unknown(k, n, name, f)
	}
}

func (d *decoder) unknown(k, in *node, name string, f fields) {
	e := d.fail(d.at.key(k), "unknown key `%s` in %s", k.name, name)
	if w, ok := Nearest(k.name, names(f)); ok {
		d.near[join(in.path, w)] = true
		e.WithHint("did you mean `%s`?", w)
		return
	}
	for _, t := range names(d.schema) {
		if _, ok := d.schema[t][k.name]; ok && t != name {
			e.WithHint("`%s` is a key of %s", k.name, t)
			return
		}
	}
	e.WithHint("it has the keys %s", listing(names(f), "and"))
}

// mistyped reports a value of the wrong type.
func (d *decoder) mistyped(n *node, want string) *diag.Diagnostic {
	e := d.fail(d.at.value(n), "`%s` must be %s, found %s", n.path, want, n.describe())
	if s, ok := n.value.(string); ok && n.setting == nil {
		if _, err := strconv.ParseInt(s, 10, 64); (err == nil && want == "an integer") || (want == "true or false" && (s == "true" || s == "false")) {
			e.WithHint("write it without quotes: `%s`", s)
		}
	}
	return e
}

func (n *node) describe() string {
	switch n.kind {
	case table:
		return "a table"
	case list:
		return "a list"
	}
	switch v := n.value.(type) {
	case string:
		if v == "" {
			return "an empty string"
		}
		return "the string " + quote(v)
	case int64:
		return fmt.Sprintf("the integer %d", v)
	case float64:
		return fmt.Sprintf("the number %v", v)
	case bool:
		return fmt.Sprintf("%v", v)
	case time.Time:
		return "a time"
	}
	return "something else"
}

func quote(s string) string {
	if s == "" {
		return "empty"
	}
	if len(s) > 40 {
		s = s[:37] + "…"
	}
	return "`" + strings.ToValidUTF8(s, "\ufffd") + "`"
}

// text is a string, environment filled in.
func (d *decoder) text(n *node) (string, bool) {
	s, ok := n.string()
	if !ok {
		d.mistyped(n, "a string")
		return "", false
	}
	return d.expand(n, s, nil)
}

// string is the value if it is one. A flag needs no quotes around digits.
func (n *node) string() (string, bool) {
	if s, ok := n.value.(string); ok {
		return s, true
	}
	if n.setting != nil && n.kind == scalar && n.path == strings.TrimSpace(n.setting.text[:strings.IndexByte(n.setting.text, '=')]) {
		return n.setting.raw, true
	}
	return "", false
}

// full is text that may not be empty.
func (d *decoder) full(n *node) (string, bool) {
	s, ok := d.text(n)
	if ok && s == "" {
		d.fail(d.at.value(n), "`%s` is empty", n.path)
		return "", false
	}
	return s, ok
}

func (d *decoder) boolean(dst *bool) field {
	return func(n *node) {
		b, ok := n.value.(bool)
		if !ok {
			d.mistyped(n, "true or false")
			return
		}
		*dst = b
	}
}

func (d *decoder) integer(n *node, least, most int64) (int, bool) {
	v, ok := n.value.(int64)
	if !ok {
		d.mistyped(n, "an integer")
		return 0, false
	}
	if v < least || v > most {
		d.fail(d.at.value(n), "`%s` is %d, it must be from %d to %d", n.path, v, least, most)
		return 0, false
	}
	return int(v), true
}

func (d *decoder) number(dst *int, least, most int64) field {
	return func(n *node) {
		if v, ok := d.integer(n, least, most); ok {
			*dst = v
		}
	}
}

// size is a number of bytes.
func (d *decoder) size(dst *int64, least int64) field {
	return func(n *node) {
		v, ok := n.value.(int64)
		if !ok {
			s, isText := n.value.(string)
			if !isText {
				d.mistyped(n, "a size such as \"256 MiB\"")
				return
			}
			if s, ok = d.expand(n, s, nil); !ok {
				return
			}
			var err error
			if v, err = ParseSize(s); err != nil {
				d.fail(d.at.value(n), "`%s` is %s: %v", n.path, quote(s), err).WithHint("a size is written \"256 MiB\", \"5 GB\" or as a number of bytes")
				return
			}
		}
		if v < least {
			d.fail(d.at.value(n), "`%s` is %d bytes, it must be at least %d", n.path, v, least)
			return
		}
		*dst = v
	}
}

// enum is one of several words.
func enum[T ~string](d *decoder, dst *T, words ...T) field {
	return func(n *node) {
		all := make([]string, len(words))
		for i, w := range words {
			all[i] = string(w)
		}
		if s, ok := d.word(n, all); ok {
			*dst = T(s)
		}
	}
}

func (d *decoder) word(n *node, words []string) (string, bool) {
	s, ok := d.text(n)
	if !ok {
		return "", false
	}
	for _, w := range words {
		if s == w {
			return s, true
		}
	}
	e := d.fail(d.at.value(n), "`%s` is %s, it can be %s", n.path, quote(s), listing(words, "or"))
	if w, ok := Nearest(s, words); ok {
		e.WithHint("did you mean `%s`?", w)
	}
	return "", false
}

// castable is a type that values can be cast to.
func (d *decoder) castable(dst *dtype.Type) field {
	return func(n *node) {
		s, ok := d.text(n)
		if !ok {
			return
		}
		t, known := dtype.Parse(s)
		if known && t.Castable() {
			*dst = t
			return
		}
		e := d.fail(d.at.value(n), "`%s` is %s, a cast can be to `f32`, `f16`, `bf16` or `f64`", n.path, quote(s))
		for _, from := range []func(string) (dtype.Type, bool){dtype.FromTorch, dtype.FromMindSpore, dtype.FromSafetensors} {
			if t, ok := from(s); ok && t.Castable() {
				e.WithHint("did you mean `%s`?", t)
				return
			}
		}
	}
}

// path is a file or folder.
func (d *decoder) path(dst *Path) field {
	return func(n *node) {
		if s, ok := d.full(n); ok {
			*dst = d.resolve(s)
		}
	}
}

// paths is one path, or a list of them.
func (d *decoder) paths(dst *[]Path) field {
	return func(n *node) {
		if n.kind == scalar {
			var p Path
			d.path(&p)(n)
			*dst = []Path{p}
			return
		}
		*dst = items(d, n, "a path or a list of paths", func(x *node, out []Path) []Path {
			var p Path
			d.path(&p)(x)
			return append(out, p)
		})
	}
}

// items decodes a list that may not be empty.
func items[T any](d *decoder, n *node, want string, f func(*node, []T) []T) []T {
	if n.kind != list {
		d.mistyped(n, want)
		return nil
	}
	if len(n.items) == 0 {
		d.fail(d.at.value(n), "`%s` is an empty list", n.path).WithHint("leave the key out, or name at least one")
		return nil
	}
	var out []T
	for _, x := range n.items {
		out = f(x, out)
	}
	return out
}

func (d *decoder) resolve(s string) Path {
	if filepath.IsAbs(s) || strings.Contains(s, "://") {
		return Path{Text: s, Full: s}
	}
	return Path{Text: s, Full: filepath.Join(d.options.Dir, s)}
}
