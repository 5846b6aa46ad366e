package storage

import (
	"context"
	"crypto/rand"
	"io"
	"io/fs"
	"path"
	"sync"
)

// memoryFile is an open file of a Memory, or bytes of no tree.
type memoryFile struct {
	m    *Memory // nil for FromBytes
	name string
	p    []byte
}

// FromBytes is a file with the contents p, which must not change.
func FromBytes(p []byte) File { return &memoryFile{p: p} }

func (f *memoryFile) Size() int64 { return int64(len(f.p)) }

func (f *memoryFile) Close() error { return nil }

func (f *memoryFile) ask(ctx context.Context, off int64) error {
	if f.m == nil {
		return ctx.Err()
	}
	return f.m.ask(ctx, OpRead, f.name, off)
}

func (f *memoryFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.ask(context.Background(), off); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, outside(off, int64(len(p)), f.Size())
	}
	if off >= f.Size() {
		return 0, io.EOF
	}
	n := copy(p, f.p[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memoryFile) ReadRanges(ctx context.Context, off []int64, dst [][]byte) error {
	for i, p := range dst {
		if err := f.ask(ctx, off[i]); err != nil {
			return err
		}
		if err := inside(off[i], int64(len(p)), f.Size()); err != nil {
			return err
		}
		copy(p, f.p[off[i]:])
	}
	return nil
}

func (f *memoryFile) ReadBlock(ctx context.Context, buf []byte, off int64, n, phase int) ([]byte, error) {
	if err := f.ask(ctx, off); err != nil {
		return nil, err
	}
	if err := checkBlock(buf, off, n, phase, f.Size()); err != nil {
		return nil, err
	}
	p := buf[phase:][:n]
	copy(p, f.p[off:])
	return p, nil
}

// memoryWriter writes a file of a Memory.
type memoryWriter struct {
	m          *Memory
	name, temp string
	replace    bool
	size       int64

	mu   sync.Mutex
	node *node
	done bool
}

// Create begins a file.
func (m *Memory) Create(ctx context.Context, name string, size int64, o CreateOptions) (Writer, error) {
	if err := m.ask(ctx, OpCreate, name, 0); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name = clean(name)
	switch old := m.nodes[name]; {
	case size < 0:
		return nil, failed(OpCreate, name, fs.ErrInvalid)
	case old != nil && (old.dir || !o.Replace):
		return nil, failed(OpCreate, name, fs.ErrExist)
	case m.Limit > 0 && size > m.Limit-m.used:
		return nil, noSpace(name, size, m.Limit-m.used, true, nil)
	}
	w := &memoryWriter{m: m, name: name, temp: tempName(name), replace: o.Replace, size: size}
	w.node = m.newNode(false, make([]byte, size))
	w.node.links = 0
	if err := m.place(OpCreate, w.node, w.temp, false); err != nil {
		return nil, err
	}
	m.used += size
	return w, nil
}

func (w *memoryWriter) ask(op Op, off int64) error {
	return w.m.ask(context.Background(), op, w.name, off)
}

func (w *memoryWriter) WriteAt(p []byte, off int64) (int, error) {
	if err := w.ask(OpWrite, off); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return 0, failed(OpWrite, w.name, fs.ErrClosed)
	}
	if err := inside(off, int64(len(p)), w.size); err != nil {
		return 0, failed(OpWrite, w.name, err)
	}
	return copy(w.node.p[off:], p), nil
}

func (w *memoryWriter) Sync() error { return w.ask(OpSync, 0) }

func (w *memoryWriter) Reopen(ctx context.Context) (File, error) {
	if err := w.m.ask(ctx, OpOpen, w.name, 0); err != nil {
		return nil, err
	}
	return &memoryFile{m: w.m, name: w.name, p: w.node.p}, nil
}

func (w *memoryWriter) Publish() error {
	if err := w.ask(OpPublish, 0); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return failed(OpPublish, w.name, fs.ErrClosed)
	}
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if err := w.m.place(OpPublish, w.node, w.name, w.replace); err != nil {
		return err
	}
	w.m.drop(w.temp)
	w.done = true
	return nil
}

func (w *memoryWriter) Abort() error {
	if err := w.ask(OpAbort, 0); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil
	}
	w.done = true
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.m.drop(w.temp)
	return nil
}

// tempEnd ends the names of files that are being written.
const tempEnd = ".convert-tmp"

// tempName is a name in the same folder that no other writer has.
func tempName(name string) string {
	dir, base := path.Split(name)
	return dir + tempBase(base)
}

// tempBase is ".base.random.convert-tmp". A file name has at most 255 bytes, so
// that a long base is cut.
func tempBase(base string) string {
	random := rand.Text()
	if most := 255 - len(random) - len(tempEnd) - 2; len(base) > most {
		base = base[:most]
	}
	return "." + base + "." + random + tempEnd
}

var (
	_ File   = (*memoryFile)(nil)
	_ Writer = (*memoryWriter)(nil)
)
