package storage

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a tree of files in memory, for tests and for pages that have no
// file system. Names are slash-separated paths; "." and "/" are the root,
// which exists. It is safe for concurrent use.
type Memory struct {
	// Fail, if not nil, is asked before each operation; the operation fails
	// with the error that it returns. off is the offset of a read or write and
	// else 0. It is set before the tree is used.
	Fail func(op Op, name string, off int64) error

	// Limit is the number of bytes that all files together may have; 0 is no
	// limit. It is set before the tree is used.
	Limit int64

	mu    sync.Mutex
	nodes map[string]*node
	locks map[string]bool
	used  int64
	clock int64 // counts changes; the time of an entry
}

// Op is an operation that Memory.Fail can make fail.
type Op string

// The operations.
const (
	OpOpen    Op = "open"
	OpStat    Op = "stat"
	OpList    Op = "list"
	OpRead    Op = "read"
	OpMakeDir Op = "mkdir"
	OpCreate  Op = "create"
	OpWrite   Op = "write"
	OpSync    Op = "sync"
	OpPublish Op = "publish"
	OpAbort   Op = "abort"
	OpLink    Op = "link"
	OpRename  Op = "rename"
	OpRemove  Op = "remove"
	OpSyncDir Op = "syncdir"
	OpLock    Op = "lock"
)

// node is a file or a folder; links share one.
type node struct {
	dir   bool
	p     []byte
	time  int64
	links int
}

// NewMemory makes an empty tree.
func NewMemory() *Memory {
	return &Memory{nodes: map[string]*node{".": {dir: true}}, locks: map[string]bool{}}
}

// Put makes or replaces a file with the contents p, and its folders. p must
// not change afterwards.
func (m *Memory) Put(name string, p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = clean(name)
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		if m.nodes[d] == nil {
			m.nodes[d] = m.newNode(true, nil)
		}
	}
	m.drop(name)
	m.nodes[name] = m.newNode(false, p)
	m.used += int64(len(p))
}

// Bytes gives the contents of a file. They must not be changed.
func (m *Memory) Bytes(name string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[clean(name)]
	if n == nil || n.dir {
		return nil, false
	}
	return n.p, true
}

// Names gives the names of all files in byte order, those that are being
// written included.
func (m *Memory) Names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		if !m.nodes[name].dir {
			out = append(out, name)
		}
	}
	return out
}

// Open opens a file for reading.
func (m *Memory) Open(ctx context.Context, name string) (File, error) {
	n, err := m.find(ctx, OpOpen, name)
	if err != nil {
		return nil, err
	}
	if n.dir {
		return nil, failed(OpOpen, name, fs.ErrInvalid)
	}
	return &memoryFile{m: m, name: clean(name), p: n.p}, nil
}

// Stat describes a file or folder.
func (m *Memory) Stat(ctx context.Context, name string) (Entry, error) {
	n, err := m.find(ctx, OpStat, name)
	if err != nil {
		return Entry{}, err
	}
	return n.entry(clean(name)), nil
}

// List lists a folder.
func (m *Memory) List(ctx context.Context, dir string) ([]Entry, error) {
	n, err := m.find(ctx, OpList, dir)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, failed(OpList, dir, fs.ErrInvalid)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Entry
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		if name != "." && path.Dir(name) == clean(dir) {
			out = append(out, m.nodes[name].entry(name))
		}
	}
	return out, nil
}

// ReadFile reads a file whole.
func (m *Memory) ReadFile(ctx context.Context, name string, max int64) ([]byte, error) {
	f, err := m.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return readFile(f, name, max)
}

// MakeDir makes a folder and its parents.
func (m *Memory) MakeDir(ctx context.Context, dir string) ([]string, error) {
	if err := m.ask(ctx, OpMakeDir, dir, 0); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var made []string
	for d := clean(dir); ; d = path.Dir(d) {
		if n := m.nodes[d]; n != nil {
			if !n.dir {
				return nil, failed(OpMakeDir, d, fs.ErrExist)
			}
			break
		}
		made = append(made, d)
	}
	for _, d := range made {
		m.nodes[d] = m.newNode(true, nil)
	}
	slices.Reverse(made)
	return made, nil
}

// Link gives a file a further name.
func (m *Memory) Link(ctx context.Context, old, name string) error {
	n, err := m.find(ctx, OpLink, old)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n.dir {
		return failed(OpLink, old, fs.ErrInvalid)
	}
	return m.place(OpLink, n, name, false)
}

