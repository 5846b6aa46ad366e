package tensor

import (
	"math"
	"sync"
)

// The casts of one element, on bit patterns. They are the definition: every
// faster way gives the same bits.
//
// A cast rounds once, to nearest, ties to even. What is too large becomes
// infinity. A NaN keeps its sign and the upper bits of its payload, and its
// quiet bit is set, so that it never becomes infinity.

const (
	sign32, inf32, quiet32 = 1 << 31, 0x7f800000, 1 << 22
	sign64, inf64, quiet64 = 1 << 63, 0x7ff << 52, 1 << 51
	inf16, quiet16         = 0x7c00, 0x0200 // binary16
	infBF, quietBF         = 0x7f80, 0x0040 // bfloat16
)

func bf16FromF32(v uint32) uint16 {
	if v&^sign32 > inf32 {
		return uint16(v>>16) | quietBF
	}
	return uint16((v + 0x7fff + v>>16&1) >> 16)
}

func f32FromBF16(v uint16) uint32 {
	w := uint32(v) << 16
	if w&^sign32 > inf32 {
		w |= quiet32
	}
	return w
}

func f16FromF32(v uint32) uint16 {
	s := uint16(v >> 16 & 0x8000)
	a := v &^ sign32
	switch {
	case a > inf32:
		return s | inf16 | quiet16 | uint16(a>>13&0x3ff)
	case a >= 0x477ff000: // 65520, halfway to what would be the next value
		return s | inf16
	case a >= 0x38800000: // 2^-14, the smallest normal value
		a -= 112 << 23
		return s | uint16((a+0xfff+a>>13&1)>>13)
	}
	// The processor rounds: next to 0.5 a unit in the last place of binary32 is
	// 2^-24, which is binary16's smallest value.
	return s | uint16(math.Float32bits(math.Float32frombits(a)+0.5)-0x3f000000)
}

func f32FromF16(v uint16) uint32 {
	s := uint32(v) << 16 & sign32
	a := uint32(v) & 0x7fff
	switch {
	case a > inf16:
		return s | inf32 | quiet32 | a<<13&0x7fffff
	case a == inf16:
		return s | inf32
	case a >= 0x0400:
		return s | (a<<13 + 112<<23)
	}
	return s | math.Float32bits(float32(a)*0x1p-24)
}

func f32FromF64(v uint64) uint32 {
	if v&^sign64 > inf64 {
		return uint32(v>>32&sign32) | inf32 | quiet32 | uint32(v>>29&0x7fffff)
	}
	return math.Float32bits(float32(math.Float64frombits(v)))
}

func f64FromF32(v uint32) uint64 {
	if v&^sign32 > inf32 {
		return uint64(v&sign32)<<32 | inf64 | quiet64 | uint64(v&0x7fffff)<<29
	}
	return math.Float64bits(float64(math.Float32frombits(v)))
}

func f16FromF64(v uint64) uint16 {
	s := uint16(v >> 48 & 0x8000)
	if a := v &^ sign64; a > inf64 {
		return s | inf16 | quiet16 | uint16(a>>42&0x3ff)
	}
	return f16FromF32(odd32(v))
}

func bf16FromF64(v uint64) uint16 {
	if v&^sign64 > inf64 {
		return uint16(v>>48&0x8000) | infBF | quietBF | uint16(v>>45&0x7f)
	}
	return bf16FromF32(odd32(v))
}

// odd32 rounds to odd: towards zero, and where that is not exact the last bit
// is set. Rounding the result to fewer bits is as good as rounding v, for a
// tie is a tie only if nothing was lost. v is not a NaN.
func odd32(v uint64) uint32 {
	f := math.Float64frombits(v)
	w := math.Float32bits(float32(f))
	back := float64(math.Float32frombits(w))
	if back == f {
		return w
	}
	if math.Abs(back) > math.Abs(f) { // also where back is infinite
		w--
	}
	return w | 1
}

// f16Table has the value of every binary16 pattern as binary32.
var f16Table = sync.OnceValue(func() *[1 << 16]uint32 {
	t := new([1 << 16]uint32)
	for i := range t {
		t[i] = f32FromF16(uint16(i))
	}
	return t
})
