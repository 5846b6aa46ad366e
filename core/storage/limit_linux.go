package storage

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryLimit is the number of bytes that the container which the process runs
// in may use; ok is false where there is no limit.
func MemoryLimit() (n int64, ok bool) { return memoryLimit("/proc/self/cgroup", "/sys/fs/cgroup") }

// memoryLimit reads the limits of the process's control group and of all
// around it; the smallest holds. Both versions of control groups are known.
func memoryLimit(self, root string) (n int64, ok bool) {
	text, err := os.ReadFile(self)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path; version 2 has hierarchy 0 and no
		// controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		dir, file := root, "memory.max"
		switch {
		case parts[0] == "0" && parts[1] == "":
		case strings.Contains(","+parts[1]+",", ",memory,"):
			dir, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		for p := filepath.Clean("/" + parts[2]); ; p = filepath.Dir(p) {
			if v, found := readLimit(filepath.Join(dir, p, file)); found && (!ok || v < n) {
				n, ok = v, true
			}
			if p == "/" {
				break
			}
		}
	}
	return n, ok
}

// unlimited is what version 1 writes for no limit, rounded to pages; nothing
// has as much memory.
const unlimited = 1 << 60

func readLimit(name string) (int64, bool) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n > 0 && n < unlimited
}
