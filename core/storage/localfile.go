package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"unsafe"
)

// minDirectRead is the size from which on a read past the page cache pays.
const minDirectRead = 256 << 10

// localFile is a file that is read.
type localFile struct {
	l        *Local
	name     string
	size     int64
	info     fs.FileInfo
	buffered descriptor
	direct   descriptor
	refused  atomic.Bool // the file system does not do direct reads of it
}

// Open opens a regular file for reading.
func (l *Local) Open(ctx context.Context, name string) (File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return l.openFile(func() string { return name }, info)
}

// openFile opens the file that path leads to, now and whenever it is opened
// again.
func (l *Local) openFile(path func() string, info fs.FileInfo) (File, error) {
	f := &localFile{l: l, name: path(), size: info.Size(), info: info}
	f.refused.Store(l.mode == Buffered)
	f.buffered = descriptor{all: &l.files, reopen: func() (*os.File, error) { return f.check(os.Open(path())) }}
	f.direct = descriptor{all: &l.files, reopen: func() (*os.File, error) { return f.check(l.openDirect(path(), os.O_RDONLY)) }}
	if _, err := f.buffered.acquire(); err != nil { // what cannot be read fails here
		return nil, err
	}
	f.buffered.release()
	return f, nil
}

// check makes sure that a file that was opened again is still the same.
func (f *localFile) check(o *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := o.Stat()
	if err == nil && (!os.SameFile(info, f.info) || info.Size() != f.size) {
		err = &fs.PathError{Op: "open", Path: f.name, Err: errors.New("the file was replaced or changed its size while it was read")}
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (f *localFile) Size() int64 { return f.size }

func (f *localFile) Close() error {
	return errors.Join(f.buffered.close(), f.direct.close())
}

func (f *localFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= 0 && off > f.size-int64(len(p)) { // what was added since it was opened is not seen
		p = p[:max(f.size-off, 0)]
		n, err := f.pread(p, off)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return f.pread(p, off)
}

func (f *localFile) pread(p []byte, off int64) (int, error) {
	o, err := f.buffered.acquire()
	if err != nil {
		return 0, err
	}
	defer f.buffered.release()
	n, err := f.l.pread(o, p, off)
	f.l.stats.bufferedRead.Add(int64(n))
	return n, err
}

func (f *localFile) ReadRanges(ctx context.Context, off []int64, dst [][]byte) error {
	for i, p := range dst {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := inside(off[i], int64(len(p)), f.size); err != nil {
			return err
		}
		if err := f.readFull(p, off[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *localFile) readFull(p []byte, off int64) error {
	n, err := f.pread(p, off)
	switch {
	case n == len(p):
		return nil
	case err == io.EOF:
		return fmt.Errorf("`%s` ends at byte %d while it is read, it had %d: %w", f.name, off+int64(n), f.size, io.ErrUnexpectedEOF)
	}
	return err
}

// ReadBlock reads past the page cache where little of the range is in it: then
// the cache would cost more than the disk.
func (f *localFile) ReadBlock(ctx context.Context, buf []byte, off int64, n, phase int) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkBlock(buf, off, n, phase, f.size); err != nil {
		return nil, err
	}
	if !aligned(buf) || !f.wantDirect(off, n) {
		p := buf[phase:][:n]
		return p, f.readFull(p, off)
	}
	p := buf[off%Block:][:n]
	done, err := f.readDirect(buf, off, n)
	if err != nil {
		return nil, err
	}
	if done < n {
		if err := f.readFull(p[done:], off+int64(done)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (f *localFile) wantDirect(off int64, n int) bool {
	switch {
	case n == 0 || f.refused.Load():
		return false
	case f.l.mode == Direct:
		return true
	}
	return n >= minDirectRead && f.cold(off, n)
}

// cold reports whether less than half of a range is in the page cache.
func (f *localFile) cold(off int64, n int) bool {
	if f.l.noCachestat.Load() {
		return false
	}
	o, err := f.buffered.acquire()
	if err != nil {
		return false // the read itself will tell
	}
	defer f.buffered.release()
	cached, err := cachedBytes(o, off, int64(n))
	if err != nil {
		f.l.noCachestat.Store(errors.Is(err, errors.ErrUnsupported))
		return false
	}
	return cached < int64(n)/2
}

// readDirect reads the blocks that hold n bytes at off and returns how many of
// these it got, which is less than n where the system refuses.
func (f *localFile) readDirect(buf []byte, off int64, n int) (int, error) {
	o, err := f.direct.acquire()
	if err != nil {
		f.refuse()
		return 0, nil // the buffered descriptor is open and tells what is wrong, if anything is
	}
	defer f.direct.release()
	skip := int(off % Block)
	end := (skip + n + Block - 1) &^ (Block - 1)
	got := 0
	for got < skip+n {
		k, err := f.l.pread(o, buf[got:end], off-int64(skip)+int64(got))
		got += k
		if got >= skip+n || err == io.EOF || err == nil && k == 0 {
			break // the blocks may go on past the end of the file
		}
		if err != nil {
			if !isRefusal(err) {
				return 0, err
			}
			f.refuse()
			break
		}
	}
	got = min(max(got-skip, 0), n)
	f.l.stats.directRead.Add(int64(got))
	return got, nil
}

func (f *localFile) refuse() {
	if !f.refused.Swap(true) {
		f.l.stats.refused.Add(1)
	}
}

func aligned(p []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(p)))%Block == 0
}

var _ File = (*localFile)(nil)
