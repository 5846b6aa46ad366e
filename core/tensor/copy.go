package tensor

import (
	"slices"
	"unsafe"
)

// Copy copies a box of elements of elem bytes: element i of ext from
// src[Σ i·srcStride] to dst[Σ i·dstStride]. Strides are in bytes, have as many
// dims as ext, and are not negative; those of dst lead to different places. It
// panics where an element does not lie inside its buffer.
func Copy(dst []byte, dstStride []int64, src []byte, srcStride []int64, ext []int64, elem int64) {
	dims, empty := plan(dstStride, srcStride, ext)
	if empty || elem == 0 {
		return
	}
	var d, s int64
	for _, x := range dims {
		d += (x.n - 1) * x.dst
		s += (x.n - 1) * x.src
	}
	_, _ = dst[d:d+elem], src[s:s+elem] // the last element: all others are before it
	c := copier{dst: unsafe.Pointer(unsafe.SliceData(dst)), src: unsafe.Pointer(unsafe.SliceData(src)), elem: elem}
	if n := len(dims); n > 0 && dims[n-1].dst == elem && dims[n-1].src == elem {
		c.elem *= dims[n-1].n
		dims = dims[:n-1]
		c.leaf = c.run
	} else {
		c.leaf = c.leafOf(&dims)
	}
	c.walk(dims, 0, 0)
}

// dim is one level of a copy: n steps of so many bytes.
type dim struct{ n, dst, src int64 }

// plan drops dims of one element, puts the others in the order of the target,
// and joins those that follow each other on both sides.
func plan(dst, src, ext []int64) (dims []dim, empty bool) {
	dims = make([]dim, 0, len(ext)+1)
	for i, n := range ext {
		switch {
		case n <= 0:
			return nil, true
		case dst[i] < 0 || src[i] < 0:
			panic("internal error: a copy has a negative stride")
		case n > 1:
			dims = append(dims, dim{n, dst[i], src[i]})
		}
	}
	slices.SortStableFunc(dims, func(a, b dim) int {
		switch {
		case a.dst > b.dst:
			return -1
		case a.dst < b.dst:
			return 1
		}
		return 0
	})
	for i := len(dims) - 2; i >= 0; i-- {
		a, b := &dims[i], dims[i+1]
		if a.dst == b.dst*b.n && a.src == b.src*b.n {
			*a = dim{a.n * b.n, b.dst, b.src}
			dims = slices.Delete(dims, i+1, i+2)
		}
	}
	return dims, false
}

// copier copies one box. The bounds were checked once for all of it.
type copier struct {
	dst, src unsafe.Pointer
	elem     int64
	a, b     dim // what leaf goes over
	leaf     func(d, s int64)
}

// walk calls the leaf for every index of dims.
func (c *copier) walk(dims []dim, d, s int64) {
	if len(dims) == 0 {
		c.leaf(d, s)
		return
	}
	for range dims[0].n {
		c.walk(dims[1:], d, s)
		d += dims[0].dst
		s += dims[0].src
	}
}

// leafOf chooses how the inner dims are copied and takes them off dims.
func (c *copier) leafOf(dims *[]dim) func(d, s int64) {
	list := *dims
	last := len(list) - 1
	if last < 0 {
		return c.run
	}
	// The dim that is innermost in the source: where it is not the target's
	// innermost too, both are walked in tiles, so that the lines of both stay
	// in cache.
	in := last
	for i, x := range list[:last] {
		if x.src < list[in].src {
			in = i
		}
	}
	c.b = list[last]
	if in == last {
		*dims = list[:last]
		return c.line()
	}
	c.a = list[in]
	*dims = slices.Delete(list[:last], in, in+1)
	return c.tiles()
}

func (c *copier) run(d, s int64) {
	copy(unsafe.Slice((*byte)(unsafe.Add(c.dst, d)), c.elem), unsafe.Slice((*byte)(unsafe.Add(c.src, s)), c.elem))
}

// line copies the dim b.
func (c *copier) line() func(d, s int64) {
	switch c.elem {
	case 1:
		return func(d, s int64) { strided[uint8](c.at(d, s), c.b) }
	case 2:
		return func(d, s int64) { strided[uint16](c.at(d, s), c.b) }
	case 4:
		return func(d, s int64) { strided[uint32](c.at(d, s), c.b) }
	case 8:
		return func(d, s int64) { strided[uint64](c.at(d, s), c.b) }
	case 16:
		return func(d, s int64) { strided[wide](c.at(d, s), c.b) }
	}
	return func(d, s int64) {
		for range c.b.n {
			c.run(d, s)
			d += c.b.dst
			s += c.b.src
		}
	}
}

// sideOf is the number of elements on a side of a tile: a cache line's worth,
// so that a line is brought in once on either side.
func sideOf(elem int64) int64 { return min(64, max(16, 128/elem)) }

// tiles copies the dims a and b in tiles.
func (c *copier) tiles() func(d, s int64) {
	side := sideOf(c.elem)
	block := c.tileOf(side)
	return func(d, s int64) {
		for i := int64(0); i < c.a.n; i += side {
			for j := int64(0); j < c.b.n; j += side {
				a, b := c.a, c.b
				a.n, b.n = min(side, a.n-i), min(side, b.n-j)
				block(d+i*a.dst+j*b.dst, s+i*a.src+j*b.src, a, b)
			}
		}
	}
}

// tileOf chooses how a tile is copied. Where it is dense in the source it is
// first gathered in a buffer: rows of tensors often lie a power of two apart,
// and then a cache can hold only a few of their lines at a time.
func (c *copier) tileOf(side int64) func(d, s int64, a, b dim) {
	t := c.transposer()
	if t == nil {
		return func(d, s int64, a, b dim) {
			for i := range a.n {
				for j := range b.n {
					c.run(d+i*a.dst+j*b.dst, s+i*a.src+j*b.src)
				}
			}
		}
	}
	if c.a.src != c.elem {
		return func(d, s int64, a, b dim) { t(c.at(d, s), a, b) }
	}
	pitch := side*c.elem + 64 // lines of the buffer do not compete either
	tile := make([]byte, side*pitch)
	buf := unsafe.Pointer(unsafe.SliceData(tile))
	return func(d, s int64, a, b dim) {
		for j := range b.n {
			copy(tile[j*pitch:], unsafe.Slice((*byte)(unsafe.Add(c.src, s+j*b.src)), a.n*c.elem))
		}
		b.src = pitch
		t(pair{unsafe.Add(c.dst, d), buf}, a, b)
	}
}

// transposer is the loop for the element size, or nil.
func (c *copier) transposer() func(p pair, a, b dim) {
	dense := c.a.src == c.elem && c.b.dst == c.elem
	switch {
	case c.elem == 1 && dense:
		return transpose1
	case c.elem == 2 && dense:
		return transpose2
	case c.elem == 1:
		return lines[uint8]
	case c.elem == 2:
		return lines[uint16]
	case c.elem == 4:
		return lines[uint32]
	case c.elem == 8:
		return lines[uint64]
	case c.elem == 16:
		return lines[wide]
	}
	return nil
}

// pair is a place in the target and one in the source.
type pair struct{ dst, src unsafe.Pointer }

func (c *copier) at(d, s int64) pair { return pair{unsafe.Add(c.dst, d), unsafe.Add(c.src, s)} }
