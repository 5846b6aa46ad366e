package storage

import (
	"os"
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
// transfers and then refuses them: the descriptor it gets is one of a file that
// answers every transfer with EINVAL. It is false where there is none.
func (l *Local) RefuseTransfer() (*Local, bool) {
	const reading, writing = "/proc/self/attr/prev", "/proc/self/clear_refs"
	l.openDirect = func(_ string, flag int) (*os.File, error) {
		if flag == os.O_WRONLY {
			return os.OpenFile(writing, flag, 0)
		}
		return os.Open(reading)
	}
	f, err := os.Open(reading)
	if err != nil {
		return l, false
	}
	defer f.Close()
	_, err = f.ReadAt(make([]byte, Block), 0)
	return l, isRefusal(err)
}

// OpenFiles is the number of descriptors that l has.
func (l *Local) OpenFiles() int {
	l.files.mu.Lock()
	defer l.files.mu.Unlock()
	return l.files.open
}
