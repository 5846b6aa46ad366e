package storage

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openDirect opens a file for transfers past the page cache.
func openDirect(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|unix.O_DIRECT, 0)
	if err != nil {
		return nil, err
	}
	if !bypasses(f) {
		return nil, errors.Join(errors.ErrUnsupported, f.Close())
	}
	return f, nil
}

// bypasses reports whether direct transfers of the file make sense: tmpfs takes
// them and has nothing to bypass, and others tell that they have none, or none
// in units of Block.
func bypasses(f *os.File) bool {
	var fsys unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fsys) == nil && fsys.Type == unix.TMPFS_MAGIC {
		return false
	}
	var st unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return true // not known: a transfer will show
	}
	return st.Dio_offset_align > 0 && st.Dio_offset_align <= Block && st.Dio_mem_align <= Block
}

// isRefusal reports whether a direct transfer failed because it was direct.
func isRefusal(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, errors.ErrUnsupported)
}

// cachedBytes tells how much of a range is in the page cache.
func cachedBytes(f *os.File, off, n int64) (int64, error) {
	var st unix.Cachestat_t
	err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Off: uint64(off), Len: uint64(n)}, &st, 0)
	return int64(st.Cache) * int64(os.Getpagesize()), err
}

// reserve gives the file its size and blocks. It falls back to the size alone.
func reserve(f *os.File, size int64) error {
	for {
		switch err := unix.Fallocate(int(f.Fd()), 0, 0, size); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, errors.ErrUnsupported):
			return f.Truncate(size)
		default:
			return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
	}
}

// renameNew renames a file to a name that must not exist.
func renameNew(old, name string) error {
	err := unix.Renameat2(unix.AT_FDCWD, old, unix.AT_FDCWD, name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return linkNew(old, name)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: old, New: name, Err: err}
	}
	return nil
}

func noSpaceLeft(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func freeSpace(dir string) (int64, bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := int64(st.Frsize) // the unit of the counts; old file systems leave it out
	if block == 0 {
		block = int64(st.Bsize)
	}
	return int64(st.Bavail) * block, true, nil
}
