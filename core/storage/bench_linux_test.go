package storage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-e934e81e/convert/core/storage"
)

// The benchmarks move a gigabyte in transfers of 4 MiB from four goroutines, as
// a conversion does. CONVERT_BENCH_DIR is the folder to measure; fsync and
// publishing count.
const (
	benchSize     = 1 << 30
	benchTransfer = 4 << 20
	benchWorkers  = 4
)

func benchDir(b *testing.B) string {
	if testing.Short() {
		b.Skip("moves gigabytes")
	}
	dir := os.Getenv("CONVERT_BENCH_DIR")
	if dir == "" {
		return b.TempDir()
	}
	dir, err := os.MkdirTemp(dir, "convert-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// workers calls f for every transfer with an aligned buffer of the worker's.
func workers(b *testing.B, f func(buf []byte, off int64) error) {
	var wg sync.WaitGroup
	for w := range int64(benchWorkers) {
		wg.Go(func() {
			buf, err := storage.Pages(benchTransfer + 2*storage.Block)
			if err != nil {
				b.Error(err)
				return
			}
			defer storage.FreePages(buf)
			for off := w * benchTransfer; off < benchSize; off += benchWorkers * benchTransfer {
				if err := f(buf, off); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkWrite(b *testing.B) {
	dir := benchDir(b)
	for _, mode := range []storage.IOMode{storage.Auto, storage.Direct, storage.Buffered} {
		for _, phase := range []int{0, 1} {
			b.Run(fmt.Sprintf("%v/phase%d", mode, phase), func(b *testing.B) {
				l := storage.NewLocal(storage.LocalOptions{})
				b.SetBytes(benchSize)
				for b.Loop() {
					w, err := l.Create(b.Context(), filepath.Join(dir, "f"), benchSize, storage.CreateOptions{Replace: true, Mode: mode})
					if err != nil {
						b.Fatal(err)
					}
					workers(b, func(buf []byte, off int64) error {
						_, err := w.WriteAt(buf[phase:][:benchTransfer], off)
						return err
					})
					if err := w.Sync(); err != nil {
						b.Fatal(err)
					}
					if err := w.Publish(); err != nil {
						b.Fatal(err)
					}
				}
				b.Logf("%+v", l.Stats())
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	dir := benchDir(b)
	name := filepath.Join(dir, "f")
	l := storage.NewLocal(storage.LocalOptions{})
	w, err := l.Create(b.Context(), name, benchSize, storage.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	workers(b, func(buf []byte, off int64) error {
		_, err := w.WriteAt(buf[:benchTransfer], off)
		return err
	})
	if err := w.Publish(); err != nil {
		b.Fatal(err)
	}
	for _, mode := range []storage.IOMode{storage.Auto, storage.Direct, storage.Buffered} {
		for _, cold := range []bool{true, false} {
			b.Run(fmt.Sprintf("%v/cold=%v", mode, cold), func(b *testing.B) {
				l := storage.NewLocal(storage.LocalOptions{Mode: mode})
				f, err := l.Open(b.Context(), name)
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				cache(b, name, cold)
				b.SetBytes(benchSize)
				for b.Loop() {
					if cold {
						b.StopTimer()
						cache(b, name, cold)
						b.StartTimer()
					}
					workers(b, func(buf []byte, off int64) error {
						_, err := f.ReadBlock(b.Context(), buf, off, benchTransfer, 0)
						return err
					})
				}
				b.Logf("%+v", l.Stats())
			})
		}
	}
}

// cache takes a file out of the page cache, or brings it in.
func cache(b *testing.B, name string, cold bool) {
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if cold {
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			b.Fatal(err)
		}
		return
	}
	buf := make([]byte, 1<<20)
	for {
		if n, err := f.Read(buf); n == 0 || err != nil {
			return
		}
	}
}
