// Package memory makes small random checkpoints for tests. All their tensors
// are known as wholes, and what a rank holds of one is found here by the
// definition, rank by rank and element by element: slow, short, and sharing
// nothing with the program's own arithmetic, which is held against it.
package memory

import (
	"slices"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mesh"
)

// Spec is how a tensor lies on the ranks of one stage: what layout.New takes.
type Spec struct {
	Mesh []int   // sizes of the axes, the outermost first
	Dims [][]int // for each dim the axes that cut it, major first
	Opt  int     // slices of the optimizer shard
	Cuts []int64 // rows of each part of dim 0, where they are uneven
}

// Whole is the spec in which every one of so many ranks holds all of n dims.
func Whole(ranks, n int) Spec { return Spec{Mesh: []int{ranks}, Dims: make([][]int, n)} }

// Layout is the spec as the program knows it.
func (s Spec) Layout() (*layout.Layout, error) {
	m, err := mesh.New(nil, s.Mesh)
	if err != nil {
		return nil, err
	}
	l, err := layout.New(m, s.Dims, s.Opt)
	if err != nil || s.Cuts == nil {
		return l, err
	}
	return l.WithCuts(0, s.Cuts)
}

// Ranks is the number of ranks of the mesh.
func (s Spec) Ranks() int {
	n := 1
	for _, x := range s.Mesh {
		n *= x
	}
	return n
}

// coord is where a rank is on the mesh; the last axis varies fastest.
func (s Spec) coord(rank int) []int {
	c := make([]int, len(s.Mesh))
	for i := len(c) - 1; i >= 0; i-- {
		c[i] = rank % s.Mesh[i]
		rank /= s.Mesh[i]
	}
	return c
}

// group lists the ranks that agree with one on every axis that cuts.
func (s Spec) group(rank int) []int {
	var out []int
	mine := s.coord(rank)
	for r := range s.Ranks() {
		c, same := s.coord(r), true
		for _, axes := range s.Dims {
			for _, a := range axes {
				same = same && c[a] == mine[a]
			}
		}
		if same {
			out = append(out, r)
		}
	}
	return out
}

// slices is the number of slices of the optimizer shard, given its group.
func (s Spec) slices(group []int) int {
	if s.Opt == layout.All || s.Opt > len(group) {
		return len(group)
	}
	return max(s.Opt, 1)
}

// Counts is the number of parts of each dim.
func (s Spec) Counts() []int64 {
	out := make([]int64, len(s.Dims))
	for i, axes := range s.Dims {
		out[i] = 1
		for _, a := range axes {
			out[i] *= int64(s.Mesh[a])
		}
	}
	if len(out) > 0 {
		out[0] *= int64(s.slices(s.group(0)))
	}
	return out
}

// Box is what a rank holds of a tensor of that shape. Each dim is cut by its
// axes, the first being the most significant; then the group of ranks that
// hold the same is listed, cut in consecutive runs, and the place of the rank
// in its run says which slice of dim 0 it keeps. Uneven parts of dim 0 follow
// each other.
func (s Spec) Box(shape []int64, rank int) box.Box {
	b := box.Whole(shape)
	c := s.coord(rank)
	for i, axes := range s.Dims {
		if i == 0 && s.Cuts != nil {
			part := 0
			for _, a := range axes {
				part = part*s.Mesh[a] + c[a]
			}
			for _, n := range s.Cuts[:part] {
				b.Off[0] += n
			}
			b.Ext[0] = s.Cuts[part]
			continue
		}
		for _, a := range axes {
			b.Ext[i] /= int64(s.Mesh[a])
			b.Off[i] += int64(c[a]) * b.Ext[i]
		}
	}
	group := s.group(rank)
	if k := s.slices(group); k > 1 {
		b.Ext[0] /= int64(k)
		b.Off[0] += int64(slices.Index(group, rank)%k) * b.Ext[0]
	}
	return b
}

// Cut takes a box out of the row-major bytes of a tensor, element by element.
func Cut(data []byte, bits int64, shape []int64, b box.Box) []byte {
	if b.Equal(box.Whole(shape)) {
		return data
	}
	out, size := []byte{}, bits/8
	index := slices.Clone(b.Off)
	for range b.Elements() {
		at := box.Box{Off: index}.Index(shape) * size
		out = append(out, data[at:at+size]...)
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < b.Off[i]+b.Ext[i] {
				break
			}
			index[i] = b.Off[i]
		}
	}
	return out
}
