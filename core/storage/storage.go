// Package storage gives random-access sources and whole-or-nothing writers by
// name. It is the only package in core that touches the operating system, so
// it alone knows direct I/O, alignment, cachestat, fallocate and edge blocks:
// callers read and write at any offset in any order, and are told which
// buffers suit best.
package storage

import (
	"context"
	"errors"
	"io"
	"time"
)

// Block is the unit in which aligned buffers and direct transfers are cut.
// A buffer suits best where its address and the file's offset agree modulo
// Block.
const Block = 4096

// Range is a run of bytes in a file.
type Range struct{ Off, Len int64 }

// Source is the bytes of one file. It is safe for concurrent use.
//
// ReadAt follows io.ReaderAt. ReadRanges fills dst[i] with the bytes at off[i]
// and counts as one call where calls are dear; it fails with
// io.ErrUnexpectedEOF where a range does not lie inside the file.
type Source interface {
	io.ReaderAt
	Size() int64
	ReadRanges(ctx context.Context, off []int64, dst [][]byte) error
}

// File is an open source.
//
// ReadBlock reads n bytes at off into buf and returns the part of buf that
// holds them. buf must have at least n + 2·Block bytes; where it begins at a
// multiple of Block the read may bypass the page cache, and the data then
// begins at buf[off % Block]. A read through the page cache puts it at
// buf[phase], 0 ≤ phase ≤ 2·Block, so that a caller who wants to write it on
// need not move it.
type File interface {
	Source
	io.Closer
	ReadBlock(ctx context.Context, buf []byte, off int64, n, phase int) ([]byte, error)
}

// Entry is what a folder lists. Links are followed.
type Entry struct {
	Name string
	Size int64
	Dir  bool
	Time time.Time // of the last change; only for messages and staleness
}

// Writer writes one file of a known size under a temporary name. Nothing is
// seen under the final name before Publish. It is safe for concurrent use.
//
// WriteAt takes any offset in any order; each byte is to be written once.
// A buffer whose address agrees with the offset modulo Block is written
// without another copy.
type Writer interface {
	io.WriterAt
	// Sync makes all that was written durable. An error is final: the file
	// must then be aborted.
	Sync() error
	// Reopen opens what was written and synced for reading, before or after it
	// is published, so that it can be verified.
	Reopen(ctx context.Context) (File, error)
	// Publish renames the file to its final name, which must not exist unless
	// the writer was created to replace it.
	Publish() error
	// Abort removes the temporary file; after Publish it does nothing.
	Abort() error
}

// CreateOptions says how a file is written.
type CreateOptions struct {
	Replace bool // the final name may exist and is replaced
	Mode    IOMode
}

// IOMode says whether transfers go through the page cache.
type IOMode uint8

// The modes. Auto asks the system and falls back by itself.
const (
	Auto IOMode = iota
	Direct
	Buffered
)

func (m IOMode) String() string { return [...]string{"auto", "direct", "buffered"}[m] }

// FS is a tree of files named by paths.
type FS interface {
	// Open opens a file for reading.
	Open(ctx context.Context, name string) (File, error)
	// Stat describes a file or folder.
	Stat(ctx context.Context, name string) (Entry, error)
	// List lists a folder, sorted by name in byte order.
	List(ctx context.Context, dir string) ([]Entry, error)
	// ReadFile reads a small file whole; one larger than max is an error.
	ReadFile(ctx context.Context, name string, max int64) ([]byte, error)
	// MakeDir makes a folder and its parents and returns those that it made,
	// outermost first.
	MakeDir(ctx context.Context, dir string) ([]string, error)
	// Create begins a file of size bytes; space is reserved before it returns.
	Create(ctx context.Context, name string, size int64, o CreateOptions) (Writer, error)
	// Link gives the published file old the further name name.
	Link(ctx context.Context, old, name string) error
	// Rename renames a file, replacing what has the new name.
	Rename(ctx context.Context, old, name string) error
	// Remove removes a file or an empty folder.
	Remove(ctx context.Context, name string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(ctx context.Context, dir string) error
	// Lock keeps others from locking the same folder until it is released.
	// ErrLocked says that another holds it.
	Lock(ctx context.Context, dir string) (release func() error, err error)
	// Same reports whether two names lead to the same file or folder, or one
	// lies within the other, through links too.
	Same(ctx context.Context, a, b string) (bool, error)
	// Free is the number of bytes that can be written in dir, which need not
	// exist yet; ok is false where that is not known.
	Free(ctx context.Context, dir string) (free int64, ok bool, err error)
}

// ErrLocked is returned by Lock where another holds the lock.
var ErrLocked = errors.New("locked by another run")
