//go:build !linux

package storage

import (
	"fmt"
	"math"
	"unsafe"
)

// Without Linux' calls the memory comes from the Go heap, and goes back when
// the collector finds that nothing refers to it.

func pages(n int) ([]byte, error) {
	if n <= 0 || n > math.MaxInt-2*HugePage {
		return nil, fmt.Errorf("allocate %d bytes: not a size", n)
	}
	n = (n + Block - 1) &^ (Block - 1)
	p := make([]byte, n+Block)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(p))) & (Block - 1))
	return p[skip : skip+n : skip+n], nil
}

func freePages([]byte) error { return nil }

func dropPages([]byte) error { return nil }
