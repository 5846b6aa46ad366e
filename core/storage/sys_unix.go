//go:build unix

package storage

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// closeFirst says that an open file cannot be renamed or removed.
const closeFirst = false

// tryLock locks an open file until it is closed.
func tryLock(f *os.File) error {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errHeld
		case errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EINVAL):
			return errors.ErrUnsupported
		default:
			return err
		}
	}
}

func maxDescriptors() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 256
	}
	return int(min(uint64(r.Cur), math.MaxInt32))
}

func tooMany(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // names are as durable there as the file system makes them
	}
	return errors.Join(err, f.Close())
}

// linkNew renames by a second name, where there is no call that renames and
// does not replace. Where there are no links either it looks first.
func linkNew(old, name string) error {
	err := os.Link(old, name)
	switch {
	case err == nil:
		return os.Remove(old)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	if _, err := os.Lstat(name); err == nil {
		return &os.LinkError{Op: "rename", Old: old, New: name, Err: fs.ErrExist}
	}
	return os.Rename(old, name)
}
