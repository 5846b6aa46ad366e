package storage

import (
	"os"
	"runtime"
	"sync"
	"unsafe"
)

// unit is the size of the blocks in which files are written past the page
// cache: what lies in one page is never written both ways, for then one of
// the two might be lost.
var unit = int64(max(Block, os.Getpagesize()))

// stagingBuffers bounds the memory for writes whose buffer does not suit.
const stagingBuffers = 4

// staging lends huge pages to writes whose buffer is not aligned as the file
// is. They go back to the system with the Local.
type staging struct {
	once sync.Once
	free chan *stage
}

// stage is one buffer; its pages are mapped when it is first lent.
type stage struct{ p []byte }

func (s *staging) get() (*stage, error) {
	s.once.Do(func() {
		s.free = make(chan *stage, stagingBuffers)
		for range stagingBuffers {
			s.free <- new(stage)
		}
	})
	b := <-s.free
	if b.p == nil {
		p, err := Pages(HugePage)
		if err != nil {
			s.free <- b
			return nil, err
		}
		b.p = p
		runtime.AddCleanup(b, func(p []byte) { _ = FreePages(p) }, p)
	}
	return b, nil
}

func (s *staging) put(b *stage) { s.free <- b }

// blockPool lends blocks of unit bytes for parts of blocks that wait for their
// neighbours, up to 4 MiB in all.
type blockPool struct {
	mu   sync.Mutex
	free [][]byte
	made int64
}

const blockMemory = 4 << 20

// get returns a block, or nil where all are lent.
func (b *blockPool) get() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.free) == 0 && b.made < blockMemory {
		const chunk = 256 << 10
		p := make([]byte, chunk+unit)
		p = p[-uintptr(unsafe.Pointer(unsafe.SliceData(p)))&uintptr(unit-1):]
		for at := int64(0); at+unit <= chunk; at += unit {
			b.free = append(b.free, p[at:at+unit:at+unit])
		}
		b.made += chunk
	}
	if len(b.free) == 0 {
		return nil
	}
	p := b.free[len(b.free)-1]
	b.free = b.free[:len(b.free)-1]
	return p
}

func (b *blockPool) put(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, p)
}
