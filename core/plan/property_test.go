package plan_test

import (
	"context"
	"slices"
	"testing"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint/memory"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/safetensors"
)

// The pieces of a target rank fill each of its parts, every element once, and
// lie in what their source ranks hold.
func TestNeedsTileEveryPart(t *testing.T) {
	for seed := range uint64(300) {
		c, _, q := pair(t, seed)
		p := planned(t, seed, q)
		if p == nil {
			continue
		}
		for gi := range p.Groups {
			g := &p.Groups[gi]
			for _, r := range g.Ranks {
				parts := make([][]bool, len(g.Items))
				for i, it := range g.Items {
					parts[i] = make([]bool, it.Layout.Box(p.Tensors[it.Tensor].Shape, r%p.Devices).Elements())
				}
				p.Needs(g, r, func(n plan.Need) bool {
					it := g.Items[n.Item]
					x := &p.Tensors[it.Tensor]
					s := &p.Source.Tensors[x.Source]
					if e := p.Source.Entry(n.Rank, s.Name); e != n.Entry || !slices.Equal(e.Shape, n.Holder.Ext) || !n.Holder.Contains(n.Part) {
						t.Errorf("seed %d: target rank %d takes %v of `%s` from rank %d, which holds %v", seed, r, n.Part, s.Name, n.Rank, n.Holder)
					}
					k := slices.IndexFunc(c.Tensors, func(y memory.Tensor) bool { return y.Name == s.Name })
					if b, ok := c.Holds(&c.Tensors[k], n.Rank); !ok || !b.Equal(n.Holder) {
						t.Errorf("seed %d: source rank %d holds %v of `%s`, the plan says %v", seed, n.Rank, b, s.Name, n.Holder)
					}
					if want := n.Part.Elements() * s.DType.Size(); n.Bytes != want {
						t.Errorf("seed %d: a piece of %v has %d bytes, want %d", seed, n.Part, n.Bytes, want)
					}
					mine := it.Layout.Box(x.Shape, r%p.Devices)
					n.Part.In(mine).Runs(mine.Ext, func(at, length int64) bool {
						for i := at; i < at+length; i++ {
							if parts[n.Item][i] {
								t.Errorf("seed %d: element %d of `%s` on target rank %d is written twice", seed, i, x.Name, r)
							}
							parts[n.Item][i] = true
						}
						return true
					})
					return true
				})
				for i, part := range parts {
					if slices.Contains(part, false) {
						t.Errorf("seed %d: `%s` on target rank %d is not filled", seed, p.Tensors[g.Items[i].Tensor].Name, r)
					}
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}

// The byte range of a piece holds its first element, its last, and all
// between.
func TestSpan(t *testing.T) {
	for seed := range uint64(100) {
		_, _, q := pair(t, seed)
		p := planned(t, seed, q)
		if p == nil {
			continue
		}
		for gi := range p.Groups {
			for _, r := range p.Groups[gi].Ranks {
				p.Needs(&p.Groups[gi], r, func(n plan.Need) bool {
					s := &p.Source.Tensors[p.Tensors[p.Groups[gi].Items[n.Item].Tensor].Source]
					size := s.DType.Size()
					lo, hi := int64(-1), int64(0)
					n.Part.In(n.Holder).Runs(n.Holder.Ext, func(at, length int64) bool {
						if lo < 0 {
							lo = at * size
						}
						hi = (at + length) * size
						return true
					})
					_, off, length, ok := n.Span(s)
					if x := n.Entry.Data.Extents[0]; !ok || off != x.Off+lo || length != hi-lo || off+length > x.Off+x.Len {
						t.Fatalf("seed %d: %v of %v spans %d bytes at %d of %+v, want %d at %d", seed, n.Part, n.Holder, length, off, x, hi-lo, x.Off+lo)
					}
					return true
				})
			}
		}
	}
}

// The same job has the same plan, wherever its source lies.
func TestDigest(t *testing.T) {
	for seed := range uint64(50) {
		c, to, q := pair(t, seed)
		digest := func(q plan.Request) string {
			t.Helper()
			p, err := plan.Make(context.Background(), q)
			if err != nil {
				return err.Error()
			}
			return p.Digest
		}
		want := digest(q)
		if planned(t, seed, q) == nil {
			continue
		}
		if len(want) != 64 || digest(q) != want {
			t.Fatalf("seed %d: a plan made twice has the digests %s and %s", seed, want, digest(q))
		}
		fs := storage.NewMemory()
		put(t, fs, "elsewhere/deep", c)
		again := q
		again.Source = open(t, fs, "elsewhere/deep", &c.Placement)
		again.Strategy = strategyOf(t, to)
		again.Compare = plan.CompareAll
		again.Yield = func() {}
		if got := digest(again); got != want {
			t.Errorf("seed %d: the digest is %s at another place, want %s", seed, got, want)
		}
		for what, change := range map[string]func(*plan.Request){
			"another format":  func(q *plan.Request) { q.Format = safetensors.Format{} },
			"another prefix":  func(q *plan.Request) { q.Prefix = "x" },
			"a trailer":       func(q *plan.Request) { q.Trailer = true },
			"links":           func(q *plan.Request) { q.Link = true },
			"MindSpore's own": func(q *plan.Request) { q.Replicas = plan.ByRank },
		} {
			other := q
			change(&other)
			if digest(other) == want {
				t.Errorf("seed %d: %s has the same digest", seed, what)
			}
		}
	}
}

// Totals are those of the files.
func TestTotals(t *testing.T) {
	for seed := range uint64(100) {
		_, _, q := pair(t, seed)
		q.DType = dtype.F32
		p := planned(t, seed, q)
		if p == nil {
			continue
		}
		files, bytes, payload, casts := 0, int64(0), int64(0), 0
		for gi := range p.Groups {
			for _, r := range p.Groups[gi].Ranks {
				l, err := p.Lay(context.Background(), gi, r)
				if err != nil {
					t.Fatal(err)
				}
				files, bytes = files+1, bytes+l.Size
				for i, it := range p.Groups[gi].Items {
					want, _ := p.Tensors[it.Tensor].DType.Bytes(it.Layout.Box(p.Tensors[it.Tensor].Shape, r%p.Devices).Ext)
					got := int64(0)
					for _, x := range l.Payload[i] {
						got += x.Len
					}
					if got != want {
						t.Errorf("seed %d: `%s` is laid out with %d bytes, want %d", seed, p.Tensors[it.Tensor].Name, got, want)
					}
				}
			}
		}
		used := map[int]bool{}
		for _, g := range p.Groups {
			for _, it := range g.Items {
				used[it.Tensor] = true
			}
		}
		for i := range used {
			x := &p.Tensors[i]
			payload += box.Whole(x.Shape).Elements() * x.DType.Size()
			if x.DType != p.Source.Tensors[x.Source].DType {
				casts++
			}
		}
		if got := p.Totals; got.TargetFiles != files || got.WriteBytes != bytes || got.Payload != payload || got.CastTensors != casts || got.Tensors != len(used) {
			t.Errorf("seed %d: totals are %+v, want %d files of %d bytes, %d tensors of %d, %d cast", seed, got, files, bytes, len(used), payload, casts)
		}
	}
}
