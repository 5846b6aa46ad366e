//go:build !linux

package storage

// MemoryLimit is the number of bytes that the container which the process runs
// in may use; ok is false where there is no limit.
func MemoryLimit() (n int64, ok bool) { return 0, false }
