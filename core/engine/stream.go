package engine

import (
	"context"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mesh"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/tensor"
)

// Reader reads tensors of a checkpoint as they are held by its ranks, in
// bounded memory. It is not safe for concurrent use.
type Reader struct {
	w worker
}

// NewReader reads from the files of c.
func NewReader(fs storage.FS, c *checkpoint.Checkpoint) *Reader {
	r := &run{Plan: &plan.Plan{Request: plan.Request{Source: c}}, pool: tensor.NewPool(4 * defaultSizes.band), sources: newSources(fs, c)}
	return &Reader{w: worker{run: r}}
}

// Close closes the files.
func (r *Reader) Close() error {
	r.w.close()
	if err := r.w.sources.close(); err != nil {
		return err
	}
	return r.w.pool.Close()
}

// Stream calls f with the contiguous, row-major, little-endian bytes of what a
// rank holds of a tensor, a few MiB at a time. The bytes are only valid during
// the call.
func (r *Reader) Stream(ctx context.Context, rank int, e *checkpoint.Entry, f func(p []byte) error) error {
	u := &unit{source: &checkpoint.Global{Name: e.Name, DType: e.DType, Shape: e.Shape}, shape: e.Shape, from: e.DType.Size()}
	if u.from == 0 {
		n, _ := e.DType.Bytes(e.Shape)
		u.shape, u.from = []int64{n}, 1
	}
	m, err := mesh.New(nil, []int{1})
	if err != nil {
		return err
	}
	l := layout.Replicated(m, len(u.shape))
	whole := box.Whole(u.shape)
	geometry(u.shape, u.from*8, u.from*8, l, l, 4*defaultSizes.band, defaultSizes).each(func(b box.Box) bool {
		err = r.band(ctx, u, rank, e, whole, b, f)
		return err == nil
	})
	return err
}

func (r *Reader) band(ctx context.Context, u *unit, rank int, e *checkpoint.Entry, whole, b box.Box, f func(p []byte) error) error {
	n := room(b.Elements() * u.from)
	buf, err := r.w.pool.Get(ctx, int(n))
	if err != nil {
		return err
	}
	defer buf.Release()
	p, err := r.w.fetch(ctx, u, rank, e, whole, b, buf.Bytes(), 0)
	if err != nil {
		return err
	}
	return f(p)
}
