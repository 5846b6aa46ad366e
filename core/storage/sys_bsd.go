//go:build unix && !linux

package storage

import (
	"errors"
	"os"
	"syscall"
)

// reserve gives the file its size. Its blocks may still be missing later.
func reserve(f *os.File, size int64) error { return f.Truncate(size) }

func renameNew(old, name string) error { return linkNew(old, name) }

func noSpaceLeft(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
