//go:build darwin || freebsd || dragonfly

package storage

import (
	"os"

	"golang.org/x/sys/unix"
)

func freeSpace(dir string) (int64, bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * int64(st.Bsize), true, nil
}
