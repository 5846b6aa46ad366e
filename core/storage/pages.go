package storage

// HugePage is the size to which page memory is aligned where it spans that
// much. A direct transfer takes one segment for each page of its buffer, and
// devices bound the segments of a request: in pages of 4 KiB a transfer of
// 4 MiB is cut in four, in huge pages it is one request and twice as fast.
const HugePage = 2 << 20

// Pages returns n bytes of memory aligned to Block. On Linux it lies outside the
// Go heap, and in huge pages, aligned to them, where n is at least one. The
// memory reads as zeros. It is given back by FreePages with the slice that was
// returned.
func Pages(n int) ([]byte, error) { return pages(n) }

// FreePages gives back memory from Pages.
func FreePages(p []byte) error { return freePages(p) }

// DropPages gives the system the memory under p, a part of what Pages returned
// that is aligned to Block. Its address stays valid and its contents are lost.
func DropPages(p []byte) error { return dropPages(p) }
