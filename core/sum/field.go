package sum

import (
	"math/bits"
	"sync"
)

// field is GF(2)[x] modulo a polynomial of degree 64 or 32, in the reflected
// notation that both checks use: the highest bit is the coefficient of x^0.
type field struct {
	poly uint64 // without its leading term
	one  uint64 // x^0
	ones uint64 // all coefficients; the state both checks begin with
	red4 [16]uint64
	pow  [8][256]uint64 // pow[i][v] = x^(8·v·256^i)
	word op             // multiplication by x^64, or x^32 for CRC-32
}

// op is multiplication by a constant: op[i][b] is the product of the byte b at
// bit 8i. It takes 2 µs to make and 3 ns to apply.
type op [8][256]uint64

var (
	field64 = sync.OnceValue(func() *field { return newField(0x9a6c9329ac4bc9b5, 64) })
	field32 = sync.OnceValue(func() *field { return newField(0xedb88320, 32) })
)

func (k Kind) field() *field {
	if k == CRC32 {
		return field32()
	}
	return field64()
}

func newField(poly uint64, width uint) *field {
	f := &field{poly: poly, one: 1 << (width - 1), ones: ^uint64(0) >> (64 - width)}
	for i := range f.red4 {
		v := uint64(i)
		for range 4 {
			v = f.mulx(v)
		}
		f.red4[i] = v
	}
	step := f.one // x^(8·256^i)
	for range 8 {
		step = f.mulx(step)
	}
	for i := range f.pow {
		f.pow[i][0] = f.one
		for v := 1; v < 256; v++ {
			f.pow[i][v] = f.mul(f.pow[i][v-1], step)
		}
		step = f.mul(f.pow[i][255], step)
	}
	f.setOp(&f.word, f.pow[0][width/8])
	return f
}

// mulx multiplies by x.
func (f *field) mulx(v uint64) uint64 { return v>>1 ^ f.poly&-(v&1) }

// mul multiplies, four coefficients of b at a time.
func (f *field) mul(a, b uint64) uint64 {
	var t [16]uint64 // products of a with the polynomials of degree 3
	t[8] = a
	t[4] = f.mulx(t[8])
	t[2] = f.mulx(t[4])
	t[1] = f.mulx(t[2])
	for _, i := range [...]int{2, 4, 8} {
		for j := 1; j < i; j++ {
			t[i+j] = t[i] ^ t[j]
		}
	}
	var r uint64
	for m := f.ones; m != 0; m >>= 4 {
		r = r>>4 ^ f.red4[r&15] ^ t[b&15]
		b >>= 4
	}
	return r
}

// setOp makes o the multiplication by c.
func (f *field) setOp(o *op, c uint64) {
	for at := bits.Len64(f.one) - 1; at >= 0; at-- {
		i, b := at>>3, uint(1)<<(at&7)
		o[i][b] = c
		c = f.mulx(c)
	}
	for i := range o {
		for b := uint(1); b < 256; b++ {
			low := b & -b
			o[i][b] = o[i][low] ^ o[i][b^low]
		}
	}
}

func (o *op) apply(v uint64) uint64 {
	return o[0][v&0xff] ^ o[1][v>>8&0xff] ^ o[2][v>>16&0xff] ^ o[3][v>>24&0xff] ^
		o[4][v>>32&0xff] ^ o[5][v>>40&0xff] ^ o[6][v>>48&0xff] ^ o[7][v>>56]
}
