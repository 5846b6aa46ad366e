package storage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// minDirectWrite is the number of bytes in whole blocks from which on they are
// written past the page cache at once.
const minDirectWrite = 64 << 10

// localWriter writes one file.
type localWriter struct {
	l           *Local
	final, temp string
	size        int64
	o           CreateOptions

	main      descriptor // through the page cache; holds the lock
	direct    descriptor
	refused   atomic.Bool // the file system does not do direct writes of it
	published atomic.Bool
	dirty     atomic.Bool // something was written since the last Sync

	mu    sync.Mutex
	edges edges
	err   error // the first one; final
	info  fs.FileInfo
}

// Create begins a file. Its folder must exist.
func (l *Local) Create(ctx context.Context, name string, size int64, o CreateOptions) (Writer, error) {
	if size < 0 {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrInvalid}
	}
	info, err := os.Lstat(name)
	switch {
	case err == nil && (info.IsDir() || !o.Replace):
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	w := &localWriter{l: l, final: name, size: size, o: o, edges: edges{pool: &l.blocks}}
	w.refused.Store(o.Mode == Buffered)
	w.main = descriptor{all: &l.files, reopen: w.open, last: true, leave: l.fsync}
	w.direct = descriptor{all: &l.files, reopen: func() (*os.File, error) { return l.openDirect(w.path(), os.O_WRONLY) }}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := w.main.acquire()
	if err != nil {
		return nil, err
	}
	defer w.main.release()
	if err := w.reserve(f); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

// reserve gives the new file its space.
func (w *localWriter) reserve(f *os.File) error {
	if w.size == 0 {
		return nil
	}
	err := reserve(f, w.size)
	if err != nil && noSpaceLeft(err) {
		free, known, e := freeSpace(filepath.Dir(w.final))
		return noSpace(w.final, w.size, free, known && e == nil, err)
	}
	return err
}

// path is where the file is now.
func (w *localWriter) path() string {
	if w.published.Load() {
		return w.final
	}
	return w.temp
}

// open makes the temporary file, or opens it again, and locks it, so that
// CleanStale sees that it is in use.
func (w *localWriter) open() (*os.File, error) {
	if w.info != nil {
		return w.again()
	}
	for {
		w.temp = tempName(w.final)
		f, err := os.OpenFile(w.temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		lockErr := tryLock(f)
		if errors.Is(lockErr, errors.ErrUnsupported) {
			w.l.stats.unlocked.Add(1)
			lockErr = nil
		}
		if errors.Is(lockErr, errHeld) || lockErr == nil && !leads(w.temp, f) {
			_ = f.Close() // a cleaner was faster than the lock
			continue
		}
		if w.info, err = f.Stat(); err == nil {
			err = lockErr
		}
		if err != nil {
			return nil, errors.Join(err, f.Close(), os.Remove(w.temp))
		}
		return f, nil
	}
}

func (w *localWriter) again() (*os.File, error) {
	f, err := os.OpenFile(w.path(), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(info, w.info) {
		err = &fs.PathError{Op: "open", Path: w.path(), Err: errors.New("the file was replaced while it was written")}
	}
	if err == nil {
		err = ignore(tryLock(f), errors.ErrUnsupported)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// WriteAt writes whole blocks past the page cache where the file system can,
// and keeps what is left at their sides, and small writes, until Sync.
func (w *localWriter) WriteAt(p []byte, off int64) (int, error) {
	if err := inside(off, int64(len(p)), w.size); err != nil {
		return 0, &fs.PathError{Op: "write", Path: w.final, Err: err}
	}
	if err := w.failure(); err != nil {
		return 0, err
	}
	w.dirty.Store(true)
	if err := w.write(p, off); err != nil {
		return 0, w.fail(err)
	}
	return len(p), nil
}

func (w *localWriter) write(p []byte, off int64) error {
	if w.refused.Load() {
		return w.writeBuffered(p, off)
	}
	end := off + int64(len(p))
	lo, hi := (off+unit-1)&^(unit-1), end&^(unit-1)
	least := int64(minDirectWrite)
	if w.o.Mode == Direct {
		least = unit
	}
	if hi-lo < least {
		return w.keep(p, off)
	}
	if err := w.keep(p[:lo-off], off); err != nil {
		return err
	}
	if err := w.writeDirect(p[lo-off:hi-off], lo); err != nil {
		return err
	}
	return w.keep(p[hi-off:], hi)
}

// keep adds bytes to the edges. Where there is no room it writes all edges, and
// the bytes themselves if that does not help.
func (w *localWriter) keep(p []byte, off int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	for len(p) > 0 {
		n := min(int64(len(p)), unit-off&(unit-1))
		if !w.edges.add(p[:n], off) {
			if err := w.flush(); err != nil {
				return err
			}
			if !w.edges.add(p[:n], off) {
				return w.writeBuffered(p, off)
			}
		}
		p, off = p[n:], off+n
	}
	return nil
}

// flush writes the edges. The caller holds mu.
func (w *localWriter) flush() error {
	return w.edges.take(func(p []byte, off int64) error {
		if w.o.Mode == Direct && int64(len(p)) == unit && !w.refused.Load() {
			return w.writeDirect(p, off)
		}
		return w.writeBuffered(p, off)
	})
}

func (w *localWriter) writeBuffered(p []byte, off int64) error {
	f, err := w.main.acquire()
	if err != nil {
		return err
	}
	defer w.main.release()
	n, err := w.l.pwrite(f, p, off)
	w.l.stats.bufferedWrite.Add(int64(n))
	return err
}

// writeDirect writes whole blocks, through an aligned buffer if theirs is not.
func (w *localWriter) writeDirect(p []byte, off int64) error {
	f, err := w.direct.acquire()
	if err != nil {
		return w.instead(p, off, errors.ErrUnsupported)
	}
	defer w.direct.release()
	if aligned(p) {
		n, err := w.l.pwrite(f, p, off)
		w.l.stats.directWrite.Add(int64(n))
		return w.instead(p[n:], off+int64(n), err)
	}
	s, err := w.l.stage.get()
	if err != nil {
		return err
	}
	defer w.l.stage.put(s)
	for len(p) > 0 {
		k := copy(s.p, p)
		n, err := w.l.pwrite(f, s.p[:k], off)
		w.l.stats.directWrite.Add(int64(n))
		w.l.stats.staged.Add(int64(n))
		p, off = p[n:], off+int64(n)
		if err != nil {
			return w.instead(p, off, err)
		}
	}
	return nil
}

// instead writes through the page cache what a direct write has left because
// the file system refuses it; other errors are returned.
func (w *localWriter) instead(p []byte, off int64, err error) error {
	if err == nil || !isRefusal(err) {
		return err
	}
	if !w.refused.Swap(true) {
		w.l.stats.refused.Add(1)
	}
	return w.writeBuffered(p, off)
}

func (w *localWriter) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// fail keeps the first error: a file that has met one is never published.
func (w *localWriter) fail(err error) error {
	if noSpaceLeft(err) {
		err = noSpace(w.final, w.size, 0, false, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	return err
}

// Sync writes what is kept and makes the file durable.
func (w *localWriter) Sync() error {
	if err := w.failure(); err != nil {
		return err
	}
	w.dirty.Store(false)
	if err := w.sync(); err != nil {
		return w.fail(err)
	}
	return nil
}

func (w *localWriter) sync() error {
	w.mu.Lock()
	err := w.flush()
	w.mu.Unlock()
	if err != nil {
		return err
	}
	f, err := w.main.acquire()
	if err != nil {
		return err
	}
	defer w.main.release()
	return w.l.fsync(f)
}

// Reopen opens the file for reading. What was not synced yet is.
func (w *localWriter) Reopen(ctx context.Context) (File, error) {
	if err := w.settle(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	info, err := os.Stat(w.path())
	if err != nil {
		return nil, err
	}
	return w.l.openFile(w.path, info)
}

// settle makes durable what is not yet.
func (w *localWriter) settle() error {
	if w.dirty.Load() {
		return w.Sync()
	}
	return w.failure()
}

// Publish gives the file its name. What was not synced yet is.
func (w *localWriter) Publish() error {
	if err := w.settle(); err != nil {
		return err
	}
	if closeFirst {
		if err := w.close(); err != nil {
			return w.fail(err)
		}
	}
	rename := renameNew
	if w.o.Replace {
		rename = os.Rename
	}
	if err := rename(w.temp, w.final); err != nil {
		return w.fail(err)
	}
	w.published.Store(true)
	return w.close()
}

// Abort removes the temporary file.
func (w *localWriter) Abort() error {
	if w.published.Load() {
		return nil
	}
	w.mu.Lock()
	_ = w.edges.take(func([]byte, int64) error { return nil }) // they are given up
	if w.err == nil {
		w.err = &fs.PathError{Op: "write", Path: w.final, Err: fs.ErrClosed}
	}
	w.mu.Unlock()
	if closeFirst {
		_ = w.close() // what was written does not matter any more
		return ignore(os.Remove(w.temp), fs.ErrNotExist)
	}
	err := ignore(os.Remove(w.temp), fs.ErrNotExist)
	_ = w.close()
	return err
}

func (w *localWriter) close() error { return errors.Join(w.direct.close(), w.main.close()) }

var _ Writer = (*localWriter)(nil)
