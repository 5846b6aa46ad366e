// Package seeded makes checkpoints of any size, mesh and format whose every
// byte follows from a seed: to try the program, to measure it, and to know the
// right answer of any conversion without keeping one.
//
// The value of an element depends on the tensor's name, the seed and the
// element's place in the whole tensor, so each rank's part is written on its
// own, and the digest of a whole tensor is known without it.
package seeded

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/sum"
)

// Tensor is one tensor of a seeded checkpoint.
type Tensor struct {
	Name   string
	DType  dtype.Type
	Shape  []int64
	Stage  int
	Layout *layout.Layout
}

// stream is the values of one tensor: a counter-based generator, so that any
// element is had at once.
type stream struct {
	key   uint64
	dtype dtype.Type
}

func (t *Tensor) stream(seed uint64) stream {
	h := fnv.New64a()
	h.Write([]byte(t.Name))
	return stream{key: mix(h.Sum64() ^ mix(seed)), dtype: t.DType}
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// finite clears the top bit of the exponent, so that floating values are
// finite; every other bit pattern occurs.
func (s stream) finite() uint64 {
	switch s.dtype {
	case dtype.F64:
		return 0xbfffffffffffffff
	case dtype.F32:
		return 0xbfffffffbfffffff
	case dtype.F16, dtype.BF16:
		return 0xbfffbfffbfffbfff
	case dtype.Bool:
		return 0x0101010101010101
	}
	return ^uint64(0)
}

// fill writes the bytes of the tensor from byte at on into p.
func (s stream) fill(p []byte, at int64) {
	mask := s.finite()
	word := func(i int64) uint64 { return mix(s.key+uint64(i)) & mask }
	i := at / 8
	if r := at % 8; r != 0 {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], word(i))
		n := copy(p, b[r:])
		p, i = p[n:], i+1
	}
	for ; len(p) >= 8; p = p[8:] {
		binary.LittleEndian.PutUint64(p, word(i))
		i++
	}
	if len(p) > 0 {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], word(i))
		copy(p, b[:])
	}
}

// Fill writes the elements of a box of the tensor into p, row-major.
func (t *Tensor) Fill(seed uint64, b box.Box, p []byte) {
	s := t.stream(seed)
	es := t.DType.Size()
	b.Runs(t.Shape, func(at, n int64) bool {
		s.fill(p[:n*es], at*es)
		p = p[n*es:]
		return true
	})
}

// Digest is the CRC-64/NVME of the whole tensor.
func (t *Tensor) Digest(seed uint64) uint64 {
	s := t.stream(seed)
	n, _ := t.DType.Bytes(t.Shape)
	buf := make([]byte, min(n, 1<<20))
	var c uint64
	for at := int64(0); at < n; {
		k := min(int64(len(buf)), n-at)
		s.fill(buf[:k], at)
		c = sum.CRC64.Update(c, buf[:k])
		at += k
	}
	return c
}
