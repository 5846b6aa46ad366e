package tensor

import "sync"

// kernelSet is the loops that the processor has instructions for. Each casts
// as many elements as it likes from the beginning of src and returns how many
// that were; the plain loop casts the rest.
type kernelSet struct {
	bf16sFromF32 func(dst, src []byte) (n int, overflow int64)
	f16sFromF32  func(dst, src []byte) (n int, overflow int64)
	f32sFromBF16 func(dst, src []byte) (n int)
	f32sFromF16  func(dst, src []byte) (n int)
}

// kernels are chosen once, by what the processor can do.
var kernels = sync.OnceValue(chooseKernels)

// plainKernels leave all to the plain loops.
func plainKernels() *kernelSet {
	narrow := func(_, _ []byte) (int, int64) { return 0, 0 }
	widen := func(_, _ []byte) int { return 0 }
	return &kernelSet{narrow, narrow, widen, widen}
}
