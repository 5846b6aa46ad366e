package tensor

import (
	"errors"
	"slices"

	"github.com/seed-e934e81e/convert/core/storage"
)

// find takes an idle block of size bytes or makes one, for which it evicts
// others. The caller has seen that size fits beside what is in use.
func (p *Pool) find(size int) (*block, error) {
	if b := p.reuse(size, false); b != nil {
		p.kept -= int64(size)
		return b, nil
	}
	b := p.reuse(size, true)
	if b == nil && size <= maxSlot && p.inUse+slabSize <= p.cap {
		if err := p.makeRoom(slabSize, size); err != nil {
			return nil, err
		}
		if p.inUse+p.kept+slabSize <= p.cap {
			return p.newSlab(size)
		}
	}
	if err := p.makeRoom(size, size); err != nil {
		return nil, err
	}
	if b != nil {
		b.dropped = false
		return b, nil
	}
	mem, err := storage.Pages(size)
	if err != nil {
		return nil, err
	}
	return &block{p: mem}, nil
}

// makeRoom evicts what is idle until n more bytes fit under the cap.
func (p *Pool) makeRoom(n, size int) error {
	return p.evict(p.inUse+p.kept+int64(n)-p.cap, size)
}

// reuse takes the idle block of that size that was used last, of those whose
// memory was dropped or of the others.
func (p *Pool) reuse(size int, dropped bool) *block {
	list := p.idle[size]
	for i := len(list) - 1; i >= 0; i-- {
		if b := list[i]; b.dropped == dropped {
			p.idle[size] = slices.Delete(list, i, i+1)
			return b
		}
	}
	return nil
}

// newSlab cuts a huge page in slots of size bytes and takes the first. What is
// left at its end is never touched.
func (p *Pool) newSlab(size int) (*block, error) {
	mem, err := storage.Pages(slabSize)
	if err != nil {
		return nil, err
	}
	s := &slab{p: mem}
	var slots []*block
	for at := 0; at+size <= slabSize; at += size {
		slots = append(slots, &block{p: mem[at : at+size : at+size], slab: s})
	}
	slices.Reverse(slots) // the lowest is used first
	last := len(slots) - 1
	p.idle[size] = append(p.idle[size], slots[:last]...)
	p.kept += int64(last * size)
	return slots[last], nil
}

// evict gives idle memory back to the system until need bytes are free or
// nothing is idle: blocks with pages of their own and slabs without a slot in
// use first, then idle slots of the other slabs, and in both the size that
// was asked for last.
func (p *Pool) evict(need int64, size int) error {
	var errs []error
	for _, whole := range []bool{true, false} {
		for _, same := range []bool{false, true} {
			for n := range p.idle {
				if (n == size) != same {
					continue
				}
				for i := 0; i < len(p.idle[n]) && need > 0; {
					freed, removed, err := p.giveBack(p.idle[n][i], whole)
					errs = append(errs, err)
					need -= freed
					if i++; removed {
						i = 0 // others of its slab have left the list too
					}
				}
				if len(p.idle[n]) == 0 {
					delete(p.idle, n)
				}
			}
		}
	}
	return errors.Join(errs...)
}

// giveBack frees an idle block: with its slab if whole, else by dropping its
// memory while the slab stays. It returns the bytes freed and whether the
// block has left the idle list.
func (p *Pool) giveBack(b *block, whole bool) (freed int64, removed bool, err error) {
	size := len(b.p)
	switch {
	case !whole && !b.dropped:
		b.dropped = true
		p.kept -= int64(size)
		return int64(size), false, storage.DropPages(b.p)
	case !whole || b.slab != nil && b.slab.live > 0:
		return 0, false, nil
	}
	p.idle[size] = slices.DeleteFunc(p.idle[size], func(o *block) bool {
		gone := o == b || b.slab != nil && o.slab == b.slab
		if gone && !o.dropped {
			freed += int64(size)
		}
		return gone
	})
	p.kept -= freed
	mem := b.p
	if b.slab != nil {
		mem = b.slab.p
	}
	return freed, true, storage.FreePages(mem)
}
