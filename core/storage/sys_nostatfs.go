//go:build !linux && !darwin && !freebsd && !dragonfly && !windows

package storage

func freeSpace(string) (int64, bool, error) { return 0, false, nil }
