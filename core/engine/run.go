package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/tensor"
)

// run is one execution of a plan.
type run struct {
	*plan.Plan
	o       Options
	started time.Time
	pool    *tensor.Pool
	sources *sources
	files   []*class
	byGroup [][]*class
	usual   int64 // bytes that a worker keeps
	target  *target

	done, compared, read, overflow atomic.Int64
	filesDone                      atomic.Int64
	digests                        []digests // by tensor of the plan
	taking                         sync.Mutex
	mu                             sync.Mutex
	warnings                       diag.List
}

// digests are the sums of one tensor, as text; empty where it was not written
// whole.
type digests struct {
	read, wrote string
	mixed       bool // files were made of copies that may differ
}

func (r *run) do(ctx context.Context) (res *Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.o.Workers = max(r.o.Workers, 1)
	r.pool = tensor.NewPool(r.memory())
	r.sources = newSources(r.o.FS, r.Source)
	r.digests = make([]digests, len(r.Tensors))
	defer func() {
		err = errors.Join(err, r.sources.close(), r.pool.Close())
	}()
	if err := r.classes(ctx); err != nil {
		return nil, err
	}
	r.target = &target{run: r}
	if err := r.target.open(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.target.abort())
		}
	}()
	if r.o.CRC {
		if err := r.checkSources(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.target.create(ctx); err != nil {
		return nil, err
	}
	if err := r.copyAll(ctx); err != nil {
		return nil, err
	}
	if err := r.finish(ctx); err != nil {
		return nil, err
	}
	if err := r.verify(ctx); err != nil {
		return nil, err
	}
	if err := r.unchanged(ctx); err != nil {
		return nil, err
	}
	m := r.manifest()
	if err := r.target.publish(ctx, m); err != nil {
		return nil, err
	}
	return &Result{
		Manifest: m, Written: r.Totals.WriteBytes, Read: r.read.Load(), Compared: r.compared.Load(), Overflow: r.overflow.Load(),
		Linked: r.target.linked, Peak: r.pool.Peak(), Elapsed: r.o.Now().Sub(r.started), Warnings: r.warnings,
	}, nil
}

func (r *run) warn(d *diag.Diagnostic) {
	r.mu.Lock()
	r.warnings = append(r.warnings, d)
	r.mu.Unlock()
}

// memory is the cap of the buffers: what each worker keeps, one band that is
// greater than that where there is any, and scratch space for strided sources.
// A band of the greatest size fits whatever the setting is.
func (r *run) memory() int64 {
	most := greatest(r.Plan, r.o)
	r.usual = max(min(most, r.o.budget()), storage.Block)
	n := int64(r.o.Workers)*int64(tensor.Footprint(int(r.usual))) + scratchSize
	// greatest is an estimate; a band that turns out a little greater waits for
	// this, and not for what the others keep.
	n += int64(tensor.Footprint(int(most + most/4)))
	return max(n, int64(tensor.Footprint(readBackSize)))
}

// spare is the memory that no worker keeps.
func (r *run) spare() int64 {
	return r.pool.Cap() - int64(r.o.Workers)*int64(tensor.Footprint(int(r.usual)))
}

// scratchSize is room for the workers' strided reads.
const scratchSize = 4 * (gatherSpan + 2*storage.Block)

// job is one band of one unit.
type job struct {
	unit *unit
	band box.Box
}

// copyAll hands every band to the workers.
func (r *run) copyAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	order := r.schedule()
	r.orderSums(order)
	jobs := make(chan job)
	var wg sync.WaitGroup
	fail := func(err error) {
		cancel(err)
		for _, c := range r.files {
			if c.ordered != nil {
				c.ordered.stop()
			}
		}
	}
	stopped := context.AfterFunc(ctx, func() { fail(context.Cause(ctx)) })
	defer stopped()
	for range r.o.Workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			w, err := newWorker(ctx, r)
			if err != nil {
				fail(err)
				return
			}
			defer w.close()
			for {
				j, mem, ok, err := w.take(ctx, jobs)
				if !ok {
					return
				}
				if err == nil && ctx.Err() == nil {
					err = w.band(ctx, j, mem)
				}
				w.drop()
				if err != nil {
					fail(err)
				}
			}
		}()
	}
	r.feed(ctx, order, jobs, fail)
	close(jobs)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// feed makes the units of one tensor after another and hands out their bands.
