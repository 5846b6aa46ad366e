package tensor

import (
	"fmt"
	"math/bits"

	"github.com/seed-e934e81e/convert/core/dtype"
)

// Swap reverses the bytes of every unit bytes of p; units are of 1, 2, 4 or 8
// bytes (dtype.Type.Unit). What does not fill a unit at the end stays.
func Swap(p []byte, unit int64) {
	switch unit {
	case 1:
	case 2:
		const even = 0x00ff00ff00ff00ff
		for ; len(p) >= 8; p = p[8:] {
			v := le.Uint64(p)
			le.PutUint64(p, v>>8&even|v&even<<8)
		}
		for ; len(p) >= 2; p = p[2:] {
			p[0], p[1] = p[1], p[0]
		}
	case 4:
		for ; len(p) >= 8; p = p[8:] {
			le.PutUint64(p, bits.RotateLeft64(bits.ReverseBytes64(le.Uint64(p)), 32))
		}
		if len(p) >= 4 {
			le.PutUint32(p, bits.ReverseBytes32(le.Uint32(p)))
		}
	case 8:
		for ; len(p) >= 8; p = p[8:] {
			le.PutUint64(p, bits.ReverseBytes64(le.Uint64(p)))
		}
	default:
		panic(fmt.Sprintf("internal error: swap units of %d bytes", unit))
	}
}

// Negate changes the sign of every element of p: both parts of a complex one.
// It fails for types that have no sign bit of their own.
func Negate(p []byte, t dtype.Type) error {
	switch t {
	case dtype.F16, dtype.BF16, dtype.C32:
		flip(p, 0x8000800080008000)
	case dtype.F32, dtype.C64:
		flip(p, 0x8000000080000000)
	case dtype.F64, dtype.C128:
		flip(p, 0x8000000000000000)
	default:
		return fmt.Errorf("elements of %v cannot be negated by their sign bit", t)
	}
	return nil
}

// Conjugate changes the sign of the imaginary part of every element of p; a
// real one is its own conjugate.
func Conjugate(p []byte, t dtype.Type) error {
	switch t {
	case dtype.C32:
		flip(p, 0x8000000080000000)
	case dtype.C64:
		flip(p, 0x8000000000000000)
	case dtype.C128:
		for i := 15; i < len(p); i += 16 {
			p[i] ^= 0x80
		}
	}
	return nil
}

// flip inverts the bits of mask in every eight bytes of p, in little-endian
// order; a shorter rest takes the lower bytes of mask.
func flip(p []byte, mask uint64) {
	for ; len(p) >= 8; p = p[8:] {
		le.PutUint64(p, le.Uint64(p)^mask)
	}
	for i := range p {
		p[i] ^= byte(mask >> (8 * i))
	}
}
