// Package box does index arithmetic on boxes: axis-aligned regions of an
// n-dimensional, row-major tensor.
//
// Resharding is box arithmetic and nothing else. A shard is a box of its
// global tensor; what a target rank needs from a source rank is the
// intersection of their boxes; reading it is a list of runs.
package box

import (
	"fmt"
	"slices"
	"strings"
)

// Box is a region of a tensor: for each dim where it begins and how many
// elements it spans. A box without dims is the one element of a scalar.
type Box struct {
	Off []int64
	Ext []int64
}

// Whole is the box of a whole tensor of that shape.
func Whole(shape []int64) Box {
	return Box{Off: make([]int64, len(shape)), Ext: slices.Clone(shape)}
}

// Dims is the number of dims.
func (b Box) Dims() int { return len(b.Ext) }

// Elements is the number of elements; a box inside a tensor whose size fits
// int64 does not overflow.
func (b Box) Elements() int64 {
	n := int64(1)
	for _, e := range b.Ext {
		n *= e
	}
	return n
}

// Clone copies b.
func (b Box) Clone() Box {
	return Box{Off: slices.Clone(b.Off), Ext: slices.Clone(b.Ext)}
}

// Equal reports whether a and b are the same region.
func (b Box) Equal(a Box) bool {
	return slices.Equal(a.Off, b.Off) && slices.Equal(a.Ext, b.Ext)
}

// Contains reports whether every element of a lies in b.
func (b Box) Contains(a Box) bool {
	for i := range b.Ext {
		if a.Off[i] < b.Off[i] || a.Off[i]+a.Ext[i] > b.Off[i]+b.Ext[i] {
			return false
		}
	}
	return true
}

// Intersect gives the common region of a and b, which have the same number of
// dims, and false where they share no element.
func Intersect(a, b Box) (Box, bool) {
	out := Box{Off: make([]int64, len(a.Ext)), Ext: make([]int64, len(a.Ext))}
	for i := range a.Ext {
		lo := max(a.Off[i], b.Off[i])
		hi := min(a.Off[i]+a.Ext[i], b.Off[i]+b.Ext[i])
		if hi <= lo {
			return Box{}, false
		}
		out.Off[i], out.Ext[i] = lo, hi-lo
	}
	return out, true
}

// In gives b relative to the origin of outer.
func (b Box) In(outer Box) Box {
	c := b.Clone()
	for i := range c.Off {
		c.Off[i] -= outer.Off[i]
	}
	return c
}

// String writes a box as slices: "[0:4, 8:16]".
func (b Box) String() string {
	var s strings.Builder
	s.WriteByte('[')
	for i := range b.Ext {
		if i > 0 {
			s.WriteString(", ")
		}
		fmt.Fprintf(&s, "%d:%d", b.Off[i], b.Off[i]+b.Ext[i])
	}
	s.WriteByte(']')
	return s.String()
}

// Strides gives the row-major strides, in elements, of a tensor of that shape.
func Strides(shape []int64) []int64 {
	out := make([]int64, len(shape))
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = n
		n *= shape[i]
	}
	return out
}

// Index is the position, in elements, of the first element of b in the
// row-major order of a tensor of that shape.
func (b Box) Index(shape []int64) int64 {
	at := int64(0)
	for i := range shape {
		at = at*shape[i] + b.Off[i]
	}
	return at
}

// Contiguous reports whether the elements of b follow each other without a
// gap in the row-major order of a tensor of that shape.
func (b Box) Contiguous(shape []int64) bool {
	i := 0
	for i < len(shape) && b.Ext[i] == 1 {
		i++
	}
	for i++; i < len(shape); i++ {
		if b.Ext[i] != shape[i] {
			return false
		}
	}
	return true
}

// Runs calls f with each maximal run of consecutive elements of b in the
// row-major order of a tensor of that shape: its position and length in
// elements, in ascending order. It stops where f returns false.
func (b Box) Runs(shape []int64, f func(at, n int64) bool) {
	if b.Elements() == 0 {
		return
	}
	// The dims from k on are whole, so that a run spans dim k-1's extent too.
	k := len(shape)
	n := int64(1)
	for k > 0 {
		k--
		n *= b.Ext[k]
		if b.Ext[k] != shape[k] {
			break
		}
	}
	if k == 0 {
		f(b.Index(shape), n)
		return
	}
	stride := Strides(shape)
	idx := make([]int64, k)
	for {
		at := int64(0)
		for i := range shape {
			at += b.Off[i] * stride[i]
		}
		for i, x := range idx {
			at += x * stride[i]
		}
		if !f(at, n) {
			return
		}
		i := k - 1
		for ; i >= 0; i-- {
			if idx[i]++; idx[i] < b.Ext[i] {
				break
			}
			idx[i] = 0
		}
		if i < 0 {
			return
		}
	}
}
