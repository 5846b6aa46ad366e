package tensor

import "github.com/seed-e934e81e/convert/core/dtype"

// Narrow casts one f32 by definition.
func Narrow(to dtype.Type, v uint32) (w uint16, overflow bool) {
	w, inf := bf16FromF32(v), uint16(infBF)
	if to == dtype.F16 {
		w, inf = f16FromF32(v), inf16
	}
	return w, w&inf == inf && v&inf32 != inf32
}

// Plainly calls f on a processor without instructions for casts.
func Plainly(f func()) {
	defer func(k func() *kernelSet) { kernels = k }(kernels)
	kernels = plainKernels
	f()
}
