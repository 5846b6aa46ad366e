package tensor

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func bf16FromF32AVX2(dst, src *byte, n int) (overflow int64)

//go:noescape
func f16FromF32AVX2(dst, src *byte, n int) (overflow int64)

//go:noescape
func f32FromBF16AVX2(dst, src *byte, n int)

//go:noescape
func f32FromF16AVX2(dst, src *byte, n int)

func chooseKernels() *kernelSet {
	k := plainKernels()
	if !cpu.X86.HasAVX2 {
		return k
	}
	k.bf16sFromF32 = narrowing(bf16FromF32AVX2)
	k.f32sFromBF16 = widening(f32FromBF16AVX2)
	if cpu.X86.HasF16C {
		k.f16sFromF32 = narrowing(f16FromF32AVX2)
		k.f32sFromF16 = widening(f32FromF16AVX2)
	}
	return k
}

// most is the number of elements of one call: in that time nothing stops the
// goroutine.
const most = 1 << 20

// narrowing makes a kernel of a loop from four bytes an element to two.
func narrowing(loop func(dst, src *byte, n int) int64) func(dst, src []byte) (int, int64) {
	return func(dst, src []byte) (done int, overflow int64) {
		all := len(src) / 4 &^ 15
		_ = dst[:2*all]
		for done < all {
			n := min(most, all-done)
			overflow += loop(at(dst, 2*done), at(src, 4*done), n)
			done += n
		}
		return done, overflow
	}
}

// widening makes a kernel of a loop from two bytes an element to four.
func widening(loop func(dst, src *byte, n int)) func(dst, src []byte) int {
	return func(dst, src []byte) (done int) {
		all := len(src) / 2 &^ 15
		_ = dst[:4*all]
		for done < all {
			n := min(most, all-done)
			loop(at(dst, 4*done), at(src, 2*done), n)
			done += n
		}
		return done
	}
}

func at(p []byte, i int) *byte { return (*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(p)), i)) }
