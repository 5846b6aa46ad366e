package storage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Same reports whether two names lead to the same file or folder, or one lies
// within the other. Names of files that do not exist yet are compared by the
// folder that they would be in.
func (l *Local) Same(ctx context.Context, a, b string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	ra, err := resolve(a)
	if err != nil {
		return false, err
	}
	rb, err := resolve(b)
	if err != nil {
		return false, err
	}
	return holds(ra, rb) || holds(rb, ra), nil
}

// holds reports whether the resolved name in is outer or lies within it. Files
// are compared by what they are, so that hard links and folders mounted twice
// are found; names that do not exist are compared by their text.
func holds(outer, in string) bool {
	want, err := os.Stat(outer)
	for {
		if in == outer {
			return true
		}
		if err == nil {
			if info, err := os.Stat(in); err == nil && os.SameFile(info, want) {
				return true
			}
		}
		up := filepath.Dir(in)
		if up == in {
			return false
		}
		in = up
	}
}

// maxLinks bounds the links that a name may lead through.
const maxLinks = 255

// resolve follows all links in a name, the last part of which need not exist.
func resolve(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	rest := ""
	for range maxLinks {
		real, err := filepath.EvalSymlinks(name)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		to, linkErr := os.Readlink(name) // a link to what does not exist
		switch {
		case linkErr == nil && filepath.IsAbs(to):
			name = to
		case linkErr == nil:
			name = filepath.Join(filepath.Dir(name), to)
		default:
			rest = filepath.Join(filepath.Base(name), rest)
			name = filepath.Dir(name)
		}
	}
	return "", &fs.PathError{Op: "resolve", Path: name, Err: errors.New("too many links or folders")}
}
