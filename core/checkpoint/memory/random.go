package memory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
)

// Options bound what Random makes.
type Options struct {
	DTypes  []dtype.Type
	Tensors int   // at most
	Ranks   int   // of a side, at most
	Stages  int   // of a side, at most
	Bytes   int64 // of a tensor, at most
}

// Random makes a checkpoint and another placement for its tensors, on any
// number of ranks. Shapes are such that every cut is even. Tensors may be
// empty, scalars, cut by nested axes and by optimizer shards of any size, tied
// over several stages, and outside of either strategy; the files of ranks may
// lack copies that others have.
func Random(r *rand.Rand, o Options) (*Checkpoint, *Placement) {
	g := random{Rand: r, o: o}
	from, to := g.placement(), g.placement()
	c := &Checkpoint{Placement: *from, Lacks: map[string][]int{}}
	for i := range 1 + r.IntN(o.Tensors) {
		g.tensor(fmt.Sprintf("%s.%d", pick(r, names), i), c, to)
	}
	for i := range c.Tensors {
		if r.IntN(3) == 0 {
			g.lack(c, &c.Tensors[i])
		}
	}
	return c, to
}

var names = []string{"layers.weight", "layers.bias", "adam_m.layers.weight", "moments.x", "net", "词"}

type random struct {
	*rand.Rand
	o Options
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (g *random) placement() *Placement {
	stages := 1
	if g.IntN(2) == 0 {
		stages = 1 + g.IntN(g.o.Stages)
	}
	return &Placement{
		Stages: stages, Devices: 1 + g.IntN(max(g.o.Ranks/stages, 1)),
		Specs: map[string]map[int]Spec{}, Outside: map[string][]int{},
	}
}

// tensor adds a tensor to c, and its place to the other side.
func (g *random) tensor(name string, c *Checkpoint, to *Placement) {
	t := Tensor{Name: name, DType: pick(g.Rand, g.o.DTypes), Shape: []int64{}}
	ndim := pick(g.Rand, []int{0, 1, 1, 2, 2, 2, 3, 4})
	part := t.DType.Size() == 0 // elements of no whole bytes are never cut
	c.Specs[name], to.Specs[name] = g.places(&c.Placement, ndim, part), g.places(to, ndim, part)
	unit := g.unit(c.Specs[name], to.Specs[name], ndim)
	budget := max(g.o.Bytes*8/t.DType.Bits(), 1)
	for i := range ndim {
		n := unit[i]
		for _, k := range []int64{2, 3, 5, 7, 16} {
			if g.IntN(3) == 0 && n*k <= budget {
				n *= k
			}
		}
		if budget /= max(n, 1); budget == 0 {
			budget = 1
		}
		t.Shape = append(t.Shape, n)
	}
	if part {
		t.Shape = append(t.Shape, 8)
		addDim(c.Specs[name])
		addDim(to.Specs[name])
	}
	if ndim > 0 && g.IntN(20) == 0 {
		t.Shape[g.IntN(len(t.Shape))] = 0
	}
	g.uneven(c.Specs[name], t.Shape)
	g.uneven(to.Specs[name], t.Shape)
	n, _ := t.DType.Bytes(t.Shape)
	if n > 16*g.o.Bytes {
		delete(c.Specs, name)
		delete(to.Specs, name)
		return
	}
	t.Data = make([]byte, n)
	for i := range t.Data {
		t.Data[i] = byte(g.Uint32())
	}
	if g.IntN(6) == 0 { // no strategy names it
		c.Outside[name] = slices.Sorted(maps.Keys(c.Specs[name]))
		delete(c.Specs, name)
		if g.IntN(2) == 0 {
			delete(to.Specs, name)
		}
	}
	c.Tensors = append(c.Tensors, t)
}

// uneven gives the parts of dim 0 any number of rows, none included, where each
// part is held by one rank, as manual splits are.
func (g *random) uneven(m map[int]Spec, shape []int64) {
	for _, stage := range slices.Sorted(maps.Keys(m)) {
		s := m[stage]
		if len(shape) == 0 || len(s.group(0)) > 1 || s.Counts()[0] == 1 || g.IntN(4) > 0 {
			continue
		}
		left := shape[0]
		for range s.Counts()[0] - 1 {
			n := g.Int64N(left + 1)
			s.Cuts = append(s.Cuts, n)
			left -= n
		}
		s.Cuts = append(s.Cuts, left)
		m[stage] = s
	}
}

func addDim(m map[int]Spec) {
	for s, x := range m {
		x.Dims = append(x.Dims, nil)
		m[s] = x
	}
}

// places puts a tensor into one stage, and a tied one into several.
func (g *random) places(p *Placement, ndim int, whole bool) map[int]Spec {
	out := map[int]Spec{g.IntN(p.Stages): g.spec(p.Devices, ndim, whole)}
	for p.Stages > 1 && g.IntN(4) == 0 {
		out[g.IntN(p.Stages)] = g.spec(p.Devices, ndim, whole)
	}
	return out
}

// unit is the least shape that all specs cut evenly.
func (g *random) unit(a, b map[int]Spec, ndim int) []int64 {
	unit := make([]int64, ndim)
	for i := range unit {
		unit[i] = 1
	}
	for _, m := range []map[int]Spec{a, b} {
		for _, s := range m {
			for i, n := range s.Counts() {
				unit[i] = lcm(unit[i], n)
			}
		}
	}
	return unit
}

func lcm(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// spec arranges ranks on a mesh of one to four axes and lets some of them cut.
func (g *random) spec(ranks, ndim int, whole bool) Spec {
	s := Spec{Mesh: g.mesh(ranks), Dims: make([][]int, ndim)}
	if ndim == 0 || whole {
		return s
	}
	group := ranks
	for _, a := range g.Perm(len(s.Mesh)) {
		if g.IntN(2) == 0 {
			i := g.IntN(ndim)
			s.Dims[i] = append(s.Dims[i], a)
			group /= s.Mesh[a]
		}
	}
	if g.IntN(2) == 0 {
		s.Opt = layout.All
		if g.IntN(2) == 0 {
			s.Opt = pick(g.Rand, divisors(group))
		}
		if g.IntN(8) == 0 {
			s.Opt = group + 1 // more than there are: all
		}
	}
	return s
}

func divisors(n int) []int {
	var out []int
	for k := 1; k <= n; k++ {
		if n%k == 0 {
			out = append(out, k)
		}
	}
	return out
}

// mesh writes a number as a product of one to four.
func (g *random) mesh(ranks int) []int {
	var out []int
	for n := 1 + g.IntN(4); n > 1; n-- {
		k := pick(g.Rand, divisors(ranks))
		out = append(out, k)
		ranks /= k
	}
	return append(out, ranks)
}

// lack takes copies of a tensor out of files, and leaves one of each part in
// the lowest stage that holds it.
func (g *random) lack(c *Checkpoint, t *Tensor) {
	stages := c.In(t.Name)
	kept := map[string]bool{}
	for _, rank := range g.Perm(c.Ranks()) {
		b, ok := c.Box(t, rank)
		if !ok {
			continue
		}
		lowest := rank/c.Devices == stages[0]
		if g.IntN(2) == 0 && (kept[b.String()] || !lowest) {
			c.Lacks[t.Name] = append(c.Lacks[t.Name], rank)
		} else if lowest {
			kept[b.String()] = true
		}
	}
}
