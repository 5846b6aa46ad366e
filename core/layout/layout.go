// Package layout says how one tensor lies on a mesh.
//
// For each tensor dim a layout has the ordered list of mesh axes that cut it,
// major first (MindSpore's tensor map and JAX's PartitionSpec in one form).
// An optimizer shard cuts dim 0 of each part further, over the ranks that
// would otherwise hold the same part. Ranks fall into blocks: the ranks of a
// block hold the same box, a copy each.
package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/mesh"
)

// All asks for an optimizer shard over the whole group of ranks that hold the
// same part.
const All = -1

// Layout is how one tensor lies on the mesh of one stage. It is immutable.
type Layout struct {
	mesh   mesh.Mesh
	dims   [][]int
	opt    int       // slices of dim 0 on top of the axes; at least 1
	cuts   [][]int64 // for each dim nil (even), or the size of each block
	counts []int     // blocks of each dim, opt included
	free   []int     // axes that cut no dim, ascending
	group  int       // ranks that agree on all axes that cut
	key    string
}

// Replicated is the layout in which every rank of m holds the whole tensor of
// n dims.
func Replicated(m mesh.Mesh, n int) *Layout {
	l, err := New(m, make([][]int, n), 0)
	if err != nil {
		panic("internal error: a replicated layout is always valid: " + err.Error())
	}
	return l
}

// New makes a layout. dims has for each tensor dim the mesh axes (0 is the
// outermost) that cut it, major first; no axis may occur twice. opt is the
// number of slices into which the optimizer shard cuts dim 0: 0 or 1 for none,
// All for the whole group. The slices go to consecutive runs of the group.
func New(m mesh.Mesh, dims [][]int, opt int) (*Layout, error) {
	l := &Layout{mesh: m, dims: make([][]int, len(dims)), opt: 1, counts: make([]int, len(dims)), cuts: make([][]int64, len(dims))}
	used := make([]bool, len(m.Shape))
	for i, axes := range dims {
		l.dims[i] = slices.Clone(axes)
		l.counts[i] = 1
		for _, a := range axes {
			if a < 0 || a >= len(m.Shape) {
				return nil, diag.Errorf(diag.Usage, "dim %d is cut by axis %d of a mesh of %d axes", i, a, len(m.Shape))
			}
			if used[a] {
				return nil, diag.Errorf(diag.Usage, "mesh axis %d cuts more than once", a)
			}
			used[a] = true
			l.counts[i] *= m.Shape[a]
		}
	}
	l.group = 1
	for a, u := range used {
		if !u {
			l.free = append(l.free, a)
			l.group *= m.Shape[a]
		}
	}
	switch {
	case opt == All || opt > l.group:
		l.opt = l.group
	case opt < 0:
		return nil, diag.Errorf(diag.Usage, "optimizer shard size is %d", opt)
	case opt > 1:
		l.opt = opt
	}
	if l.opt > 1 && len(dims) == 0 {
		return nil, diag.Errorf(diag.Usage, "a scalar cannot be cut by an optimizer shard")
	}
	if l.group%l.opt != 0 {
		return nil, diag.Errorf(diag.Usage, "optimizer shard size %d does not divide the %d ranks that hold the same part", l.opt, l.group)
	}
	if l.opt > 1 {
		l.counts[0] *= l.opt
	}
	l.key = l.makeKey()
	return l, nil
}

// WithCuts returns l with uneven blocks of one dim: sizes has the extent of
// each block, in order.
func (l *Layout) WithCuts(dim int, sizes []int64) (*Layout, error) {
	if dim < 0 || dim >= len(l.dims) || len(sizes) != l.counts[dim] {
		return nil, diag.Errorf(diag.Usage, "dim %d has %d explicit parts for %d blocks", dim, len(sizes), l.counts[min(max(dim, 0), len(l.counts)-1)])
	}
	c := *l
	c.cuts = slices.Clone(l.cuts)
	c.cuts[dim] = slices.Clone(sizes)
	c.key = c.makeKey()
	return &c, nil
}

// WithoutOpt returns l without its optimizer shard.
func (l *Layout) WithoutOpt() *Layout { return l.withOpt(0) }

// WithOpt returns l with an optimizer shard of that size.
func (l *Layout) WithOpt(size int) (*Layout, error) { return New(l.mesh, l.dims, size) }

