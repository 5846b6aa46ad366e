//go:build !unix && !windows

package storage

import (
	"errors"
	"io/fs"
	"os"
)

// In a page or a sandbox files are handed in; the file system is as good as
// the host makes it.

const closeFirst = true

func tryLock(*os.File) error { return errors.ErrUnsupported }

func maxDescriptors() int { return 64 }

func tooMany(error) bool { return false }

// syncDir only looks: there is nothing that makes names durable.
func syncDir(dir string) error {
	_, err := os.Stat(dir)
	return err
}

func reserve(f *os.File, size int64) error { return f.Truncate(size) }

func renameNew(old, name string) error {
	if _, err := os.Lstat(name); err == nil {
		return &os.LinkError{Op: "rename", Old: old, New: name, Err: fs.ErrExist}
	}
	return os.Rename(old, name)
}

func noSpaceLeft(error) bool { return false }
