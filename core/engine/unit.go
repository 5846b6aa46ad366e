package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mesh"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/sum"
)

// unit is one tensor, as it is read from one set of copies, and all target
// parts that are made of it.
type unit struct {
	tensor   int // index into the plan's tensors
	source   *checkpoint.Global
	target   *plan.Tensor
	place    int
	selector int
	shape    []int64 // the tensor's, or its bytes where elements are no whole bytes
	from, to int64   // bytes of an element
	cast     bool
	layout   *layout.Layout // of the source
	sides    []side
	bands    bands
	full     bool // every element is written
	compare  bool

	read, wrote *sum.Acc // the digest by the source's layout and by the target's
	overflow    atomic.Int64
	left        atomic.Int64 // bands that are not done yet
	told        sync.Map     // ranks whose copies are known to differ
}

// side is the target parts under one layout.
type side struct {
	layout *layout.Layout
	sinks  map[int]*sink // by block number
}

// sink is one distinct target part and the files that hold it.
type sink struct {
	box   box.Box
	dests []use
}

// units makes the work of a tensor: usually one unit, with MindSpore's rule
// for copies one for each set of copies.
func (r *run) units(ti int, uses []use) []*unit {
	type key struct{ place, selector int }
	var order []key
	by := map[key][]use{}
	for _, u := range uses {
		k := key{r.Groups[u.class.group].Items[u.item].From, r.Selector(u.class.ranks[0])}
		if r.Source.Tensors[r.Tensors[ti].Source].Places[k.place].Layout.Replicas() == 1 {
			k.selector = plan.AnyRank
		}
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], u)
	}
	out := make([]*unit, 0, len(order))
	for _, k := range order {
		out = append(out, r.unit(ti, k.place, k.selector, by[k]))
	}
	return out
}

// use is a class of files that holds a tensor.
type use struct {
	class *class
	item  int
}

func (r *run) unit(ti, place, selector int, uses []use) *unit {
	t := &r.Tensors[ti]
	s := &r.Source.Tensors[t.Source]
	u := &unit{
		tensor: ti, source: s, target: t, place: place, selector: selector,
		shape: t.Shape, from: s.DType.Size(), to: t.DType.Size(),
		cast: s.DType != t.DType, layout: s.Places[place].Layout,
	}
	u.compare = selector == plan.AnyRank && r.Compared(s)
	layouts := map[int]*layout.Layout{}
	if u.from == 0 { // whole bytes only as a whole; the plan has seen to it that nothing cuts it
		n, _ := s.DType.Bytes(s.Shape)
		u.shape, u.from, u.to = []int64{n}, 1, 1
		u.layout = flat(u.layout.Ranks())
	}
	for i, x := range uses {
		l := r.Groups[x.class.group].Items[x.item].Layout
		if s.DType.Size() == 0 {
			l = flat(l.Ranks())
		}
		layouts[i] = l
		u.add(l, x, r.Devices)
	}
	budget, size := r.o.budget(), r.o.bands()
	u.bands = geometry(u.shape, u.from*8, u.to*8, u.layout, u.sides[0].layout, budget, size)
	for _, sd := range u.sides[1:] {
		if g := geometry(u.shape, u.from*8, u.to*8, u.layout, sd.layout, budget, size); g.fan > u.bands.fan {
			u.bands = g
		}
	}
	for _, sd := range u.sides {
		u.full = u.full || len(sd.sinks) == sd.layout.Blocks()
	}
	n, _ := dtype.Elements(u.shape)
	u.read = sum.NewAcc(sum.CRC64, n*u.from)
	u.wrote = sum.NewAcc(sum.CRC64, n*u.to)
	return u
}

func flat(ranks int) *layout.Layout {
	m, err := mesh.New(nil, []int{ranks})
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return layout.Replicated(m, 1)
}

// add notes that the files of a class hold the part of their ranks.
func (u *unit) add(l *layout.Layout, x use, devices int) {
	i := slices.IndexFunc(u.sides, func(s side) bool { return s.layout.Equal(l) })
	if i < 0 {
		i = len(u.sides)
		u.sides = append(u.sides, side{layout: l, sinks: map[int]*sink{}})
	}
	b := make([]int, l.NDim())
	l.Block(x.class.ranks[0]%devices, b)
	n := number(l, b)
	k := u.sides[i].sinks[n]
	if k == nil {
		k = &sink{box: l.BlockBox(u.shape, b)}
		u.sides[i].sinks[n] = k
	}
	k.dests = append(k.dests, x)
}

// number is the row-major number of a block.
func number(l *layout.Layout, b []int) int {
	n := 0
	for i, c := range l.Counts() {
		n = n*c + b[i]
	}
	return n
}

// summed is the side whose parts make up the whole tensor, so that their bytes
// give its digest; −1 if there is none.
func (u *unit) summed() int {
	for i, sd := range u.sides {
		if len(sd.sinks) == sd.layout.Blocks() {
			return i
		}
	}
	return -1
}
