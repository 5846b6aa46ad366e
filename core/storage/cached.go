package storage

import (
	"context"
	"io"
	"sync"
)

// The windows of a block cache. A walk that jumps over the data of large
// tensors reads one small window a tensor, and one that meets many small
// tensors soon reads a megabyte at a time.
const (
	minWindow = 4 << 10
	maxWindow = 1 << 20
)

// Cached puts a block cache before src for a reader of headers, which asks for
// few bytes at a time. It reads ahead, twice as far each time while reading
// goes on in sequence, and little after a jump. It holds at most 2 MiB, and is
// safe for concurrent use if src is.
func Cached(src Source) Source { return &cached{src: src, ahead: minWindow} }

type cached struct {
	src Source

	mu    sync.Mutex
	win   [2]window // the one read last comes first
	ahead int64     // the size of the next window if it follows the last
}

// window is a run of the file.
type window struct {
	off int64
	p   []byte
}

// from gives the bytes of the window from off on, and none where it lies
// outside.
func (w window) from(off int64) []byte {
	if off < w.off || off >= w.off+int64(len(w.p)) {
		return nil
	}
	return w.p[off-w.off:]
}

func (c *cached) Size() int64 { return c.src.Size() }

func (c *cached) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, outside(off, int64(len(p)), c.Size())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(p) {
		at := off + int64(n)
		if at >= c.Size() {
			return n, io.EOF
		}
		if k := c.hit(p[n:], at); k > 0 {
			n += k
			continue
		}
		if int64(len(p)-n) >= c.next(at) {
			k, err := c.src.ReadAt(p[n:], at)
			c.win[0], c.win[1] = window{off: at + int64(k)}, c.win[0]
			return n + k, err
		}
		if err := c.fill(at); err != nil {
			return n, err
		}
	}
	return n, nil
}

// ReadRanges takes what the cache has and asks src for all the rest at once.
func (c *cached) ReadRanges(ctx context.Context, off []int64, dst [][]byte) error {
	var restOff []int64
	var rest [][]byte
	c.mu.Lock()
	for i, p := range dst {
		if c.hit(p, off[i]) < len(p) {
			restOff, rest = append(restOff, off[i]), append(rest, p)
		}
	}
	c.mu.Unlock()
	if len(rest) == 0 {
		return ctx.Err()
	}
	return c.src.ReadRanges(ctx, restOff, rest)
}

// hit copies what the windows hold of the bytes at off.
func (c *cached) hit(p []byte, off int64) int {
	for _, w := range c.win {
		if q := w.from(off); len(q) > 0 {
			return copy(p, q)
		}
	}
	return 0
}

// next is the size of a window that begins at off.
func (c *cached) next(off int64) int64 {
	end := c.win[0].off + int64(len(c.win[0].p))
	if off < end || off-end > c.ahead {
		return minWindow
	}
	return c.ahead
}

// fill reads the window that begins at off.
func (c *cached) fill(off int64) error {
	size := c.next(off)
	c.ahead = min(2*size, maxWindow)
	size = min(size, c.Size()-off)
	p := c.win[1].p // the older one goes
	if int64(cap(p)) < size {
		p = make([]byte, size)
	}
	n, err := c.src.ReadAt(p[:size], off)
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	if n == 0 {
		return err
	}
	c.win[0], c.win[1] = window{off, p[:n]}, c.win[0]
	return nil
}

var _ Source = (*cached)(nil)
