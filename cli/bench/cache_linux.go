package main

import (
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// cache brings the files below a folder into the page cache, or takes them out
// of it.
func cache(dir string, cold bool) error {
	return filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		if cold {
			return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		}
		_, err = io.Copy(io.Discard, f)
		return err
	})
}
