package job

import (
	"sort"
	"strings"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/mesh"
	"github.com/seed-e934e81e/convert/core/storage"
)

// The most that a job can ask for; beyond it there is a slip of the pen.
const (
	maxWorkers = 1024
	maxRank    = mesh.MaxRanks - 1
	minMemory  = 1 << 20
)

// job decodes the whole tree into j, which holds the defaults.
func (d *decoder) job(root *node, j *Job) {
	if !d.version(root) {
		return
	}
	d.schema = map[string]fields{
		"`[source]`": d.sourceKeys(&j.Source),
		"`[target]`": d.targetKeys(&j.Target),
		"`[run]`":    d.runKeys(&j.Run),
		"`[verify]`": d.verifyKeys(&j.Verify),
		"a layout":   d.layoutKeys(&LayoutRule{}),
		"`[[map]]`":  d.mapKeys(&ruleNodes{}),
	}
	top := fields{
		"version": func(*node) {},
		"source":  d.section("`[source]`"),
		"target":  d.section("`[target]`"),
		"run":     d.section("`[run]`"),
		"verify":  d.section("`[verify]`"),
		"map":     d.maps(&j.Maps),
	}
	d.table(root, "the job", top)
	d.required(root, "source", "path")
	d.required(root, "target", "path")
	d.check(root, j)
}

// version comes first: a file of another version may mean anything.
func (d *decoder) version(root *node) bool {
	n := root.field("version")
	if n == nil {
		e := d.fail(diag.Subject{File: d.at.file}, "`version` is missing").WithHint("write `version = 1` in the first line")
		for _, k := range root.keys {
			if w, ok := Nearest(k.name, []string{"version"}); ok {
				e.Subject = d.at.key(k)
				e.Summary = "unknown key `" + k.name + "`, and `version` is missing"
				e.WithHint("did you mean `%s`?", w)
			}
		}
		return false
	}
	v, ok := n.value.(int64)
	if !ok {
		d.mistyped(n, "an integer")
		return false
	}
	if v != Version {
		d.fail(d.at.value(n), "`version` is %d, this program reads version %d", v, Version)
		return false
	}
	return true
}

func (d *decoder) section(name string) field {
	return func(n *node) { d.table(n, name, d.schema[name]) }
}

// required reports a key that a table must have.
func (d *decoder) required(root *node, section, key string) {
	at := diag.Subject{File: d.at.file}
	if s := root.field(section); s != nil {
		if s.kind != table || s.field(key) != nil {
			return
		}
		at = d.at.value(s)
	}
	if d.near[section] || d.near[section+"."+key] {
		return
	}
	d.fail(at, "`%s.%s` is missing", section, key).WithHint("add `%s = \"…\"` under `[%s]`", key, section)
}

func (d *decoder) sourceKeys(s *Source) fields {
	return fields{
		"path":     d.path(&s.Path),
		"format":   d.format(&s.Format),
		"strategy": d.paths(&s.Strategy),
		"mesh":     d.mesh(&s.Mesh),
		"layout":   d.layouts(&s.Layouts),
		"select":   d.selection(&s.Select),
		"replicas": enum(d, &s.Replicas, ReplicasError, ReplicasByRank, ReplicasFirst),
		"crc":      enum(d, &s.CRC, CRCCheck, CRCIgnore),
	}
}

func (d *decoder) targetKeys(t *Target) fields {
	return fields{
		"path":          d.path(&t.Path),
		"format":        d.format(&t.Format),
		"strategy":      d.paths(&t.Strategy),
		"mesh":          d.mesh(&t.Mesh),
		"layout":        d.layouts(&t.Layouts),
		"prefix":        d.prefix(t),
		"ranks":         d.ranks(&t.Ranks),
		"dtype":         d.castable(&t.DType),
		"missing":       enum(d, &t.Missing, MissingError, MissingSkip),
		"leftovers":     enum(d, &t.Leftovers, LeftoversError, LeftoversDrop, LeftoversMerge),
		"crc":           d.boolean(&t.CRC),
		"replicas":      enum(d, &t.Replicas, CopiesCopy, CopiesLink),
		"max_file_size": d.size(&t.MaxFileSize, 1),
	}
}

func (d *decoder) runKeys(r *Run) fields {
	return fields{
		"workers":   d.number(&r.Workers, 1, maxWorkers),
		"memory":    d.size(&r.Memory, minMemory),
		"io":        d.ioMode(&r.IO),
		"on_exists": enum(d, &r.OnExists, ExistsFail, ExistsReplace),
	}
}

func (d *decoder) verifyKeys(v *Verify) fields {
	return fields{
		"mode":     enum(d, &v.Mode, VerifyNone, VerifyHeader, VerifyDigest, VerifyReadBack),
		"sha256":   d.boolean(&v.SHA256),
		"replicas": enum(d, &v.Replicas, CompareSmall, CompareAll, CompareNone),
	}
}

func (d *decoder) format(dst *string) field {
	return func(n *node) {
		var s string
		var ok bool
		if d.options.Formats != nil {
			s, ok = d.word(n, d.options.Formats)
		} else {
			s, ok = d.full(n)
		}
		if ok {
			*dst = s
		}
	}
}

func (d *decoder) ioMode(dst *storage.IOMode) field {
	return func(n *node) {
		modes := []storage.IOMode{storage.Auto, storage.Direct, storage.Buffered}
		words := make([]string, len(modes))
		for i, m := range modes {
			words[i] = m.String()
		}
		s, ok := d.word(n, words)
		for i, w := range words {
			if ok && s == w {
				*dst = modes[i]
			}
		}
	}
}

// selection is one of two words, or else a glob.
func (d *decoder) selection(dst *Select) field {
	return func(n *node) {
		s, ok := d.full(n)
		if !ok {
			return
		}
		switch SelectRule(s) {
		case SelectNewest, SelectMindSpore:
			*dst = Select{Rule: SelectRule(s)}
			return
		}
		if w, near := Nearest(s, []string{string(SelectNewest), string(SelectMindSpore)}); near && !strings.ContainsAny(s, `*?[\.`) {
			d.fail(d.at.value(n), "`%s` is %s, it can be `newest`, `mindspore` or a glob", n.path, quote(s)).WithHint("did you mean `%s`?", w)
			return
		}
		if g, ok := d.glob(n, s); ok {
			*dst = Select{Rule: SelectGlob, Glob: g}
		}
	}
}

func (d *decoder) glob(n *node, s string) (Glob, bool) {
	g, err := CompileGlob(s)
	if err != nil {
		d.fail(d.at.value(n), "`%s` is no glob: %v", n.path, err).WithHint("`*` is any characters, `?` one, `[abc]` one of a class; a backslash takes away their meaning")
		return g, false
	}
	return g, true
}

func (d *decoder) prefix(t *Target) field {
	return func(n *node) {
		s, ok := d.text(n)
		if !ok {
			return
		}
		if i := strings.IndexAny(s, "/\\\x00"); i >= 0 {
			d.fail(d.at.value(n), "`%s` is %s, a prefix has no %q", n.path, quote(s), s[i]).WithHint("folders belong in `target.path`")
			return
		}
		t.Prefix, t.HasPrefix = s, true
	}
}

func (d *decoder) ranks(dst *[]int) field {
	return func(n *node) {
		seen := map[int]bool{}
		out := items(d, n, "a list of ranks", func(x *node, out []int) []int {
			r, ok := d.integer(x, 0, maxRank)
			if ok && seen[r] {
				d.fail(d.at.value(x), "rank %d is named twice", r)
			}
			seen[r] = true
			return append(out, r)
		})
		sort.Ints(out)
		*dst = out
	}
}
