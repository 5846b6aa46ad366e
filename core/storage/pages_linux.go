package storage

import (
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

func pages(n int) ([]byte, error) {
	if n <= 0 || n > math.MaxInt-2*HugePage {
		return nil, fmt.Errorf("map %d bytes: %w", n, unix.EINVAL)
	}
	n = (n + Block - 1) &^ (Block - 1)
	slack := 0
	if n >= HugePage {
		slack = HugePage - Block
	}
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(n+slack), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", n, err)
	}
	if slack > 0 {
		head := int(-uintptr(base) & (HugePage - 1))
		start := unsafe.Add(base, head)
		unmap(base, head)
		unmap(unsafe.Add(start, n), slack-head)
		base = start
	}
	p := unsafe.Slice((*byte)(base), n)
	if n >= HugePage {
		_ = unix.Madvise(p, unix.MADV_HUGEPAGE) // without it the memory is only slower
	}
	return p, nil
}

// unmap gives back n bytes at p; the ends of a fresh mapping cannot fail.
func unmap(p unsafe.Pointer, n int) {
	if n > 0 {
		_ = unix.MunmapPtr(p, uintptr(n))
	}
}

func freePages(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if err := unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p))); err != nil {
		return fmt.Errorf("unmap %d bytes: %w", len(p), err)
	}
	return nil
}

func dropPages(p []byte) error {
	if err := unix.Madvise(p, unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("drop %d bytes: %w", len(p), err)
	}
	return nil
}
