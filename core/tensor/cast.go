package tensor

import (
	"encoding/binary"
	"fmt"

	"github.com/seed-e934e81e/convert/core/dtype"
)

var le = binary.LittleEndian

// Cast converts the elements of src, of type from, into dst, as type to. Both
// types are castable (dtype.Type.Castable), dst has room for as many elements,
// and the two do not overlap.
//
// Each value is rounded once, to nearest and ties to even. A NaN stays a NaN of
// the same sign, quiet, with the upper bits of its payload. overflow counts
// the finite values that became infinite. A cast to the same type copies.
func Cast(dst, src []byte, to, from dtype.Type) (overflow int64) {
	if !to.Castable() || !from.Castable() {
		panic(fmt.Sprintf("internal error: cast of %v to %v", from, to))
	}
	n := len(src) / int(from.Size())
	dst, src = dst[:n*int(to.Size())], src[:n*int(from.Size())]
	if to == from {
		copy(dst, src)
		return 0
	}
	return castOf(to, from)(dst, src)
}

// castOf is the loop for a pair of types.
func castOf(to, from dtype.Type) func(dst, src []byte) int64 {
	switch [2]dtype.Type{to, from} {
	case [2]dtype.Type{dtype.BF16, dtype.F32}:
		return bf16sFromF32
	case [2]dtype.Type{dtype.F32, dtype.BF16}:
		return f32sFromBF16
	case [2]dtype.Type{dtype.F16, dtype.F32}:
		return f16sFromF32
	case [2]dtype.Type{dtype.F32, dtype.F16}:
		return f32sFromF16
	case [2]dtype.Type{dtype.F32, dtype.F64}:
		return f32sFromF64
	case [2]dtype.Type{dtype.F64, dtype.F32}:
		return f64sFromF32
	case [2]dtype.Type{dtype.F16, dtype.F64}:
		return f16sFromF64
	case [2]dtype.Type{dtype.BF16, dtype.F64}:
		return bf16sFromF64
	}
	// The others widen to f32 first, which is exact.
	return func(dst, src []byte) int64 { return castVia(dst, src, to, from) }
}

func castVia(dst, src []byte, to, from dtype.Type) (overflow int64) {
	const step = 1024
	var mid [4 * step]byte
	in, out := int(from.Size()), int(to.Size())
	widen, narrow := castOf(dtype.F32, from), castOf(to, dtype.F32)
	for len(src) > 0 {
		n := min(step, len(src)/in)
		widen(mid[:4*n], src[:in*n])
		overflow += narrow(dst[:out*n], mid[:4*n])
		dst, src = dst[out*n:], src[in*n:]
	}
	return overflow
}

func bf16sFromF32(dst, src []byte) (overflow int64) {
	n, overflow := kernels().bf16sFromF32(dst, src)
	dst, src = dst[2*n:], src[4*n:]
	for len(src) >= 4 {
		v := le.Uint32(src)
		w := bf16FromF32(v)
		if w&infBF == infBF && v&inf32 != inf32 {
			overflow++
		}
		le.PutUint16(dst, w)
		dst, src = dst[2:], src[4:]
	}
	return overflow
}

func f32sFromBF16(dst, src []byte) int64 {
	n := kernels().f32sFromBF16(dst, src)
	dst, src = dst[4*n:], src[2*n:]
	for len(src) >= 2 {
		le.PutUint32(dst, f32FromBF16(le.Uint16(src)))
		dst, src = dst[4:], src[2:]
	}
	return 0
}

func f16sFromF32(dst, src []byte) (overflow int64) {
	n, overflow := kernels().f16sFromF32(dst, src)
	dst, src = dst[2*n:], src[4*n:]
	for len(src) >= 4 {
		v := le.Uint32(src)
		w := f16FromF32(v)
		if w&inf16 == inf16 && v&inf32 != inf32 {
			overflow++
		}
		le.PutUint16(dst, w)
		dst, src = dst[2:], src[4:]
	}
	return overflow
}

func f32sFromF16(dst, src []byte) int64 {
	n := kernels().f32sFromF16(dst, src)
	dst, src = dst[4*n:], src[2*n:]
	if len(src) == 0 {
		return 0
	}
	t := f16Table()
	for len(src) >= 2 {
		le.PutUint32(dst, t[le.Uint16(src)])
		dst, src = dst[4:], src[2:]
	}
	return 0
}

func f32sFromF64(dst, src []byte) (overflow int64) {
	for len(src) >= 8 {
		v := le.Uint64(src)
		w := f32FromF64(v)
		if w&inf32 == inf32 && v&inf64 != inf64 {
			overflow++
		}
		le.PutUint32(dst, w)
		dst, src = dst[4:], src[8:]
	}
	return overflow
}

func f64sFromF32(dst, src []byte) int64 {
	for len(src) >= 4 {
		le.PutUint64(dst, f64FromF32(le.Uint32(src)))
		dst, src = dst[8:], src[4:]
	}
	return 0
}

func f16sFromF64(dst, src []byte) (overflow int64) {
	for len(src) >= 8 {
		v := le.Uint64(src)
		w := f16FromF64(v)
		if w&inf16 == inf16 && v&inf64 != inf64 {
			overflow++
		}
		le.PutUint16(dst, w)
		dst, src = dst[2:], src[8:]
	}
	return overflow
}

func bf16sFromF64(dst, src []byte) (overflow int64) {
	for len(src) >= 8 {
		v := le.Uint64(src)
		w := bf16FromF64(v)
		if w&infBF == infBF && v&inf64 != inf64 {
			overflow++
		}
		le.PutUint16(dst, w)
		dst, src = dst[2:], src[8:]
	}
	return overflow
}
