package storage_test

import (
	"testing"
	"unsafe"

	"github.com/seed-e934e81e/convert/core/storage"
)

func TestPagesAreAlignedZeroAndWritable(t *testing.T) {
	for _, n := range []int{1, storage.Block, 100 << 10, storage.HugePage, storage.HugePage + 1, 9 << 20} {
		p, err := storage.Pages(n)
		if err != nil {
			t.Fatal(err)
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(p))); len(p) < n || at%storage.Block != 0 {
			t.Errorf("Pages(%d) has %d bytes at %#x, want as many at a multiple of %d", n, len(p), at, storage.Block)
		}
		for i, b := range p {
			if b != 0 {
				t.Fatalf("Pages(%d): byte %d is %d, want 0", n, i, b)
			}
			p[i] = 1
		}
		if err := storage.DropPages(p); err != nil {
			t.Errorf("DropPages: %v", err)
		}
		p[0] = 2
		if err := storage.FreePages(p); err != nil {
			t.Errorf("FreePages: %v", err)
		}
	}
}

func TestPagesOfNoSizeAreRefused(t *testing.T) {
	for _, n := range []int{0, -1, int(^uint(0) >> 1)} {
		if _, err := storage.Pages(n); err == nil {
			t.Errorf("Pages(%d) succeeded, want an error", n)
		}
	}
}
