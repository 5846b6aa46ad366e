package job

import (
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mesh"
)

// LayoutRule is one `[[…layout]]`: how the tensors with certain names lie on
// the mesh.
type LayoutRule struct {
	Globs          []Glob
	Replicate      bool       // every rank holds the whole tensor
	Shard          [][]string // for each dim the mesh axes that cut it, major first
	OptimizerShard int        // slices of dim 0 on top, 1 for none, layout.All for all
	Stages         []int      // nil: all
}

// The words of `shard`.
const (
	noAxis    = "none"
	replicate = "replicate"
)

// Match reports whether the rule is for tensors of that name.
func (r *LayoutRule) Match(name string) bool {
	for _, g := range r.Globs {
		if g.Match(name) {
			return true
		}
	}
	return false
}

// FindLayout gives the first rule for tensors of that name.
func FindLayout(rules []LayoutRule, name string) (index int, ok bool) {
	for i := range rules {
		if rules[i].Match(name) {
			return i, true
		}
	}
	return 0, false
}

// In reports whether the rule puts its tensors in a stage.
func (r *LayoutRule) In(stage int) bool {
	for _, s := range r.Stages {
		if s == stage {
			return true
		}
	}
	return r.Stages == nil
}

// Layout is how a tensor of ndim dims lies on the mesh of one stage. It is an
// error, of class Usage, if the rule speaks of another number of dims or of an
// axis that the mesh does not have.
func (r *LayoutRule) Layout(m mesh.Mesh, ndim int) (*layout.Layout, error) {
	dims := make([][]int, ndim)
	if !r.Replicate && len(r.Shard) != ndim {
		return nil, diag.Errorf(diag.Usage, "`shard` has %s, the tensor %s", plural(len(r.Shard), "entry", "entries"), plural(ndim, "dim", "dims"))
	}
	for i, names := range r.Shard {
		for _, a := range names {
			k, ok := m.Axis(a)
			if !ok {
				return nil, diag.Errorf(diag.Usage, "the mesh has no axis `%s`", a)
			}
			dims[i] = append(dims[i], k)
		}
	}
	return layout.New(m, dims, r.OptimizerShard)
}

// layouts decodes a list of rules.
func (d *decoder) layouts(dst *[]LayoutRule) field {
	return func(n *node) {
		if n.kind != list {
			d.mistyped(n, "a list of tables").WithHint("write `[[%s]]` with two brackets", n.path)
			return
		}
		for _, x := range n.items {
			r := LayoutRule{OptimizerShard: 1}
			d.table(x, "a layout", d.layoutKeys(&r))
			if x.kind == table {
				d.layoutNeeds(x, "match", `"*.weight"`)
				d.layoutNeeds(x, "shard", `["tp", "none"]`)
			}
			*dst = append(*dst, r)
		}
	}
}

func (d *decoder) layoutNeeds(n *node, key, example string) {
	if n.field(key) == nil && !d.near[join(n.path, key)] {
		d.fail(d.at.value(n), "the layout has no `%s`", key).WithHint("for instance `%s = %s`", key, example)
	}
}

func (d *decoder) layoutKeys(r *LayoutRule) fields {
	return fields{
		"match":           d.globs(&r.Globs),
		"shard":           d.shard(r),
		"optimizer_shard": d.optimizerShard(&r.OptimizerShard),
		"stage":           d.stages(&r.Stages),
	}
}

func (d *decoder) globs(dst *[]Glob) field {
	one := func(n *node, out []Glob) []Glob {
		if s, ok := d.full(n); ok {
			if g, ok := d.glob(n, s); ok {
				out = append(out, g)
			}
		}
		return out
	}
	return func(n *node) {
		if n.kind == scalar {
			*dst = one(n, nil)
			return
		}
		*dst = items(d, n, "a glob or a list of globs", one)
	}
}

// shard is "replicate", or for each dim an axis, a list of axes, or "none".
func (d *decoder) shard(r *LayoutRule) field {
	return func(n *node) {
		if n.kind == scalar {
			if s, ok := d.text(n); ok && s != replicate {
				d.fail(d.at.value(n), "`%s` is %s, it can be `replicate` or a list with an entry for each dim", n.path, quote(s)).
					WithHint("to cut the first of two dims write `[\"%s\", \"none\"]`", s)
			}
			r.Replicate = true
			return
		}
		if n.kind == table {
			d.mistyped(n, "a list")
			return
		}
		r.Shard = [][]string{}
		for _, x := range n.items {
			r.Shard = append(r.Shard, d.axes(x))
		}
	}
}

func (d *decoder) axes(n *node) []string {
	if n.kind == scalar {
		s, ok := d.full(n)
		if !ok || s == noAxis {
			return nil
		}
		return []string{s}
	}
	return items(d, n, "an axis, a list of axes or \"none\"", func(x *node, out []string) []string {
		s, ok := d.full(x)
		if ok && s == noAxis {
			d.fail(d.at.value(x), "`none` stands for a whole entry").WithHint("write `\"none\"` in place of the list, or leave it out of it")
			return out
		}
		return append(out, s)
	})
}

func (d *decoder) optimizerShard(dst *int) field {
	return func(n *node) {
		v, ok := d.integer(n, layout.All, mesh.MaxRanks)
		if ok && v == 0 {
			d.fail(d.at.value(n), "`%s` is 0, it must be at least 1, or -1 for all ranks that hold the same part", n.path)
			return
		}
		if ok {
			*dst = v
		}
	}
}

func (d *decoder) stages(dst *[]int) field {
	return func(n *node) {
		seen := map[int]bool{}
		one := func(x *node, out []int) []int {
			s, ok := d.integer(x, 0, mesh.MaxRanks)
			if ok && seen[s] {
				d.fail(d.at.value(x), "stage %d is named twice", s)
			}
			seen[s] = true
			return append(out, s)
		}
		if n.kind == scalar {
			*dst = one(n, nil)
			return
		}
		*dst = items(d, n, "a stage or a list of stages", one)
	}
}
