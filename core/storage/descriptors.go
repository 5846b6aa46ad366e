package storage

import (
	"container/list"
	"io/fs"
	"os"
	"sync"
)

// descriptors keeps the number of open files under a limit: one that is not in
// use is closed when another one is needed, and opened again when it is. A job
// may have more files than a process may have open.
type descriptors struct {
	limit int

	mu   sync.Mutex
	open int
	idle [2]list.List // least recently used at the back; those of the second are closed last
}

// descriptor is one file that is open while it is used.
type descriptor struct {
	all    *descriptors
	reopen func() (*os.File, error)
	last   bool                 // hold on to it as long as others can be closed
	leave  func(*os.File) error // called before it is closed early; may be nil

	f      *os.File
	pins   int
	elem   *list.Element // in idle
	err    error         // of closing it early; final
	closed bool
}

// acquire opens the file if need be and keeps it open until release.
func (d *descriptor) acquire() (*os.File, error) {
	a := d.all
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case d.closed:
		return nil, fs.ErrClosed
	case d.err != nil:
		return nil, d.err
	case d.f == nil:
		for a.open >= a.limit && a.evict() {
		}
		f, err := d.reopen()
		for tooMany(err) && a.evict() {
			f, err = d.reopen()
		}
		if err != nil {
			return nil, err
		}
		d.f = f
		a.open++
	case d.elem != nil:
		a.list(d).Remove(d.elem)
		d.elem = nil
	}
	d.pins++
	return d.f, nil
}

func (d *descriptor) release() {
	a := d.all
	a.mu.Lock()
	defer a.mu.Unlock()
	d.pins--
	switch {
	case d.pins > 0:
	case d.closed:
		_ = d.shut() // closed while in use: nobody is left to be told
	default:
		d.elem = a.list(d).PushFront(d)
	}
}

// close closes the file for good and returns its error, or that of closing it
// early.
func (d *descriptor) close() error {
	a := d.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if d.elem != nil {
		a.list(d).Remove(d.elem)
		d.elem = nil
	}
	if d.f == nil || d.pins > 0 {
		return d.err
	}
	return d.shut()
}

func (d *descriptor) shut() error {
	err := d.f.Close()
	d.f = nil
	d.all.open--
	return err
}

func (a *descriptors) list(d *descriptor) *list.List {
	if d.last {
		return &a.idle[1]
	}
	return &a.idle[0]
}

// evict closes the file that was not used for the longest time.
func (a *descriptors) evict() bool {
	for i := range a.idle {
		e := a.idle[i].Back()
		if e == nil {
			continue
		}
		a.idle[i].Remove(e)
		d := e.Value.(*descriptor)
		d.elem = nil
		if d.leave != nil {
			d.err = d.leave(d.f)
		}
		if err := d.shut(); d.err == nil {
			d.err = err
		}
		return true
	}
	return false
}
