package storage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
)

// LocalOptions says how a Local transfers. The zero value suits.
type LocalOptions struct {
	Mode    IOMode // of reading; CreateOptions says how a file is written
	MaxOpen int    // files open at a time; 0 is half of what the system allows
}

// Local is the file system of the machine. It is safe for concurrent use.
type Local struct {
	mode   IOMode
	files  descriptors
	stats  stats
	stage  staging
	blocks blockPool

	// noCachestat is set where the system cannot tell what is in the page cache.
	noCachestat atomic.Bool
	calls
}

// calls are the system's part in a transfer; tests replace them.
type calls struct {
	openDirect func(name string, flag int) (*os.File, error) // for transfers past the page cache
	pread      func(f *os.File, p []byte, off int64) (int, error)
	pwrite     func(f *os.File, p []byte, off int64) (int, error)
	fsync      func(f *os.File) error
}

// NewLocal makes a Local.
func NewLocal(o LocalOptions) *Local {
	l := &Local{mode: o.Mode, calls: calls{openDirect, (*os.File).ReadAt, (*os.File).WriteAt, (*os.File).Sync}}
	l.files.limit = o.MaxOpen
	if o.MaxOpen <= 0 {
		l.files.limit = min(max(maxDescriptors()/2, 16), 1<<16)
	}
	return l
}

// Stats is what was transferred, and how.
type Stats struct {
	DirectRead, BufferedRead   int64 // bytes
	DirectWrite, BufferedWrite int64 // bytes
	Staged                     int64 // bytes of direct writes that were copied to an aligned buffer
	Refused                    int64 // files that the file system does not transfer directly
	Unlocked                   int64 // folders and files on file systems without locks
}

type stats struct {
	directRead, bufferedRead, directWrite, bufferedWrite, staged, refused, unlocked atomic.Int64
}

// Stats counts since l was made.
func (l *Local) Stats() Stats {
	s := &l.stats
	return Stats{
		DirectRead: s.directRead.Load(), BufferedRead: s.bufferedRead.Load(),
		DirectWrite: s.directWrite.Load(), BufferedWrite: s.bufferedWrite.Load(),
		Staged: s.staged.Load(), Refused: s.refused.Load(), Unlocked: s.unlocked.Load(),
	}
}

// Stat describes a file or folder.
func (l *Local) Stat(ctx context.Context, name string) (Entry, error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return Entry{}, err
	}
	return entryOf(info, filepath.Base(name)), nil
}

func entryOf(info fs.FileInfo, name string) Entry {
	e := Entry{Name: name, Size: info.Size(), Dir: info.IsDir(), Time: info.ModTime()}
	if e.Dir {
		e.Size = 0
	}
	return e
}

// List lists a folder. A link that leads nowhere has the size 0.
func (l *Local) List(ctx context.Context, dir string) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(list))
	for i, e := range list {
		if i%64 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var info fs.FileInfo
		if e.Type()&fs.ModeSymlink != 0 {
			info, err = os.Stat(filepath.Join(dir, e.Name()))
		} else {
			info, err = e.Info()
		}
		switch {
		case err == nil:
			out = append(out, entryOf(info, e.Name()))
		case e.Type()&fs.ModeSymlink != 0:
			out = append(out, Entry{Name: e.Name()})
		case !errors.Is(err, fs.ErrNotExist): // else it was removed meanwhile
			return nil, err
		}
	}
	return out, nil
}

// ReadFile reads a file whole.
func (l *Local) ReadFile(ctx context.Context, name string, max int64) ([]byte, error) {
	f, err := l.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return readFile(f, name, max)
}

// MakeDir makes a folder and its parents.
func (l *Local) MakeDir(ctx context.Context, dir string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var missing []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err == nil && !info.IsDir() {
			return nil, &fs.PathError{Op: "mkdir", Path: d, Err: errNotDir}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			return nil, err
		}
		missing = append(missing, d)
	}
	slices.Reverse(missing)
	var made []string
	for _, d := range missing {
		switch err := os.Mkdir(d, 0o777); {
		case err == nil:
			made = append(made, d)
		case !errors.Is(err, fs.ErrExist): // else another run made it meanwhile
			return made, err
		}
	}
	return made, nil
}

var errNotDir = errors.New("not a directory")

// Link gives a file a further name.
func (l *Local) Link(ctx context.Context, old, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return os.Link(old, name)
}

// Rename renames a file.
func (l *Local) Rename(ctx context.Context, old, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return os.Rename(old, name)
}

// Remove removes a file or an empty folder.
func (l *Local) Remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return os.Remove(name)
}

// SyncDir makes the names in a folder durable, where the file system has that.
func (l *Local) SyncDir(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return syncDir(dir)
}

// Free is the number of bytes that can be written in dir.
func (l *Local) Free(ctx context.Context, dir string) (int64, bool, error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			return freeSpace(d)
		}
	}
}

var _ FS = (*Local)(nil)
