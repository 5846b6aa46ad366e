package storage

import (
	"maps"
	"slices"
)

// edges are the blocks of a file of which only a part was written yet: where
// two tensors meet, and small writes. They are kept in memory, for a direct
// write is a whole number of blocks, and a write through the page cache waits
// for all direct ones to the same file. They are written when the pool of
// blocks is used up, and when the file is made durable.
type edges struct {
	pool  *blockPool
	parts map[int64]*edge // by offset of the block
}

// edge is one block and the spans of it that were written, in order.
type edge struct {
	p     []byte
	spans []Range
}

// add keeps the bytes p at off, which lie in one block. It is false where the
// pool is used up.
func (e *edges) add(p []byte, off int64) bool {
	at := off &^ (unit - 1)
	x := e.parts[at]
	if x == nil {
		b := e.pool.get()
		if b == nil {
			return false
		}
		if e.parts == nil {
			e.parts = map[int64]*edge{}
		}
		x = &edge{p: b}
		e.parts[at] = x
	}
	copy(x.p[off-at:], p)
	x.insert(Range{off - at, int64(len(p))})
	return true
}

// insert adds a span and joins it with those that it touches.
func (x *edge) insert(r Range) {
	i, _ := slices.BinarySearchFunc(x.spans, r.Off, func(s Range, off int64) int { return int(s.Off - off) })
	x.spans = slices.Insert(x.spans, i, r)
	out := x.spans[:1]
	for _, s := range x.spans[1:] {
		last := &out[len(out)-1]
		if s.Off > last.Off+last.Len {
			out = append(out, s)
			continue
		}
		last.Len = max(last.Len, s.Off+s.Len-last.Off)
	}
	x.spans = out
}

// take gives all blocks in order of their offset to f, each span of each, and
// empties e. After an error f is not called again.
func (e *edges) take(f func(p []byte, off int64) error) (err error) {
	for _, at := range slices.Sorted(maps.Keys(e.parts)) {
		x := e.parts[at]
		for _, s := range x.spans {
			if err == nil {
				err = f(x.p[s.Off:s.Off+s.Len], at+s.Off)
			}
		}
		e.pool.put(x.p)
	}
	e.parts = nil
	return err
}
