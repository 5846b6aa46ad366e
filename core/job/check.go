package job

import (
	"fmt"
	"slices"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/mesh"
)

// check finds keys that are right one by one and wrong together.
func (d *decoder) check(root *node, j *Job) {
	d.side(root.field("source"), "source", j.Source.Mesh, j.Source.Layouts)
	d.side(root.field("target"), "target", j.Target.Mesh, j.Target.Layouts)
	t := root.field("target")
	if t == nil || t.kind != table {
		return
	}
	if m := j.Target.Mesh; m != nil {
		d.ranksOf(t, *m)
	}
	if k := t.field("max_file_size"); k != nil {
		for _, other := range []string{"strategy", "mesh", "prefix"} {
			if t.field(other) != nil {
				d.fail(d.at.key(k), "`target.max_file_size` splits a full checkpoint, and `target.%s` asks for rank folders", other).WithHint("leave one of them out")
				break
			}
		}
	}
}

// side checks how the source or the target says where tensors lie.
func (d *decoder) side(n *node, name string, m *mesh.Mesh, rules []LayoutRule) {
	if n == nil || n.kind != table {
		return
	}
	strategy, grid, lay := n.field("strategy"), n.field("mesh"), n.field("layout")
	switch {
	case strategy != nil && grid != nil:
		d.fail(d.at.key(grid), "`%s.mesh` and `%s.strategy` both say where tensors lie", name, name).WithHint("leave one of them out")
		return
	case strategy != nil && lay != nil:
		d.fail(d.at.value(lay), "`%s.layout` and `%s.strategy` both say where tensors lie", name, name).WithHint("leave one of them out")
		return
	case lay != nil && grid == nil && !d.near[name+".mesh"]:
		d.fail(d.at.value(lay), "`%s.layout` needs a mesh", name).WithHint("add `mesh = { axes = [\"dp\", \"tp\"], shape = [2, 4] }` under `[%s]`", name)
		return
	case m != nil && lay == nil && !d.near[name+".layout"]:
		d.fail(d.at.key(grid), "`%s.mesh` has no layouts", name).WithHint("add a `[[%s.layout]]` with `match = \"*\"` and `shard = \"replicate\"`", name)
		return
	}
	if m == nil || lay == nil || lay.kind != list || len(lay.items) != len(rules) {
		return
	}
	all := -1 // the first rule that matches everything
	for i := range rules {
		d.onMesh(lay.items[i], &rules[i], *m)
		if all >= 0 {
			d.warn(d.at.value(lay.items[i]), "this layout is never used: the first match wins, and `%s` matches everything", lay.items[all].path).
				WithHint("put it before the one that matches everything")
		} else if slices.ContainsFunc(rules[i].Globs, Glob.Everything) {
			all = i
		}
	}
}

// onMesh checks one rule against the mesh.
func (d *decoder) onMesh(n *node, r *LayoutRule, m mesh.Mesh) {
	stages, stage := StageMesh(m)
	if s := n.field("stage"); s != nil {
		for i, v := range r.Stages {
			if v >= stages {
				at := s
				if i < len(s.items) {
					at = s.items[i]
				}
				d.fail(d.at.value(at), "stage %d does not exist: the mesh has %s", v, plural(stages, "stage", "stages")).
					WithHint("stages are the axis `%s` of the mesh, and count from 0", PipelineAxis)
			}
		}
	}
	if !d.axesOf(n.field("shard"), r, stage) {
		return
	}
	o := n.field("optimizer_shard")
	switch {
	case o == nil || r.OptimizerShard == 1:
	case !r.Replicate && len(r.Shard) == 0:
		d.fail(d.at.value(o), "a scalar cannot be cut by an optimizer shard")
	default:
		if _, err := r.Layout(stage, max(len(r.Shard), 1)); err != nil {
			d.fail(d.at.value(o), "%s", diag.From(err)[0].Summary)
		}
	}
}

// axesOf checks that the axes of a rule exist and that none is used twice.
func (d *decoder) axesOf(n *node, r *LayoutRule, m mesh.Mesh) bool {
	if n == nil || n.kind != list {
		return n != nil
	}
	ok := true
	used := map[string]bool{}
	for i, axes := range r.Shard {
		for k, a := range axes {
			at := n.items[i]
			if k < len(at.items) {
				at = at.items[k]
			}
			switch _, known := m.Axis(a); {
			case a == PipelineAxis && !known:
				d.fail(d.at.value(at), "the pipeline axis `%s` cuts no tensors", a).WithHint("a tensor lies whole in its stage: say which by `stage = 0`")
				ok = false
			case !known:
				d.noAxis(at, a, m)
				ok = false
			case used[a]:
				d.fail(d.at.value(at), "the axis `%s` cuts this tensor twice", a)
				ok = false
			}
			used[a] = true
		}
	}
	return ok
}

func (d *decoder) noAxis(n *node, a string, m mesh.Mesh) {
	e := d.fail(d.at.value(n), "the mesh has no axis `%s`", a)
	words := append([]string{noAxis}, m.Axes...)
	if w, near := Nearest(a, words); near {
		e.WithHint("did you mean `%s`?", w)
		return
	}
	e.WithHint("an entry of `shard` can be %s", listing(words, "or"))
}

// ranksOf checks the ranks that are wanted.
func (d *decoder) ranksOf(t *node, m mesh.Mesh) {
	n := t.field("ranks")
	if n == nil {
		return
	}
	for _, x := range n.items {
		if r, ok := x.value.(int64); ok && r >= int64(m.Ranks()) && r <= maxRank {
			d.fail(d.at.value(x), "rank %d does not exist: the mesh has %s", r, plural(m.Ranks(), "rank", "ranks")).WithHint("ranks count from 0")
		}
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
