// Package tensor is the memory that tensors pass through and what is done to
// their elements there.
//
// A Pool hands out aligned, reference-counted Arrow buffers under a hard cap. A
// View says how a tensor lies in a buffer: element type, shape and byte
// strides. Copy moves strided elements, Cast changes their type, Swap their
// byte order, Negate and Conjugate their signs.
//
// Arrow is the memory, not the type system: it knows no bfloat16 and no types
// of 8 bits, its float16 truncates, and its tensors cannot be sliced.
package tensor