func (l *Layout) withOpt(n int) *Layout {
	out, err := New(l.mesh, l.dims, n)
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return out
}

// Mesh is the device matrix of the stage.
func (l *Layout) Mesh() mesh.Mesh { return l.mesh }

// NDim is the number of tensor dims.
func (l *Layout) NDim() int { return len(l.dims) }

// Axes gives the mesh axes that cut dim i, major first. Do not change it.
func (l *Layout) Axes(i int) []int { return l.dims[i] }

// Opt is the number of slices of the optimizer shard, 1 for none.
func (l *Layout) Opt() int { return l.opt }

// Counts gives the number of blocks of each dim. Do not change it.
func (l *Layout) Counts() []int { return l.counts }

// Blocks is the number of distinct parts.
func (l *Layout) Blocks() int {
	n := 1
	for _, c := range l.counts {
		n *= c
	}
	return n
}

// Replicas is the number of ranks that hold each part.
func (l *Layout) Replicas() int { return l.group / l.opt }

// Ranks is the number of ranks of the mesh.
func (l *Layout) Ranks() int { return l.mesh.Ranks() }

// Block writes into b the block, one index for each dim, that a rank holds,
// and returns which of the copies it is, 0 ≤ copy < Replicas.
func (l *Layout) Block(rank int, b []int) (replica int) {
	var buf [16]int
	c := buf[:]
	if n := len(l.mesh.Shape); n <= len(buf) {
		c = c[:n]
	} else {
		c = make([]int, n)
	}
	l.mesh.Coord(rank, c)
	for i, axes := range l.dims {
		p := 0
		for _, a := range axes {
			p = p*l.mesh.Shape[a] + c[a]
		}
		b[i] = p
	}
	pos := 0
	for _, a := range l.free {
		pos = pos*l.mesh.Shape[a] + c[a]
	}
	if l.opt > 1 {
		b[0] = b[0]*l.opt + pos%l.opt
	}
	return pos / l.opt
}

// Rank is the rank that holds a given copy of a block.
func (l *Layout) Rank(b []int, replica int) int {
	c := make([]int, len(l.mesh.Shape))
	pos := replica * l.opt
	for i, axes := range l.dims {
		p := b[i]
		if i == 0 && l.opt > 1 {
			pos += p % l.opt
			p /= l.opt
		}
		for j := len(axes) - 1; j >= 0; j-- {
			n := l.mesh.Shape[axes[j]]
			c[axes[j]] = p % n
			p /= n
		}
	}
	for j := len(l.free) - 1; j >= 0; j-- {
		n := l.mesh.Shape[l.free[j]]
		c[l.free[j]] = pos % n
		pos /= n
	}
	return l.mesh.Rank(c)
}

// Check tells whether a tensor of that global shape can lie so: the number of
// dims agrees and every cut is even, or the explicit parts add up.
func (l *Layout) Check(shape []int64) error {
	if len(shape) != len(l.dims) {
		return diag.Errorf(diag.Usage, "layout has %d dims, the tensor %d", len(l.dims), len(shape))
	}
	for i, n := range shape {
		if l.cuts[i] != nil {
			var sum int64
			for _, c := range l.cuts[i] {
				sum += c
			}
			if sum != n {
				return diag.Errorf(diag.Usage, "the explicit parts of dim %d add up to %d, the tensor has %d", i, sum, n)
			}
			continue
		}
		if n%int64(l.counts[i]) != 0 {
			return diag.Errorf(diag.Usage, "does not split evenly: dim %d has %d elements over %s", i, n, l.cutName(i))
		}
	}
	return nil
}

func (l *Layout) cutName(i int) string {
	s := fmt.Sprintf("%d parts", l.counts[i])
	var names []string
	for _, a := range l.dims[i] {
		if n := l.mesh.Axes[a]; n != "" {
			names = append(names, fmt.Sprintf("%s=%d", n, l.mesh.Shape[a]))
		}
	}
	if i == 0 && l.opt > 1 {
		names = append(names, fmt.Sprintf("optimizer shard=%d", l.opt))
	}
	if len(names) == 0 {
		return s
	}
	return strings.Join(names, " × ")
}

// span is where block p of dim i lies in a dim of n elements.
func (l *Layout) span(i int, p int, n int64) (off, ext int64) {
	if c := l.cuts[i]; c != nil {
		for _, x := range c[:p] {
			off += x
		}
		return off, c[p]
	}
	w := n / int64(l.counts[i])
	return int64(p) * w, w
}

