package engine

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"github.com/seed-e934e81e/convert/core/storage"
)

// watched holds callers to the contracts of a file system: every byte of a new
// file is written once, and before it is synced; it is synced before it gets
// its name; every file and writer is closed, published or aborted.
type watched struct {
	storage.FS

	mu             sync.Mutex
	open           map[*watchedFile]bool
	busy           map[*watchedWriter]bool
	reads          int64 // bytes, of files that are not being written
	large, aligned int   // transfers of at least 64 KiB

	broken []string
}

// transfer counts a large transfer of p at an offset.
func (w *watched) transfer(p []byte, off int64) {
	if len(p) < 64<<10 {
		return
	}
	w.large++
	if uintptr(unsafe.Pointer(unsafe.SliceData(p)))%storage.Block == uintptr(off%storage.Block) {
		w.aligned++
	}
}

func watch(fs storage.FS) *watched {
	return &watched{FS: fs, open: map[*watchedFile]bool{}, busy: map[*watchedWriter]bool{}}
}

func (w *watched) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// faults lists what callers did wrong; it is asked when all is over.
func (w *watched) faults() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.broken
	for f := range w.open {
		out = append(out, f.name+" is left open")
	}
	for f := range w.busy {
		out = append(out, f.name+" is neither published nor aborted")
	}
	return out
}

type watchedFile struct {
	storage.File
	w    *watched
	name string
	back bool // a file that was just written
}

func (w *watched) Open(ctx context.Context, name string) (storage.File, error) {
	f, err := w.FS.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return w.opened(&watchedFile{File: f, w: w, name: name}), nil
}

func (w *watched) opened(f *watchedFile) *watchedFile {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[f] = true
	return f
}

func (f *watchedFile) count(n int) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if !f.w.open[f] {
		f.w.broken = append(f.w.broken, f.name+" is read after it was closed")
	}
	if !f.back {
		f.w.reads += int64(n)
	}
}

func (f *watchedFile) ReadAt(p []byte, off int64) (int, error) {
	f.count(len(p))
	return f.File.ReadAt(p, off)
}

func (f *watchedFile) ReadBlock(ctx context.Context, buf []byte, off int64, n, phase int) ([]byte, error) {
	f.count(n)
	return f.File.ReadBlock(ctx, buf, off, n, phase)
}

func (f *watchedFile) Close() error {
	f.w.mu.Lock()
	delete(f.w.open, f)
	f.w.mu.Unlock()
	return f.File.Close()
}

type watchedWriter struct {
	storage.Writer
	w       *watched
	name    string
	written []bool
	synced  bool
}

func (w *watched) Create(ctx context.Context, name string, size int64, o storage.CreateOptions) (storage.Writer, error) {
	f, err := w.FS.Create(ctx, name, size, o)
	if err != nil {
		return nil, err
	}
	out := &watchedWriter{Writer: f, w: w, name: name, written: make([]bool, size)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[out] = true
	return out, nil
}

func (f *watchedWriter) WriteAt(p []byte, off int64) (int, error) {
	f.w.mu.Lock()
	f.w.transfer(p, off)
	for i := range p {
		if at := off + int64(i); at >= int64(len(f.written)) || f.written[at] {
			f.w.broken = append(f.w.broken, fmt.Sprintf("%s: byte %d is written twice or lies outside", f.name, at))
			break
		}
		f.written[off+int64(i)] = true
	}
	if f.synced {
		f.w.broken = append(f.w.broken, f.name+" is written after it was synced")
	}
	f.w.mu.Unlock()
	return f.Writer.WriteAt(p, off)
}

func (f *watchedWriter) Sync() error {
	err := f.Writer.Sync()
	if err == nil {
		f.w.mu.Lock()
		f.synced = true
		f.w.mu.Unlock()
	}
	return err
}

func (f *watchedWriter) Reopen(ctx context.Context) (storage.File, error) {
	file, err := f.Writer.Reopen(ctx)
	if err != nil {
		return nil, err
	}
	if !f.synced {
		f.w.fault("%s is read back before it was synced", f.name)
	}
	return f.w.opened(&watchedFile{File: file, w: f.w, name: f.name, back: true}), nil
}

func (f *watchedWriter) Publish() error {
	if !f.synced {
		f.w.fault("%s gets its name before it was synced", f.name)
	}
	for i, done := range f.written {
		if !done {
			f.w.fault("%s gets its name, byte %d was never written", f.name, i)
			break
		}
	}
	err := f.Writer.Publish()
	if err == nil {
		f.done()
	}
	return err
}

func (f *watchedWriter) Abort() error {
	err := f.Writer.Abort()
	if err == nil {
		f.done()
	}
	return err
}

func (f *watchedWriter) done() {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	delete(f.w.busy, f)
}
