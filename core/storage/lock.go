package storage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// lockName is the file by which a folder is locked.
const lockName = ".convert.lock"

// errHeld says that another descriptor holds the lock of a file, and
// errors.ErrUnsupported that the file system has no locks.
var errHeld = errors.New("locked")

// Lock keeps others from locking the same folder. Where the file system has no
// locks it succeeds and is counted in Stats.Unlocked.
func (l *Local) Lock(ctx context.Context, dir string) (func() error, error) {
	name := filepath.Join(dir, lockName)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		err = tryLock(f)
		switch {
		case errors.Is(err, errHeld):
			return nil, errors.Join(ErrLocked, f.Close())
		case errors.Is(err, errors.ErrUnsupported):
			l.stats.unlocked.Add(1)
		case err != nil:
			return nil, errors.Join(err, f.Close())
		}
		if !leads(name, f) {
			_ = f.Close() // its owner removed it between the two calls: begin again
			continue
		}
		return func() error { return unlock(name, f) }, nil
	}
}

// unlock removes the file while it is locked, so that whoever waits for it
// finds that the name leads elsewhere.
func unlock(name string, f *os.File) error {
	if closeFirst {
		return errors.Join(f.Close(), ignore(os.Remove(name), fs.ErrNotExist, fs.ErrPermission))
	}
	return errors.Join(ignore(os.Remove(name), fs.ErrNotExist), f.Close())
}

// leads reports whether a name leads to the open file f.
func leads(name string, f *os.File) bool {
	a, err := os.Lstat(name)
	if err != nil {
		return false
	}
	b, err := f.Stat()
	return err == nil && os.SameFile(a, b)
}

// ignore is err unless it is one of those expected.
func ignore(err error, expected ...error) error {
	for _, e := range expected {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// CleanStale removes the files that runs which were killed have left in a
// folder: those with a name that only this package gives and that no running
// process holds. It returns their names.
func (l *Local) CleanStale(ctx context.Context, dir string) (removed []string, err error) {
	list, err := l.List(ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if e.Dir || !isTemp(e.Name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		ok, err := removeStale(filepath.Join(dir, e.Name))
		if err != nil {
			return removed, err
		}
		if ok {
			removed = append(removed, e.Name)
		}
	}
	return removed, nil
}

// isTemp recognises the names that tempBase makes.
func isTemp(base string) bool {
	s, ok := strings.CutSuffix(base, tempEnd)
	if !ok || !strings.HasPrefix(s, ".") {
		return false
	}
	at := strings.LastIndexByte(s, '.')
	if at < 1 || len(s)-at-1 != 26 { // the length of rand.Text
		return false
	}
	return strings.Trim(s[at+1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

func removeStale(name string) (bool, error) {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false, ignore(err, fs.ErrNotExist)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return false, ignore(err, fs.ErrNotExist, fs.ErrPermission)
	}
	err = tryLock(f)
	if err != nil {
		// Held, or it cannot be known: both are a reason to leave it.
		return false, errors.Join(ignore(err, errHeld, errors.ErrUnsupported), f.Close())
	}
	if closeFirst {
		if err := f.Close(); err != nil {
			return false, err
		}
		return true, os.Remove(name)
	}
	if !leads(name, f) {
		return false, f.Close() // published meanwhile
	}
	return true, errors.Join(os.Remove(name), f.Close())
}
