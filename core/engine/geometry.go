package engine

import (
	"slices"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/storage"
)

// bands cuts a tensor into bands: each fixes the dims before axis, spans a
// range of axis, and all of the dims after it.
type bands struct {
	shape []int64
	axis  int
	cuts  []int64 // positions on the axis at which bands begin, and its end
	limit int64   // bytes of a band in the source's type
	fan   int64   // parts that a band meets on one side at most, by the dims after axis
}

// geometry chooses the bands of a tensor, whose elements have so many bits in
// the source and in the target, so that a worker's buffers stay under budget.
func geometry(shape []int64, bits, target int64, from, to *layout.Layout, budget int64, size sizes) bands {
	g := bands{shape: shape, fan: 1}
	if len(shape) == 0 || slices.Contains(shape, 0) {
		return g
	}
	// A band takes its bytes in the source's type, somewhat more where source
	// parts are aligned, and the greatest target part in the target's type. A
	// quarter of the budget for either leaves room for all of it.
	most := max(budget/4*bits/max(bits, target), storage.Block)
	g.fan = int64(max(inner(from, 0), inner(to, 0)))
	g.limit = min(max(size.band, g.fan*size.floor), most)
	rest := int64(1)
	for i := range shape {
		rest *= shape[i]
	}
	for g.axis = 0; ; g.axis++ {
		rest /= shape[g.axis]
		if rest*bits/8 <= g.limit || g.axis == len(shape)-1 {
			break
		}
	}
	g.fan = int64(max(inner(from, g.axis), inner(to, g.axis)))
	step := max(g.limit/max(rest*bits/8, 1), 1)
	if bits < 8 {
		step = max(step/8*8, 8)
	}
	g.cuts = cutPoints(shape[g.axis], step, from, to, g.axis)
	return g
}

// inner is the number of blocks over the dims after axis.
func inner(l *layout.Layout, axis int) int {
	n := 1
	for _, c := range l.Counts()[axis+1:] {
		n *= c
	}
	return n
}

// cutPoints begins bands where parts begin, as long as that leaves them large:
// then a band comes from one part and goes to one part.
func cutPoints(n, step int64, from, to *layout.Layout, axis int) []int64 {
	edges := []int64{0, n}
	for _, l := range []*layout.Layout{from, to} {
		c := int64(l.Counts()[axis])
		if !l.Even() || c <= 1 || n/c < step/4 {
			continue
		}
		for i := int64(1); i < c; i++ {
			edges = append(edges, n/c*i)
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	out := edges[:1:1]
	for i := 1; i < len(edges); i++ {
		lo, hi := edges[i-1], edges[i]
		k := (hi - lo + step - 1) / step
		for j := int64(1); j < k; j++ {
			out = append(out, lo+(hi-lo)*j/k)
		}
		out = append(out, hi)
	}
	return out
}

// each calls f with every band, in row-major order. The box is only valid
// during the call.
func (g bands) each(f func(b box.Box) bool) {
	if slices.Contains(g.shape, 0) {
		return
	}
	b := box.Whole(g.shape)
	if len(g.shape) == 0 {
		f(b)
		return
	}
	for i := range g.axis {
		b.Ext[i] = 1
	}
	for {
		for i := 1; i < len(g.cuts); i++ {
			b.Off[g.axis], b.Ext[g.axis] = g.cuts[i-1], g.cuts[i]-g.cuts[i-1]
			if !f(b) {
				return
			}
		}
		i := g.axis - 1
		for ; i >= 0; i-- {
			if b.Off[i]++; b.Off[i] < g.shape[i] {
				break
			}
			b.Off[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// need is the bytes of buffers that the greatest band takes.
func (g bands) need(to, from int64) int64 {
	most := int64(1)
	for i := 1; i < len(g.cuts); i++ {
		most = max(most, g.cuts[i]-g.cuts[i-1])
	}
	if len(g.shape) > 0 {
		for _, n := range g.shape[g.axis+1:] {
			most *= n
		}
	}
	// Beside the source parts lies a target part, or a copy that is compared.
	return most*from/8 + most*max(to, from)/8 + (2*g.fan+4)*2*storage.Block
}
