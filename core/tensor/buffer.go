package tensor

import "github.com/apache/arrow/go/v17/arrow/memory"

// Buffer is memory with a reference count; the last Release returns it to its
// pool.
type Buffer struct{ *memory.Buffer }

// Wrap makes a buffer of bytes that no pool owns.
func Wrap(p []byte) *Buffer { return &Buffer{memory.NewBufferBytes(p)} }

// Arrow is the buffer as Arrow knows it. It shares the reference count.
func (b *Buffer) Arrow() *memory.Buffer { return b.Buffer }

var _ memory.Allocator = (*Pool)(nil)
