package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/core/seeded"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/mindspore"
)

// BenchmarkRun moves seeded checkpoints in memory. Where ranks are many and
// parts small, it is the work for each part that counts.
func BenchmarkRun(b *testing.B) {
	tiny := seeded.Model{Layers: 2, Hidden: 512, FFN: 1024, Vocab: 512, DType: dtype.BF16}
	for _, c := range []struct {
		name     string
		model    seeded.Model
		from, to seeded.Parallel
	}{
		{"8 ranks to 4", seeded.Model{Layers: 4, Hidden: 1024, FFN: 4096, Vocab: 8192, DType: dtype.BF16}, seeded.Parallel{PP: 1, DP: 2, TP: 4, Opt: layout.All}, seeded.Parallel{PP: 1, DP: 1, TP: 4}},
		{"512 ranks to 256", tiny, seeded.Parallel{PP: 1, DP: 32, TP: 16, Opt: layout.All}, seeded.Parallel{PP: 1, DP: 16, TP: 16, Opt: layout.All}},
		{"64 copies compared", tiny, seeded.Parallel{PP: 1, DP: 64, TP: 1}, seeded.Parallel{PP: 1, DP: 1, TP: 1}},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx := context.Background()
			fs := storage.NewMemory()
			tensors, err := c.model.Tensors(c.from)
			if err != nil {
				b.Fatal(err)
			}
			for r := range c.from.Ranks() {
				if _, err := seeded.WriteRank(ctx, fs, fmt.Sprintf("in/rank_%d/a.ckpt", r), mindspore.Format{}, tensors, c.from, r, 1); err != nil {
					b.Fatal(err)
				}
			}
			o := ranks.Options{FS: placed{fs}, Formats: formats, Strategy: []string{"placement"}}
			o.Strategies = func([]ranks.StrategyFile) (*layout.Strategy, diag.List, error) {
				s, err := seeded.Strategy(tensors, c.from)
				return s, nil, err
			}
			src, err := ranks.Open(ctx, "in", o)
			if err != nil {
				b.Fatal(err)
			}
			after, err := c.model.Tensors(c.to)
			if err != nil {
				b.Fatal(err)
			}
			s, err := seeded.Strategy(after, c.to)
			if err != nil {
				b.Fatal(err)
			}
			p, err := plan.Make(ctx, plan.Request{Source: src, Format: checkpoint.Format(mindspore.Format{}), Strategy: s, Folder: true})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(p.Totals.ReadBytes + p.Totals.WriteBytes)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				opt := Options{FS: fs, Root: "in", Target: fmt.Sprintf("out%d", i), Manifest: "convert.manifest.json", Workers: 2, Memory: 256 << 20, Now: time.Now, OnExists: ExistsFail, Verify: VerifyDigest}
				if _, err := Run(ctx, p, opt); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
