package storage

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// closeFirst says that an open file cannot be renamed or removed.
const closeFirst = true

// tryLock locks an open file until it is closed. The byte that is locked lies
// past the end of any file, for locks on Windows keep others from reading.
func tryLock(f *os.File) error {
	at := windows.Overlapped{Offset: math.MaxUint32, OffsetHigh: math.MaxInt32}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errHeld
	}
	return err
}

func maxDescriptors() int { return 4096 }

func tooMany(err error) bool { return errors.Is(err, windows.ERROR_TOO_MANY_OPEN_FILES) }

// syncDir only looks: folders cannot be flushed.
func syncDir(dir string) error {
	_, err := os.Stat(dir)
	return err
}

// reserve gives the file its size.
func reserve(f *os.File, size int64) error { return f.Truncate(size) }

func renameNew(old, name string) error {
	from, err := windows.UTF16PtrFromString(old)
	if err != nil {
		return err
	}
	to, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	if err := windows.MoveFileEx(from, to, windows.MOVEFILE_WRITE_THROUGH); err != nil {
		return &os.LinkError{Op: "rename", Old: old, New: name, Err: err}
	}
	return nil
}

func noSpaceLeft(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

func freeSpace(dir string) (int64, bool, error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, false, &os.PathError{Op: "free", Path: dir, Err: err}
	}
	return int64(min(free, math.MaxInt64)), true, nil
}