// Rename renames a file.
func (m *Memory) Rename(ctx context.Context, old, name string) error {
	n, err := m.find(ctx, OpRename, old)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n.dir {
		return failed(OpRename, old, fs.ErrInvalid)
	}
	if clean(old) == clean(name) {
		return nil
	}
	if err := m.place(OpRename, n, name, true); err != nil {
		return err
	}
	m.drop(clean(old))
	return nil
}

// Remove removes a file or an empty folder.
func (m *Memory) Remove(ctx context.Context, name string) error {
	n, err := m.find(ctx, OpRemove, name)
	if err != nil {
		return err
	}
	if n.dir {
		if list, err := m.List(ctx, name); err != nil || len(list) > 0 {
			return failed(OpRemove, name, fs.ErrInvalid)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(clean(name))
	return nil
}

// SyncDir checks that the folder is there.
func (m *Memory) SyncDir(ctx context.Context, dir string) error {
	_, err := m.find(ctx, OpSyncDir, dir)
	return err
}

// Lock locks a folder.
func (m *Memory) Lock(ctx context.Context, dir string) (func() error, error) {
	if _, err := m.find(ctx, OpLock, dir); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = clean(dir)
	if m.locks[dir] {
		return nil, ErrLocked
	}
	m.locks[dir] = true
	return func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.locks, dir)
		return nil
	}, nil
}

// Same compares the names, and the files that they lead to.
func (m *Memory) Same(ctx context.Context, a, b string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, b = clean(a), clean(b)
	if n := m.nodes[a]; n != nil && n == m.nodes[b] {
		return true, ctx.Err()
	}
	return within(a, b) || within(b, a), ctx.Err()
}

// within reports whether the clean path a is b or lies in it.
func within(a, b string) bool { return b == "." || a == b || strings.HasPrefix(a, b+"/") }

// Free is what Limit leaves.
func (m *Memory) Free(ctx context.Context, _ string) (int64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Limit - m.used, m.Limit > 0, ctx.Err()
}

func clean(name string) string {
	name = path.Clean("/" + name)[1:]
	if name == "" {
		return "."
	}
	return name
}

func failed(op Op, name string, err error) error {
	return &fs.PathError{Op: string(op), Path: name, Err: err}
}

// ask lets the context and the test's hook stop an operation.
func (m *Memory) ask(ctx context.Context, op Op, name string, off int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.Fail == nil {
		return nil
	}
	return m.Fail(op, clean(name), off)
}

func (m *Memory) find(ctx context.Context, op Op, name string) (*node, error) {
	if err := m.ask(ctx, op, name, 0); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[clean(name)]
	if n == nil {
		return nil, failed(op, name, fs.ErrNotExist)
	}
	return n, nil
}

// place gives a file a name, which may exist if replace.
func (m *Memory) place(op Op, n *node, name string, replace bool) error {
	name = clean(name)
	parent, old := m.nodes[path.Dir(name)], m.nodes[name]
	switch {
	case parent == nil || !parent.dir:
		return failed(op, name, fs.ErrNotExist)
	case old == n && replace:
		return nil
	case old != nil && (old.dir || !replace):
		return failed(op, name, fs.ErrExist)
	}
	m.drop(name)
	n.links++
	m.nodes[name] = n
	return nil
}

// drop takes a name away, and the file with its last one.
func (m *Memory) drop(name string) {
	n := m.nodes[name]
	if n == nil {
		return
	}
	delete(m.nodes, name)
	if n.links--; n.links == 0 {
		m.used -= int64(len(n.p))
	}
}

func (m *Memory) newNode(dir bool, p []byte) *node {
	m.clock++
	return &node{dir: dir, p: p, time: m.clock, links: 1}
}

func (n *node) entry(name string) Entry {
	return Entry{Name: path.Base(name), Size: int64(len(n.p)), Dir: n.dir, Time: time.Unix(n.time, 0).UTC()}
}

// readFile reads a small file whole and closes it.
func readFile(f File, name string, max int64) (p []byte, err error) {
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	if f.Size() > max {
		return nil, fmt.Errorf("`%s` has %d bytes, at most %d are allowed", name, f.Size(), max)
	}
	p = make([]byte, f.Size())
	if n, err := f.ReadAt(p, 0); n < len(p) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return p, nil
}

var _ FS = (*Memory)(nil)