func (r *run) feed(ctx context.Context, order []planned, jobs chan<- job, fail func(error)) {
	for _, p := range order {
		units := r.units(p.tensor, r.uses(p))
		if len(units) > 1 && slices.ContainsFunc(units, func(u *unit) bool { return !u.full }) {
			r.mix(p.tensor)
		}
		for _, u := range units {
			list := u.list(r.o.SHA256)
			u.left.Store(int64(len(list)))
			if len(list) == 0 {
				if err := r.unitDone(u); err != nil {
					fail(err)
					return
				}
				continue
			}
			for _, b := range list {
				select {
				case jobs <- job{unit: u, band: b}:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// planned is a tensor and the files that hold it.
type planned struct {
	tensor int
	items  []groupItem
	at     int64 // where its bytes begin in its source file
	file   int   // rank that holds them
}

// groupItem is a tensor in the files of a group of the plan.
type groupItem struct{ group, item int }

// uses lists the classes of files that hold a tensor. It is made when it is
// needed: of all tensors together it would be as long as all headers.
func (r *run) uses(p planned) []use {
	var out []use
	for _, x := range p.items {
		for _, c := range r.byGroup[x.group] {
			out = append(out, use{class: c, item: x.item})
		}
	}
	return out
}

// schedule orders the tensors: by their place in the source, so that reads run
// in sequence, or by their place in the target where a digest wants its bytes
// in order.
func (r *run) schedule() []planned {
	by := make([]planned, len(r.Tensors))
	for i := range by {
		by[i].tensor = i
	}
	var order []int
	for gi := range r.Groups {
		for i, it := range r.Groups[gi].Items {
			if by[it.Tensor].items == nil {
				order = append(order, it.Tensor)
			}
			by[it.Tensor].items = append(by[it.Tensor].items, groupItem{gi, i})
		}
	}
	out := make([]planned, 0, len(order))
	for _, t := range order {
		p := by[t]
		s := &r.Source.Tensors[r.Tensors[t].Source]
		pl := s.Places[0]
		p.file = pl.Stage * r.Source.Devices
		if _, e := r.Holder(s, 0, make([]int, len(s.Shape)), plan.AnyRank); e != nil && len(e.Data.Extents) > 0 {
			p.at = e.Data.Extents[0].Off
		}
		out = append(out, p)
	}
	if !r.o.SHA256 {
		slices.SortStableFunc(out, func(a, b planned) int {
			if a.file != b.file {
				return a.file - b.file
			}
			return int(min(max(a.at-b.at, -1), 1))
		})
		return out
	}
	at := make(map[int]int64, len(out))
	for _, c := range r.files {
		for i, it := range r.Groups[c.group].Items {
			if runs := c.laid.Payload[i]; len(runs) > 0 {
				if _, seen := at[it.Tensor]; !seen {
					at[it.Tensor] = runs[0].At
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b planned) int {
		if a.file != b.file {
			return a.file - b.file
		}
		return int(min(max(at[a.tensor]-at[b.tensor], -1), 1))
	})
	return out
}

// orderSums decides for each class whether its SHA-256 can be computed while
// it is written: only if its bytes come in order.
func (r *run) orderSums(order []planned) {
	if !r.o.SHA256 {
		return
	}
	next := make(map[*class]int64, len(r.files))
	out := make(map[*class]bool, len(r.files))
	for _, p := range order {
		for _, u := range r.uses(p) {
			for _, run := range u.class.laid.Payload[u.item] {
				if run.At-int64(len(run.Lead)) != next[u.class] {
					out[u.class] = true
				}
				next[u.class] = run.At + run.Len
			}
		}
	}
	for _, c := range r.files {
		loose := len(c.laid.Loose) > 1 || len(c.laid.Loose) == 1 && c.laid.Loose[0].At != next[c]
		if !out[c] && !loose {
			c.ordered = newOrdered()
		}
	}
}
