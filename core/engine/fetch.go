package engine

import (
	"context"
	"errors"
	"io"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/tensor"
)

// fetch reads a box of a rank's part into buf and returns its elements,
// row-major, little-endian, with the values that they stand for. The box is
// contiguous in the part's row-major order. buf has room for the bytes; with
// two blocks more it may be read past the page cache, or else begin at
// buf[phase] if they lie in one run.
func (w *worker) fetch(ctx context.Context, u *unit, rank int, e *checkpoint.Entry, held, b box.Box, buf []byte, phase int) ([]byte, error) {
	in := b.In(held)
	n := b.Elements() * u.from
	var out []byte
	var err error
	d := &e.Data
	switch first := in.Index(held.Ext) * u.from; {
	case u.source.DType.Size() == 0: // whole bytes, in order: Validate has seen to it
		out, err = w.span(ctx, rank, d, d.Offset*u.source.DType.Bits()/8+first, n, buf, phase)
	case d.RowMajor(held.Ext):
		out, err = w.span(ctx, rank, d, d.Offset*u.from+first, n, buf, phase)
	default:
		out = buf[:n]
		err = w.gather(ctx, u, rank, d, in, out)
	}
	if err != nil {
		return nil, w.place(err, u, rank, d)
	}
	if d.BigEndian {
		tensor.Swap(out, u.source.DType.Unit())
	}
	if d.Negate {
		err = tensor.Negate(out, u.source.DType)
	}
	if d.Conjugate && err == nil {
		err = tensor.Conjugate(out, u.source.DType)
	}
	return out, err
}

// place says in an error of reading what was read.
func (w *worker) place(err error, u *unit, rank int, d *checkpoint.Data) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	x := diag.From(err)[0]
	if x.Subject.Tensor == "" {
		x.OfTensor(u.source.Name)
	}
	if !x.Subject.HasRank {
		x.OfRank(rank)
	}
	if x.Subject.File == "" && len(d.Extents) > 0 {
		x.InFile(w.Source.Rank(rank).Files[d.Extents[0].File].Name)
	}
	return x
}

// span reads n bytes at an offset of the run that the extents make up.
func (w *worker) span(ctx context.Context, rank int, d *checkpoint.Data, off, n int64, buf []byte, phase int) ([]byte, error) {
	if d.Inline != nil {
		return buf[:copy(buf[:n], d.Inline[off:off+n])], nil
	}
	if d.Codec == checkpoint.Deflate {
		return buf[:n], w.inflate.read(ctx, w.run, rank, d, off, buf[:n])
	}
	out := buf[:0]
	for _, x := range d.Extents {
		if off >= x.Len {
			off -= x.Len
			continue
		}
		k := min(n, x.Len-off)
		f, ref, err := w.sources.file(ctx, rank, x.File)
		if err != nil {
			return nil, err
		}
		at := x.Off + off
		if k == n && len(out) == 0 && int64(len(buf)) >= n+2*storage.Block {
			p, err := f.ReadBlock(ctx, buf, at, int(n), phase)
			return p, readError(err, ref, at, n)
		}
		p := out[len(out) : int64(len(out))+k]
		if _, err := f.ReadAt(p, at); err != nil {
			return nil, readError(err, ref, at, k)
		}
		out = out[:int64(len(out))+k]
		if n -= k; n == 0 {
			return out, nil
		}
		off = 0
	}
	return nil, io.ErrUnexpectedEOF
}

func readError(err error, ref *checkpoint.FileRef, at, n int64) error {
	if err == nil {
		return nil
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return diag.Errorf(diag.Damaged, "the file has become shorter: %d bytes cannot be read", n).InFile(ref.Name).AtByte(at).
			WithHint("something cut it while it was read; copy it again")
	}
	return diag.Errorf(diag.Failed, "cannot read %d bytes", n).InFile(ref.Name).AtByte(at).Wrap(err)
}

// gatherSpan is the greatest run of a strided source that is read at once.
const gatherSpan = 1 << 20

// gather reads a box of a strided tensor. A box whose elements lie close is
// read with what is between them; otherwise it is halved along its longest
// stride.
func (w *worker) gather(ctx context.Context, u *unit, rank int, d *checkpoint.Data, in box.Box, dst []byte) error {
	buf, err := w.pool.TryGet(gatherSpan + 2*storage.Block)
	if err != nil {
		return err
	}
	var scratch []byte
	if buf != nil {
		defer buf.Release()
		scratch = buf.Bytes()
	} else {
		// The pool is lent out to the last byte: a little memory beside it
		// keeps the workers from waiting for each other.
		scratch = make([]byte, 64<<10+2*storage.Block)
	}
	g := gatherer{w: w, u: u, rank: rank, d: d, scratch: scratch, most: int64(len(scratch)) - 2*storage.Block, origin: in, dst: dst}
	g.stride = box.Strides(in.Ext)
	return g.box(ctx, in)
}

type gatherer struct {
	w       *worker
	u       *unit
	rank    int
	d       *checkpoint.Data
	scratch []byte
	most    int64
	origin  box.Box // where dst begins, and its extent
	stride  []int64 // of dst, in elements
	dst     []byte
}

func (g *gatherer) box(ctx context.Context, b box.Box) error {
	es := g.u.from
	first, last, far := g.d.Offset, g.d.Offset, -1
	for i, n := range b.Ext {
		s := g.d.Strides[i]
		first += b.Off[i] * s
		last += (b.Off[i] + n - 1) * s
		if n > 1 && (far < 0 || s > g.d.Strides[far]) {
			far = i
		}
	}
	bytes := (last - first + 1) * es
	if bytes <= g.most && (bytes <= 64<<10 || bytes <= 4*b.Elements()*es) || far < 0 {
		p, err := g.w.span(ctx, g.rank, g.d, first*es, bytes, g.scratch, 0)
		if err != nil {
			return err
		}
		ds, ss := make([]int64, len(b.Ext)), make([]int64, len(b.Ext))
		for i := range ds {
			ds[i], ss[i] = g.stride[i]*es, g.d.Strides[i]*es
		}
		tensor.Copy(g.dst[b.In(g.origin).Index(g.origin.Ext)*es:], ds, p, ss, b.Ext, es)
		return nil
	}
	lo, hi := b.Clone(), b.Clone()
	half := b.Ext[far] / 2
	lo.Ext[far] = half
	hi.Off[far] += half
	hi.Ext[far] -= half
	if err := g.box(ctx, lo); err != nil {
		return err
	}
	return g.box(ctx, hi)
}
