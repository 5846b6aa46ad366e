package storage

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// Unit is the size of an edge block.
func Unit() int64 { return unit }

// IsTemp tells the names of files that are being written.
func IsTemp(base string) bool { return isTemp(base) }

// RefuseOpen makes l a Local on a file system without direct transfers.
func (l *Local) RefuseOpen() *Local {
	l.openDirect = func(name string, _ int) (*os.File, error) {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EINVAL}
	}
	return l
}

// RefuseTransfer makes l a Local on a file system that opens a file for direct
// transfers and then refuses those after the first n.
func (l *Local) RefuseTransfer(n int64) *Local {
	refusal := error(syscall.EINVAL)
	if !isRefusal(refusal) { // what Linux says
		refusal = errors.ErrUnsupported
	}
	direct := map[*os.File]bool{}
	var mu sync.Mutex
	refuse := func(f *os.File) bool {
		mu.Lock()
		defer mu.Unlock()
		n--
		return n < 0 && direct[f]
	}
	l.openDirect = func(name string, flag int) (*os.File, error) {
		f, err := os.OpenFile(name, flag, 0)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			direct[f] = true
		}
		return f, err
	}
	l.pread = func(f *os.File, p []byte, off int64) (int, error) {
		if refuse(f) {
			return 0, refusal
		}
		return f.ReadAt(p, off)
	}
	l.pwrite = func(f *os.File, p []byte, off int64) (int, error) {
		if refuse(f) {
			return 0, refusal
		}
		return f.WriteAt(p, off)
	}
	return l
}

// FailWrites makes writes and fsyncs of l ask fail first.
func (l *Local) FailWrites(fail func(op string) error) *Local {
	l.pwrite = func(f *os.File, p []byte, off int64) (int, error) {
		if err := fail("write"); err != nil {
			return 0, err
		}
		return f.WriteAt(p, off)
	}
	l.fsync = func(f *os.File) error {
		if err := fail("sync"); err != nil {
			return err
		}
		return f.Sync()
	}
	return l
}

// OpenFiles is the number of descriptors that l has.
func (l *Local) OpenFiles() int {
	l.files.mu.Lock()
	defer l.files.mu.Unlock()
	return l.files.open
}
