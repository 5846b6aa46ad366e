// Package mesh is the device matrix: ranks arranged on named axes, the
// outermost axis first. A rank and its coordinate are row-major in each other:
// the last axis varies fastest.
package mesh

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-e934e81e/convert/core/diag"
)

// MaxRanks bounds the devices of a mesh, so that a hostile strategy cannot ask
// for more than any cluster has.
const MaxRanks = 1 << 20

// Mesh is a device matrix. Axes may be unnamed ("").
type Mesh struct {
	Axes  []string
	Shape []int
}

// New checks a device matrix. axes may be nil; otherwise each axis has a name
// of its own.
func New(axes []string, shape []int) (Mesh, error) {
	if axes == nil {
		axes = make([]string, len(shape))
	} else if len(axes) != len(shape) {
		return Mesh{}, diag.Errorf(diag.Usage, "mesh has %d axes and %d sizes", len(axes), len(shape))
	}
	n := 1
	for i, s := range shape {
		if s < 1 || s > MaxRanks || n > MaxRanks/s {
			return Mesh{}, diag.Errorf(diag.Usage, "mesh %v is not possible: every axis has at least 1 rank, all together at most %d", shape, MaxRanks)
		}
		n *= s
		if axes[i] != "" && slices.Contains(axes[:i], axes[i]) {
			return Mesh{}, diag.Errorf(diag.Usage, "mesh has two axes called `%s`", axes[i])
		}
	}
	return Mesh{Axes: slices.Clone(axes), Shape: slices.Clone(shape)}, nil
}

// Ranks is the number of ranks.
func (m Mesh) Ranks() int {
	n := 1
	for _, s := range m.Shape {
		n *= s
	}
	return n
}

// Coord writes the coordinate of a rank into c, which has one entry an axis.
func (m Mesh) Coord(rank int, c []int) {
	for i := len(m.Shape) - 1; i >= 0; i-- {
		c[i] = rank % m.Shape[i]
		rank /= m.Shape[i]
	}
}

// Rank is the rank at a coordinate.
func (m Mesh) Rank(c []int) int {
	r := 0
	for i, s := range m.Shape {
		r = r*s + c[i]
	}
	return r
}

// Axis finds an axis by name.
func (m Mesh) Axis(name string) (int, bool) {
	i := slices.Index(m.Axes, name)
	return i, i >= 0
}

// Equal reports whether both are the same matrix, names included.
func (m Mesh) Equal(o Mesh) bool {
	return slices.Equal(m.Axes, o.Axes) && slices.Equal(m.Shape, o.Shape)
}

// String writes a mesh as "pp=2 tp=4", or "2 × 4" where axes have no names.
func (m Mesh) String() string {
	parts := make([]string, len(m.Shape))
	named := false
	for i, s := range m.Shape {
		if m.Axes[i] != "" {
			parts[i], named = fmt.Sprintf("%s=%d", m.Axes[i], s), true
			continue
		}
		parts[i] = fmt.Sprint(s)
	}
	if named {
		return strings.Join(parts, " ")
	}
	return strings.Join(parts, " × ")
}
