package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"runtime"
	"slices"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/sum"
)

// verify syncs the files and reads back of them what the job asks for, before
// any of them gets its name.
func (r *run) verify(ctx context.Context) error {
	r.event("sync", r.done.Load(), "")
	if err := r.target.syncAll(ctx); err != nil {
		return err
	}
	for _, c := range r.files {
		if c.ordered != nil {
			c.sha = c.ordered.sum()
		}
		for i, w := range c.writers {
			if err := r.verifyFile(ctx, c, i, w); err != nil {
				return err
			}
			r.event("verify", r.done.Load(), c.names[i])
		}
	}
	return nil
}

func (r *run) verifyFile(ctx context.Context, c *class, i int, w storage.Writer) error {
	sha := r.o.SHA256 && c.sha == ""
	if r.o.Verify == VerifyNone && !sha {
		return nil
	}
	f, err := w.Reopen(ctx)
	if err != nil {
		return diag.Errorf(diag.Failed, "cannot read back").InFile(c.names[i]).Wrap(err)
	}
	defer f.Close()
	if r.o.Verify != VerifyNone {
		if err := r.verifyHeader(ctx, c, i, f); err != nil {
			return err
		}
	}
	if r.o.Verify != VerifyReadBack && !sha {
		return nil
	}
	var h hash.Hash
	if sha {
		h = sha256.New()
	}
	got, err := r.readBack(ctx, f, h)
	if err != nil {
		return diag.Errorf(diag.Failed, "cannot read back").InFile(c.names[i]).Wrap(err)
	}
	if want := c.crc.Sum(); got != want {
		return diag.Errorf(diag.Failed, "what was read back has the sum %s, what was written %s", sum64(got), sum64(want)).InFile(c.names[i]).
			WithHint("the disk, its controller or the memory has lost bytes; nothing was published")
	}
	if sha {
		c.sha = hex.EncodeToString(h.Sum(nil))
	}
	return nil
}

// readBackSize is the buffer in which whole files are read.
const readBackSize = 4 << 20

// readBack sums a file.
func (r *run) readBack(ctx context.Context, f storage.File, h hash.Hash) (uint64, error) {
	const chunk = readBackSize - 2*storage.Block
	buf, err := r.pool.Get(ctx, readBackSize)
	if err != nil {
		return 0, err
	}
	defer buf.Release()
	var s uint64
	for at := int64(0); at < f.Size(); {
		n := min(chunk, f.Size()-at)
		p, err := f.ReadBlock(ctx, buf.Bytes(), at, int(n), 0)
		if err != nil {
			return 0, err
		}
		s = sum.CRC64.Update(s, p)
		if h != nil {
			h.Write(p)
		}
		at += n
	}
	return s, nil
}

// verifyHeader indexes the file as a reader will, and holds it against what
// was planned: names, types, shapes, and where the bytes are.
func (r *run) verifyHeader(ctx context.Context, c *class, i int, f storage.File) error {
	x, err := r.Format.Index(ctx, checkpoint.Input{File: storage.Cached(f), Name: c.names[i], Yield: runtime.Gosched})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var bad *checkpoint.FormatError
	if err != nil && !errors.As(err, &bad) {
		return diag.Errorf(diag.Failed, "cannot read back").InFile(c.names[i]).Wrap(err)
	}
	if err == nil {
		err = x.Validate([]int64{f.Size()})
	}
	if err == nil {
		err = c.agrees(x)
	}
	if err != nil {
		return diag.Errorf(diag.Failed, "internal error: what was written does not read back: %v", err).InFile(c.names[i]).WithHint("nothing was published; please report this")
	}
	return nil
}

// agrees holds an index against the layout of the file.
func (c *class) agrees(x *checkpoint.Index) error {
	byName := make(map[string][]*checkpoint.Entry, len(x.Entries))
	for i := range x.Entries {
		l := x.Entries[i].PathOrName().Label()
		byName[l] = append(byName[l], &x.Entries[i])
	}
	for i, t := range c.laid.Tensors {
		var hit *checkpoint.Entry
		label := t.Name
		if t.Path != nil && c.nested {
			label = t.Path.Label()
		}
		for _, e := range byName[label] {
			if c.at(i, e) {
				hit = e
			}
		}
		switch {
		case hit == nil:
			return fmt.Errorf("tensor `%s` is not where it was written", t.Name)
		case hit.DType != t.DType:
			return fmt.Errorf("tensor `%s` reads as %s, it was written as %s", t.Name, hit.DType, t.DType)
		case !slices.Equal(hit.Shape, t.Shape):
			return fmt.Errorf("tensor `%s` reads with shape %v, it was written with %v", t.Name, hit.Shape, t.Shape)
		}
	}
	return nil
}

// at reports whether an entry's bytes are the payload of tensor i.
func (c *class) at(i int, e *checkpoint.Entry) bool {
	runs := c.laid.Payload[i]
	if len(runs) == 0 {
		return e.Data.RunBytes() == 0
	}
	if len(e.Data.Extents) != len(runs) || !e.Data.RowMajor(e.Shape) || e.Data.Offset != 0 {
		return false
	}
	for j, x := range e.Data.Extents {
		if x.Off != runs[j].At || x.Len != runs[j].Len {
			return false
		}
	}
	return true
}
