package storage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/seed-e934e81e/convert/core/storage"
)

// counter counts what is read of a source.
type counter struct {
	storage.Source
	mu           sync.Mutex
	calls, bytes int
}

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Source.ReadAt(p, off)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.bytes += n
	return n, err
}

func (c *counter) ReadRanges(ctx context.Context, off []int64, dst [][]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	for _, p := range dst {
		c.bytes += len(p)
	}
	return c.Source.ReadRanges(ctx, off, dst)
}

func TestACachedSourceReadsTheSameBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 5000, 3 << 20} {
		p := random(r, size)
		plain, cached := storage.FromBytes(p), storage.Cached(storage.FromBytes(p))
		if cached.Size() != int64(size) {
			t.Errorf("Size = %d, want %d", cached.Size(), size)
		}
		at := int64(0)
		for range 400 {
			switch r.IntN(4) {
			case 0:
				at = r.Int64N(int64(size) + 10)
			case 1:
				at = max(0, at-r.Int64N(5000))
			}
			n := 1 + r.IntN([]int{16, 600, 20000, 2 << 20}[r.IntN(4)])
			a, b := make([]byte, n), make([]byte, n)
			an, aerr := plain.ReadAt(a, at)
			bn, berr := cached.ReadAt(b, at)
			if an != bn || aerr != berr || !bytes.Equal(a, b) {
				t.Fatalf("ReadAt of %d bytes at %d of %d = %d, %v through the cache, want %d, %v", n, at, size, bn, berr, an, aerr)
			}
			at += int64(an)
		}
	}
}

func TestAWalkOverManySmallRecordsNeedsFewReads(t *testing.T) {
	src := &counter{Source: storage.FromBytes(make([]byte, 10<<20))}
	c := storage.Cached(src)
	for off := int64(0); off < 10<<20; off += 100 {
		if _, err := c.ReadAt(make([]byte, 8), off); err != nil {
			t.Fatal(err)
		}
	}
	if src.calls > 20 || src.bytes > 11<<20 {
		t.Errorf("a walk over 10 MiB made %d reads of %d bytes, want 20 at most", src.calls, src.bytes)
	}
}

func TestAWalkOverLargeTensorsReadsLittle(t *testing.T) {
	const records, step = 100, 1 << 20
	src := &counter{Source: storage.FromBytes(make([]byte, records*step))}
	c := storage.Cached(src)
	for i := range int64(records) {
		for j := range int64(10) { // a header of ten fields
			if _, err := c.ReadAt(make([]byte, 8), i*step+8*j); err != nil {
				t.Fatal(err)
			}
		}
	}
	if src.calls > records || src.bytes > records*4096 {
		t.Errorf("a walk over %d records made %d reads of %d bytes, want one of 4 KiB each", records, src.calls, src.bytes)
	}
}

func TestALargeReadGoesPastTheCache(t *testing.T) {
	src := &counter{Source: storage.FromBytes(make([]byte, 8<<20))}
	c := storage.Cached(src)
	for _, n := range []int{8, 8 << 20} {
		if _, err := c.ReadAt(make([]byte, n), 0); err != nil {
			t.Fatal(err)
		}
	}
	if src.calls != 2 || src.bytes != 8<<20 {
		t.Errorf("a read of 8 bytes and one of all made %d reads of %d bytes, want 2 of %d", src.calls, src.bytes, 8<<20)
	}
}

func TestRangesAreAskedForInOneCall(t *testing.T) {
	p := random(rand.New(rand.NewPCG(1, 2)), 1<<20)
	src := &counter{Source: storage.FromBytes(p)}
	c := storage.Cached(src)
	if _, err := c.ReadAt(make([]byte, 8), 0); err != nil {
		t.Fatal(err)
	}
	dst := [][]byte{make([]byte, 10), make([]byte, 20), make([]byte, 30)}
	off := []int64{5, 500000, 4090}
	if err := c.ReadRanges(t.Context(), off, dst); err != nil {
		t.Fatal(err)
	}
	for i, d := range dst {
		if !bytes.Equal(d, p[off[i]:][:len(d)]) {
			t.Errorf("range %d has wrong bytes", i)
		}
	}
	if src.calls != 2 || src.bytes != 4096+20+30 {
		t.Errorf("%d calls for %d bytes, want 2 for %d: the first range is in the cache", src.calls, src.bytes, 4096+20+30)
	}
	if err := c.ReadRanges(t.Context(), []int64{1<<20 - 1}, [][]byte{make([]byte, 2)}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a range past the end = %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

func TestACachedSourceIsSafeForConcurrentUse(t *testing.T) {
	p := random(rand.New(rand.NewPCG(3, 4)), 1<<20)
	c := storage.Cached(storage.FromBytes(p))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(5, uint64(i)))
			for range 1000 {
				off := r.IntN(1<<20 - 100)
				b := make([]byte, 100)
				if _, err := c.ReadAt(b, int64(off)); err != nil || !bytes.Equal(b, p[off:off+100]) {
					t.Errorf("ReadAt at %d: %v, or wrong bytes", off, err)
				}
			}
		})
	}
	wg.Wait()
}

// broken fails every read.
type broken struct{ storage.Source }

func (broken) ReadAt([]byte, int64) (int, error) { return 0, io.ErrClosedPipe }

func TestErrorsComeThroughTheCache(t *testing.T) {
	c := storage.Cached(broken{storage.FromBytes(make([]byte, 100))})
	if n, err := c.ReadAt(make([]byte, 10), 0); n != 0 || err != io.ErrClosedPipe {
		t.Errorf("ReadAt of a broken source = %d, %v, want 0, %v", n, err, io.ErrClosedPipe)
	}
}
