package tensor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/tensor"
)

func get(t *testing.T, p *tensor.Pool, n int) *tensor.Buffer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	b, err := p.Get(ctx, n)
	if err != nil {
		t.Fatalf("Get(%d) with %d of %d bytes in use: %v", n, p.InUse(), p.Cap(), err)
	}
	return b
}

func closed(t *testing.T, p *tensor.Pool) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if got := p.Held(); got != 0 {
		t.Errorf("a closed pool holds %d bytes, want 0", got)
	}
}

func address(b *tensor.Buffer) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b.Bytes()))) }

func TestBuffersAreAlignedAndAsLongAsAsked(t *testing.T) {
	p := tensor.NewPool(64 << 20)
	defer closed(t, p)
	for _, n := range []int{0, 1, 100, 4096, 65536, 65537, 300 << 10, 1 << 20, 1<<20 + 1, 4<<20 + 8192, 9 << 20} {
		b := get(t, p, n)
		if b.Len() != n || n > 0 && address(b)%storage.Block != 0 {
			t.Errorf("Get(%d) has %d bytes at %#x, want %[1]d at a multiple of %d", n, b.Len(), address(b), storage.Block)
		}
		if runtime.GOOS == "linux" && n >= storage.HugePage && address(b)%storage.HugePage != 0 {
			t.Errorf("Get(%d) lies at %#x, want a multiple of %d", n, address(b), storage.HugePage)
		}
		for i := range b.Bytes() {
			b.Bytes()[i] = 1
		}
		b.Release()
	}
}

func TestFootprintIsLittleMoreThanTheBuffer(t *testing.T) {
	for n := 1; n < 20<<20; n += 4095 {
		got := tensor.Footprint(n)
		switch {
		case got < n || got%storage.Block != 0:
			t.Fatalf("Footprint(%d) = %d, want a multiple of %d that holds it", n, got, storage.Block)
		case n > 1<<20 && got > n+n/16+storage.Block:
			t.Fatalf("Footprint(%d) = %d, want at most a sixteenth more", n, got)
		case got > max(2*n, 64<<10):
			t.Fatalf("Footprint(%d) = %d, want less than twice as much", n, got)
		case tensor.Footprint(got) != got:
			t.Fatalf("Footprint(%d) = %d, but that has the footprint %d", n, got, tensor.Footprint(got))
		}
	}
}

func TestABufferOverTheCapIsRefusedAtOnce(t *testing.T) {
	p := tensor.NewPool(1 << 20)
	defer closed(t, p)
	for _, n := range []int{1<<20 + 1, int(^uint(0) >> 1), -1} {
		var d *diag.Diagnostic
		if _, err := p.Get(t.Context(), n); !errors.As(err, &d) || d.Hint == "" {
			t.Errorf("Get(%d) of a pool of 1 MiB = %v, want a diagnostic with a hint", n, err)
		}
	}
}

func TestGetWaitsForMemoryAndEndsWithItsContext(t *testing.T) {
	p := tensor.NewPool(4 << 20)
	defer closed(t, p)
	first := get(t, p, 3<<20)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Get(ctx, 2<<20); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get of 2 MiB beside 3 of 4 = %v, want %v", err, context.DeadlineExceeded)
	}
	if b, err := p.TryGet(2 << 20); b != nil || err != nil {
		t.Errorf("TryGet of 2 MiB beside 3 of 4 = %v, %v, want nil, nil", b, err)
	}
	time.AfterFunc(20*time.Millisecond, first.Release)
	get(t, p, 2<<20).Release()
}

func TestIdleMemoryOfAnotherSizeNeverStandsInTheWay(t *testing.T) {
	const limit = 8 << 20
	p := tensor.NewPool(limit)
	defer closed(t, p)
	// Every second slot of every slab stays in use, so no slab is idle.
	var held, freed []*tensor.Buffer
	for i := range limit / (64 << 10) {
		b := get(t, p, 64<<10)
		if i%2 == 0 {
			held = append(held, b)
		} else {
			freed = append(freed, b)
		}
	}
	for _, b := range freed {
		b.Release()
	}
	big := get(t, p, 4<<20)
	if got := p.Held(); got > limit {
		t.Errorf("the pool holds %d bytes, want at most %d", got, limit)
	}
	big.Release()
	for range 3 {
		for _, n := range []int{100 << 10, 1 << 20, 3 << 20, 64 << 10} {
			get(t, p, n).Release()
		}
	}
	for _, b := range held {
		b.Release()
	}
	get(t, p, limit).Release()
}

func TestManyWorkersStayUnderTheCap(t *testing.T) {
	const limit = 24 << 20
	p := tensor.NewPool(limit)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range 300 {
				n := 1 << (10 + r.IntN(13))
				n += r.IntN(n)
				b, err := p.Get(t.Context(), n)
				if err != nil {
					t.Errorf("Get(%d): %v", n, err)
					return
				}
				m := b.Bytes()
				m[0], m[n-1] = byte(w), byte(w)
				if held := p.Held(); held > limit {
					t.Errorf("the pool holds %d bytes, want at most %d", held, limit)
				}
				if m[0] != byte(w) || m[n-1] != byte(w) {
					t.Errorf("another worker wrote in this one's buffer")
				}
				b.Release()
			}
		})
	}
	wg.Wait()
	if p.InUse() != 0 || p.Peak() > limit || p.Peak() < 1<<20 {
		t.Errorf("in use %d, peak %d; want 0 and at most %d", p.InUse(), p.Peak(), limit)
	}
	closed(t, p)
}

func TestCloseNamesWhatIsStillHeld(t *testing.T) {
	p := tensor.NewPool(1 << 20)
	b := get(t, p, 100)
	if err := p.Close(); err == nil {
		t.Error("Close with a buffer held succeeded, want an error")
	}
	if _, err := p.Get(t.Context(), 1); !errors.Is(err, tensor.ErrClosed) {
		t.Errorf("Get of a closed pool = %v, want %v", err, tensor.ErrClosed)
	}
	b.Release()
	closed(t, p)
}

func TestArrowBuffersLeakNothing(t *testing.T) {
	p := tensor.NewPool(32 << 20)
	checked := memory.NewCheckedAllocator(p)
	defer checked.AssertSize(t, 0)
	b := memory.NewResizableBuffer(checked)
	for _, n := range []int{10, 100 << 10, 5 << 20, 1 << 20, 7} {
		b.Resize(n)
		b.Bytes()[n-1] = byte(n)
	}
	s := memory.SliceBuffer(b, 2, 3)
	b.Release()
	if p.InUse() == 0 {
		t.Error("the memory went back while a slice refers to it")
	}
	s.Release()
	closed(t, p)
}

func BenchmarkGet(b *testing.B) {
	for _, n := range []int{64 << 10, 4<<20 + 8192} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := tensor.NewPool(64 << 20)
			defer p.Close()
			for b.Loop() {
				buf, err := p.Get(b.Context(), n)
				if err != nil {
					b.Fatal(err)
				}
				buf.Release()
			}
		})
	}
}
