package tensor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/storage"
)

// The pool keeps its memory in blocks. A block of at most maxSlot bytes is a
// slot of a slab, one huge page cut in slots of one size; a larger one has
// pages of its own. Blocks that come back are kept for the next request of
// their size. Where the cap leaves no room, idle memory of other sizes goes
// back to the system first, down to idle slots in slabs that are in use, so
// a request waits for buffers that others hold and for nothing else.
const (
	minBlock = 64 << 10
	maxSlot  = 1 << 20
	slabSize = storage.HugePage
)

// ErrClosed is returned by a pool that was closed.
var ErrClosed = errors.New("the pool is closed")

// Pool is a memory.Allocator with a hard cap. Its buffers begin at a multiple
// of storage.Block; their contents are not cleared. It is safe for concurrent
// use.
type Pool struct {
	cap int64

	mu     sync.Mutex
	room   chan struct{}    // closed when memory comes back
	live   map[*byte]*block // handed out
	idle   map[int][]*block // by size, most recently used last
	inUse  int64            // bytes handed out
	kept   int64            // idle bytes that the system has not got back
	peak   int64
	closed bool
}

// block is a run of memory of one size.
type block struct {
	p       []byte
	slab    *slab // nil where it has pages of its own
	dropped bool  // idle, and its memory was given back
}

// slab is one huge page.
type slab struct {
	p    []byte
	live int // slots handed out
}

// NewPool makes a pool that hands out at most limit bytes at a time, rounded up
// to whole blocks.
func NewPool(limit int64) *Pool {
	return &Pool{
		cap:  limit,
		room: make(chan struct{}),
		live: map[*byte]*block{},
		idle: map[int][]*block{},
	}
}

// Footprint is what a buffer of n bytes counts against the cap: at least 64
// KiB; up to 1 MiB the next whole fraction of 2 MiB; beyond, n rounded up by at
// most a sixteenth.
func Footprint(n int) int {
	if n <= maxSlot {
		pages := (max(n, minBlock) + storage.Block - 1) / storage.Block
		const all = slabSize / storage.Block
		return all / (all / pages) * storage.Block
	}
	step := 1 << (bits.Len(uint(n-1)) - 5)
	return (n + step - 1) &^ (step - 1)
}

// Get returns a buffer of n bytes. It waits while others hold so much that n
// does not fit under the cap, until ctx ends. It fails at once where n would
// never fit.
func (p *Pool) Get(ctx context.Context, n int) (*Buffer, error) {
	b, err := p.get(ctx, n)
	if err != nil {
		return nil, err
	}
	return &Buffer{memory.NewBufferWithAllocator(b, p)}, nil
}

// TryGet is Get that does not wait: it returns nil where memory is short.
func (p *Pool) TryGet(n int) (*Buffer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.take(n)
	if b == nil || err != nil {
		return nil, err
	}
	return &Buffer{memory.NewBufferWithAllocator(b, p)}, nil
}

// InUse is the number of bytes handed out, as Footprint counts them.
func (p *Pool) InUse() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse
}

// Peak is the most that InUse has been.
func (p *Pool) Peak() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peak
}

// Held is the number of bytes that the pool has from the system: those in use
// and those kept for reuse. It never exceeds the cap.
func (p *Pool) Held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse + p.kept
}

// Cap is the limit.
func (p *Pool) Cap() int64 { return p.cap }

// Close gives idle memory back; buffers that are still held follow when they
// are released. Get fails from then on. It is an error if buffers are held.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.room)
	}
	err := p.evict(math.MaxInt64, 0)
	if p.inUse > 0 {
		err = errors.Join(err, fmt.Errorf("%d buffers of %d bytes are still held", len(p.live), p.inUse))
	}
	return err
}

// Allocate is Get for Arrow, which expects no error: it waits for as long as it
// takes and panics where size is over the cap.
func (p *Pool) Allocate(size int) []byte {
	if size == 0 {
		return nil
	}
	b, err := p.get(context.Background(), size)
	if err != nil {
		panic(fmt.Sprintf("internal error: allocate: %v", err))
	}
	return b
}

// Reallocate returns a buffer of size bytes with the contents of b, as far as
// they fit, and frees b where that is another one.
func (p *Pool) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) && size > 0 {
		return b[:size]
	}
	n := p.Allocate(size)
	copy(n, b)
	p.Free(b)
	return n
}

// Free takes back what Allocate returned.
func (p *Pool) Free(b []byte) {
	if cap(b) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := unsafe.SliceData(b)
	blk := p.live[key]
	if blk == nil {
		panic("internal error: a buffer was freed twice or is not of this pool")
	}
	delete(p.live, key)
	n := len(blk.p)
	p.inUse -= int64(n)
	p.kept += int64(n)
	p.idle[n] = append(p.idle[n], blk)
	if blk.slab != nil {
		blk.slab.live--
	}
	if p.closed {
		_ = p.evict(math.MaxInt64, 0) // Close has reported what is left
		return
	}
	close(p.room)
	p.room = make(chan struct{})
}

func (p *Pool) get(ctx context.Context, n int) ([]byte, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p.mu.Lock()
		b, err := p.take(n)
		room := p.room
		p.mu.Unlock()
		if b != nil || err != nil {
			return b, err
		}
		select {
		case <-room:
		case <-ctx.Done():
		}
	}
}

// take hands out n bytes, or nil where the cap leaves no room.
func (p *Pool) take(n int) ([]byte, error) {
	if p.closed {
		return nil, ErrClosed
	}
	size := 0
	if n >= 0 && int64(n) <= p.cap {
		size = Footprint(n)
	}
	switch {
	case size == 0 || int64(size) > p.cap:
		return nil, diag.Errorf(diag.Failed, "a buffer of %d bytes does not fit the memory limit of %d bytes", n, p.cap).
			WithHint("raise `[run] memory`")
	case p.inUse+int64(size) > p.cap:
		return nil, nil
	}
	b, err := p.find(size)
	if err != nil {
		return nil, err
	}
	if b.slab != nil {
		b.slab.live++
	}
	p.inUse += int64(size)
	p.peak = max(p.peak, p.inUse)
	p.live[unsafe.SliceData(b.p)] = b
	return b.p[:n], nil
}
