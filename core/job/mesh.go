package job

import (
	"github.com/seed-e934e81e/convert/core/mesh"
)

// PipelineAxis is the name of the mesh axis whose coordinate is the pipeline
// stage.
const PipelineAxis = "pp"

// maxAxes is more than any mesh has: 2^24 ranks have no more axes of size 2.
const maxAxes = 24

// StageMesh takes the pipeline axis off a mesh: what is left is the mesh of
// each stage. A mesh without that axis is one stage.
func StageMesh(m mesh.Mesh) (stages int, stage mesh.Mesh) {
	if len(m.Axes) > 0 && m.Axes[0] == PipelineAxis {
		return m.Shape[0], mesh.Mesh{Axes: m.Axes[1:], Shape: m.Shape[1:]}
	}
	return 1, m
}

// mesh decodes `{ axes = […], shape = […] }`; what is wrong leaves dst nil.
func (d *decoder) mesh(dst **mesh.Mesh) field {
	return func(n *node) {
		before := d.errors
		var axes []string
		var shape []int
		d.table(n, "a mesh", fields{
			"axes":  func(n *node) { axes = items(d, n, "a list of names", d.axis) },
			"shape": func(n *node) { shape = items(d, n, "a list of integers", d.extent) },
		})
		if n.kind == table {
			d.meshNeeds(n, "axes", "shape")
		}
		if d.errors == before && len(axes) > maxAxes {
			d.fail(d.at.value(n.field("axes")), "the mesh has %d axes, at most %d are possible", len(axes), maxAxes)
		}
		if d.errors == before && len(axes) != len(shape) {
			d.fail(d.at.value(n.field("shape")), "the mesh has %d axes and %d sizes", len(axes), len(shape)).WithHint("each of `axes` has its size in `shape`, the outermost first")
		}
		if d.errors == before {
			d.makeMesh(n, axes, shape, dst)
		}
	}
}

func (d *decoder) meshNeeds(n *node, keys ...string) {
	for _, k := range keys {
		if n.field(k) == nil && !d.near[join(n.path, k)] {
			d.fail(d.at.value(n), "`%s` has no `%s`", n.path, k).WithHint("a mesh is written `{ axes = [\"dp\", \"tp\"], shape = [2, 4] }`")
		}
	}
}

func (d *decoder) makeMesh(n *node, axes []string, shape []int, dst **mesh.Mesh) {
	for i, a := range axes {
		for _, b := range axes[:i] {
			if a == b {
				d.fail(d.at.value(n.field("axes").items[i]), "the mesh has two axes called `%s`", a)
				return
			}
		}
		if a == PipelineAxis && i > 0 {
			d.fail(d.at.value(n.field("axes").items[i]), "the pipeline axis `%s` must be the outermost", a).WithHint("stages are contiguous ranks: name `%s` first", a)
			return
		}
	}
	m, err := mesh.New(axes, shape)
	if err != nil {
		d.fail(d.at.value(n.field("shape")), "the mesh has more than %d ranks", mesh.MaxRanks)
		return
	}
	*dst = &m
}

func (d *decoder) axis(n *node, out []string) []string {
	s, ok := d.full(n)
	if ok && (s == noAxis || s == replicate) {
		d.fail(d.at.value(n), "no axis can be called `%s`, which has a meaning in `shard`", s)
	}
	return append(out, s)
}

func (d *decoder) extent(n *node, out []int) []int {
	v, _ := d.integer(n, 1, mesh.MaxRanks)
	return append(out, v)
}
