package plan_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mesh"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/formats/mindspore"
)

// cluster is a run of a model with so many parameters.
type cluster struct{ pp, dp, tp, params int }

func (c cluster) ranks() int { return c.pp * c.dp * c.tp }

func (c cluster) String() string { return fmt.Sprintf("%d=%dx%dx%d", c.ranks(), c.pp, c.dp, c.tp) }

// shape is the global shape of a parameter: every third is a vector.
func (c cluster) shape(i int) []int64 {
	if i%3 == 2 {
		return []int64{1 << 15}
	}
	return []int64{5 << 13, 1 << 15}
}

// strategy cuts matrices by rows or columns over tp, and rows by an optimizer
// shard over 8 of the ranks that would hold the same.
func (c cluster) strategy(tb testing.TB) *layout.Strategy {
	m, err := mesh.New([]string{"dp", "tp"}, []int{c.dp, c.tp})
	if err != nil {
		tb.Fatal(err)
	}
	var params []layout.Param
	for i := range c.params {
		dims := [][][]int{{{1}, nil}, {nil, {1}}, {nil}}[i%3]
		opt := 8
		if i%3 == 2 {
			opt = 0
		}
		l, err := layout.New(m, dims, opt)
		if err != nil {
			tb.Fatal(err)
		}
		params = append(params, layout.Param{Name: c.name(i), Stage: i * c.pp / c.params, Layout: l})
	}
	s, err := layout.NewStrategy(c.pp, c.dp*c.tp, params)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func (c cluster) name(i int) string { return fmt.Sprintf("decoder.layers.%d.mlp.linear.weight", i) }

// checkpoint is the metadata of a run, made without files: the ranks of a stage
// share a header, each has its own, or each has its own and holds only its share
// of the copies.
func (c cluster) checkpoint(tb testing.TB, h headers) *checkpoint.Checkpoint {
	s := c.strategy(tb)
	var list []checkpoint.Rank
	for stage := range c.pp {
		var x *checkpoint.Header
		for d := range c.dp * c.tp {
			id := stage*c.dp*c.tp + d
			if x == nil || h != shared {
				x = c.header(tb, s, stage, id, h)
			}
			name := fmt.Sprintf("rank_%d/a.ckpt", id)
			list = append(list, checkpoint.Rank{ID: id, Header: x, Files: []checkpoint.FileRef{{Name: name, Path: name, Size: x.Sizes[0]}}})
		}
	}
	out, err := ranks.Join(list, s, ranks.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

type headers string

const (
	shared headers = "shared"
	own    headers = "own"
	lean   headers = "lean"
)

func (c cluster) header(tb testing.TB, s *layout.Strategy, stage, id int, h headers) *checkpoint.Header {
	x := &checkpoint.Index{Format: "mindspore"}
	at := int64(id)
	block := make([]int, 2)
	for i := range c.params {
		p := s.InStage(c.name(i), stage)
		if p == nil || h == lean && p.Layout.Block(id%(c.dp*c.tp), block) != i%p.Layout.Replicas() {
			continue
		}
		shape := p.Layout.Box(c.shape(i), 0).Ext
		n, _ := dtype.BF16.Bytes(shape)
		x.Entries = append(x.Entries, checkpoint.Entry{Name: c.name(i), DType: dtype.BF16, Shape: shape, Data: checkpoint.Data{Extents: []checkpoint.Extent{{Off: at + 80, Len: n}}}, Seq: i})
		at += 80 + n
	}
	if err := x.Validate([]int64{at}); err != nil {
		tb.Fatal(err)
	}
	return checkpoint.NewHeader(x, []int64{at})
}

// move is the request to put a run on other ranks.
func move(tb testing.TB, from, to cluster, h headers) plan.Request {
	return plan.Request{Source: from.checkpoint(tb, h), Format: mindspore.Format{}, Strategy: to.strategy(tb), Folder: true, Prefix: "checkpoint_"}
}

func BenchmarkMake(b *testing.B) {
	for _, c := range []struct {
		from, to cluster
		headers  headers
	}{
		{from: cluster{10, 32, 32, 3000}, to: cluster{8, 32, 32, 3000}, headers: shared},
		{from: cluster{1, 320, 32, 3000}, to: cluster{1, 256, 32, 3000}, headers: shared},
		{from: cluster{10, 32, 32, 3000}, to: cluster{8, 32, 32, 3000}, headers: lean},
		{from: cluster{4, 32, 8, 1000}, to: cluster{3, 32, 8, 1000}, headers: shared},
		{from: cluster{4, 32, 8, 1000}, to: cluster{3, 32, 8, 1000}, headers: own},
		{from: cluster{4, 32, 8, 1000}, to: cluster{3, 32, 8, 1000}, headers: lean},
	} {
		b.Run(fmt.Sprintf("from=%v/to=%v/headers=%v", c.from, c.to, c.headers), func(b *testing.B) {
			q := move(b, c.from, c.to, c.headers)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				if _, err := plan.Make(context.Background(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkJoin(b *testing.B) {
	c := cluster{10, 32, 32, 3000}
	src := c.checkpoint(b, shared)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ranks.Join(src.Ranks, src.Strategy, ranks.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// A plan is symbolic: moving 3,000 parameters from 10,240 ranks to 8,192 is
// 30 million shards, and takes the memory of the parameters and the ranks.
func TestMakeIsSymbolic(t *testing.T) {
	if testing.Short() {
		t.Skip("plans for 10,240 ranks are long")
	}
	q := move(t, cluster{10, 32, 32, 3000}, cluster{8, 32, 32, 3000}, shared)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := plan.Make(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	const most = 256 << 20
	if got := after.TotalAlloc - before.TotalAlloc; got > most {
		t.Errorf("the plan takes %d bytes of memory, want at most %d", got, most)
	}
	if p.Totals.TargetFiles != 8192 || p.Totals.Tensors != 3000 || p.Totals.SourceFiles == 0 {
		t.Errorf("the totals are %+v, want 8192 files of 3000 tensors", p.Totals)
	}
}
