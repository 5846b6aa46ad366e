package cli_test

import "syscall"

// peak is the most memory that the run has held, in bytes.
func (c call) peak() int64 {
	if u, ok := c.state.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}