// find is the block of dim i that holds element x, which lies in the dim.
func (l *Layout) find(i int, x, n int64) int {
	if c := l.cuts[i]; c != nil {
		p := 0
		for x >= c[p] {
			x -= c[p]
			p++
		}
		return p
	}
	return int(x / (n / int64(l.counts[i])))
}

// BlockBox is the part of a tensor of that shape in a block. The shape must
// have passed Check.
func (l *Layout) BlockBox(shape []int64, b []int) box.Box {
	out := box.Box{Off: make([]int64, len(shape)), Ext: make([]int64, len(shape))}
	for i, n := range shape {
		out.Off[i], out.Ext[i] = l.span(i, b[i], n)
	}
	return out
}

// Box is the part of a tensor of that shape that a rank holds. The shape must
// have passed Check.
func (l *Layout) Box(shape []int64, rank int) box.Box {
	b := make([]int, len(l.dims))
	l.Block(rank, b)
	return l.BlockBox(shape, b)
}

// Global is the shape of the whole tensor of which a rank holds a part of the
// local shape. It is false where the layout is uneven, has another number of
// dims, or the product overflows.
func (l *Layout) Global(local []int64) ([]int64, bool) {
	if len(local) != len(l.dims) {
		return nil, false
	}
	out := make([]int64, len(local))
	for i, n := range local {
		if c := l.cuts[i]; c != nil {
			for _, x := range c {
				out[i] += x
			}
			continue
		}
		k := int64(l.counts[i])
		if n > (1<<62)/k {
			return nil, false
		}
		out[i] = n * k
	}
	return out, true
}

// Overlap calls f with each block that shares elements with the box b of a
// tensor of that shape (which has passed Check), in row-major order of blocks,
// and with the shared region in the tensor's coordinates. Both arguments are
// only valid during the call. It stops where f returns false.
func (l *Layout) Overlap(shape []int64, b box.Box, f func(block []int, part box.Box) bool) {
	n := len(shape)
	if b.Elements() == 0 {
		return
	}
	lo, hi, at := make([]int, n), make([]int, n), make([]int, n)
	for i := range shape {
		lo[i] = l.find(i, b.Off[i], shape[i])
		hi[i] = l.find(i, b.Off[i]+b.Ext[i]-1, shape[i])
	}
	copy(at, lo)
	part := box.Box{Off: make([]int64, n), Ext: make([]int64, n)}
	for {
		for i := range shape {
			off, ext := l.span(i, at[i], shape[i])
			from, to := max(off, b.Off[i]), min(off+ext, b.Off[i]+b.Ext[i])
			part.Off[i], part.Ext[i] = from, max(to-from, 0)
		}
		if part.Elements() > 0 && !f(at, part) {
			return
		}
		i := n - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] <= hi[i] {
				break
			}
			at[i] = lo[i]
		}
		if i < 0 {
			return
		}
	}
}

// Equal reports whether both layouts put every tensor the same way, axis
// names aside.
func (l *Layout) Equal(o *Layout) bool { return l == o || l.Key() == o.Key() }

// Key is a string that is equal for equal layouts, and only for those.
func (l *Layout) Key() string { return l.key }

// Even reports whether all parts have the same shape.
func (l *Layout) Even() bool {
	return !slices.ContainsFunc(l.cuts, func(c []int64) bool { return c != nil })
}

func (l *Layout) makeKey() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v|%v|%d", l.mesh.Shape, l.dims, l.opt)
	for i, c := range l.cuts {
		if c != nil {
			fmt.Fprintf(&b, "|%d:%v", i, c)
		}
	}
	return b.String()
}

// String writes a layout as "[tp, -]", or "[dp+tp, -] opt=4".
func (l *Layout) String() string {
	parts := make([]string, len(l.dims))
	for i, axes := range l.dims {
		parts[i] = "-"
		names := make([]string, len(axes))
		for j, a := range axes {
			if names[j] = l.mesh.Axes[a]; names[j] == "" {
				names[j] = fmt.Sprint(a)
			}
		}
		if len(axes) > 0 {
			parts[i] = strings.Join(names, "+")
		}
	}
	s := "[" + strings.Join(parts, ", ") + "]"
	if l.opt > 1 {
		s += fmt.Sprintf(" opt=%d", l.opt)
	}
	return s
}
