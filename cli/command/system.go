package command

import (
	"os"
	"time"

	"golang.org/x/term"
)

// System is the surroundings that the operating system gives.
func System() Env {
	return Env{
		Args:        os.Args[1:],
		Stdin:       os.Stdin,
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		LookupEnv:   os.LookupEnv,
		Now:         time.Now,
		StdoutWidth: func() int { return columns(os.Stdout) },
		StderrWidth: func() int { return columns(os.Stderr) },
	}
}

// columns is the width of a terminal, 80 where it does not say, and 0 for
// anything that is no terminal.
func columns(f *os.File) int {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return 0
	}
	if w, _, err := term.GetSize(fd); err == nil && w > 0 {
		return w
	}
	return 80
}
