package plan_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/checkpoint/memory"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mapping"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
)

var types = []dtype.Type{dtype.Bool, dtype.U8, dtype.I32, dtype.I64, dtype.F16, dtype.BF16, dtype.F32, dtype.F64}

// put writes the files of a checkpoint.
func put(t *testing.T, fs *storage.Memory, root string, c *memory.Checkpoint) {
	t.Helper()
	f := mindspore.Format{}
	_, err := c.Put(fs, root, ".ckpt", func(out checkpoint.Output, data [][]byte) ([]byte, error) { return memory.File(f, out, data) })
	if err != nil {
		t.Fatal(err)
	}
}

// open reads the headers of what put has written; without a strategy, if p is
// nil.
func open(t *testing.T, fs storage.FS, root string, p *memory.Placement) *checkpoint.Checkpoint {
	t.Helper()
	o := ranks.Options{FS: fs, Formats: []checkpoint.Format{mindspore.Format{}, safetensors.Format{}}, TargetPlaced: true}
	if p != nil {
		o.FS = anyStrategy{fs}
		o.Strategy = []string{"strategy"}
		o.Strategies = func([]ranks.StrategyFile) (*layout.Strategy, diag.List, error) {
			s, err := p.Strategy()
			return s, nil, err
		}
	}
	c, err := ranks.Open(context.Background(), root, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type anyStrategy struct{ storage.FS }

func (f anyStrategy) Stat(ctx context.Context, name string) (storage.Entry, error) {
	if name == "strategy" {
		return storage.Entry{Name: name}, nil
	}
	return f.FS.Stat(ctx, name)
}

func (f anyStrategy) ReadFile(ctx context.Context, name string, n int64) ([]byte, error) {
	if name == "strategy" {
		return nil, nil
	}
	return f.FS.ReadFile(ctx, name, n)
}

// strategyOf is a placement that is known to be possible.
func strategyOf(t *testing.T, p *memory.Placement) *layout.Strategy {
	t.Helper()
	s, err := p.Strategy()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pair is a random checkpoint, opened, and the request to put it elsewhere.
func pair(t *testing.T, seed uint64) (*memory.Checkpoint, *memory.Placement, plan.Request) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	for {
		c, to := memory.Random(r, memory.Options{DTypes: types, Tensors: 6, Ranks: 10, Stages: 3, Bytes: 1 << 10})
		if len(c.Tensors) == 0 {
			continue
		}
		fs := storage.NewMemory()
		put(t, fs, "in", c)
		return c, to, plan.Request{
			Source: open(t, fs, "in", &c.Placement), Format: mindspore.Format{}, Strategy: strategyOf(t, to), Folder: true, Leftovers: plan.Merge, Missing: plan.Skip,
		}
	}
}

// planned is the plan of a random request; nil where nothing is to be written.
func planned(t *testing.T, seed uint64, q plan.Request) *plan.Plan {
	t.Helper()
	p, err := plan.Make(context.Background(), q)
	if err != nil && !strings.Contains(err.Error(), "nothing is left") {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return p
}

func mapped(t *testing.T, rules ...mapping.Rule) *mapping.Mapping {
	t.Helper()
	m, err := mapping.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantError demands a diagnostic of a class whose texts hold words.
func wantError(t *testing.T, what string, err error, code diag.Code, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one of class %s about %q", what, code, words)
		return
	}
	d := diag.From(err)[0]
	text := d.Error() + "\n" + d.Hint
	if d.Code != code {
		t.Errorf("%s: the error is of class %s, want %s: %s", what, d.Code, code, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s: the error does not say %q: %s", what, w, text)
		}
	}
}
