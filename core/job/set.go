package job

import (
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/seed-e934e81e/convert/core/diag"
)

// set puts one `--set a.b=value` into the tree, over what the file says.
func (d *decoder) set(root *node, text string) {
	f := &setting{text: text}
	at := diag.Subject{File: "--set " + text}
	key, raw, ok := strings.Cut(text, "=")
	f.raw = raw
	parts := strings.Split(strings.TrimSpace(key), ".")
	for _, p := range parts {
		if p == "" || strings.IndexFunc(p, func(r rune) bool { return r > 127 || !bare(byte(r)) }) >= 0 {
			ok = false
		}
	}
	if !ok {
		d.fail(at, "`--set` is written `--set key=value`").WithHint("for instance `--set target.path=out`")
		return
	}
	n := root
	for i, p := range parts {
		path := strings.Join(parts[:i+1], ".")
		next := n.field(p)
		if tables(path) || next != nil && next.place.tables {
			d.fail(at, "`--set` cannot change `%s`, which is a list of tables", path).WithHint("write it in the job file")
			return
		}
		if i == len(parts)-1 {
			n.put(build(path, p, literal(raw), nil, f))
			return
		}
		if next == nil || next.kind != table && next.setting != nil {
			next = build(path, p, map[string]any{}, nil, f)
			n.put(next)
		}
		if next.kind != table {
			d.fail(at, "`%s` is no table", path)
			return
		}
		n = next
	}
}

// tables reports whether a key is a list of tables.
func tables(path string) bool {
	return path == "map" || path == "source.layout" || path == "target.layout"
}

// put gives a table a key in the place of one with the same name.
func (n *node) put(k *node) {
	for i, old := range n.keys {
		if old.name == k.name {
			n.keys[i] = k
			return
		}
	}
	n.keys = append(n.keys, k)
}

// literal is the value of what follows the equals sign: as TOML, or else as
// the string that it is.
func literal(raw string) any {
	text := "x = " + raw
	if _, fault := index(text); fault != nil || strings.ContainsAny(raw, "\r\n") {
		return raw
	}
	var v map[string]any
	if _, err := toml.Decode(text, &v); err != nil || len(v) != 1 {
		return raw
	}
	if _, ok := v["x"].(time.Time); ok {
		return raw
	}
	return v["x"]
}
