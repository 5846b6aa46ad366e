package engine

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/checkpoint/memory"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/manifest"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/sum"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
)

// There and back again gives the same files, byte for byte, and the digests of
// tensors are the same on the way.
func TestThereAndBack(t *testing.T) {
	types := []dtype.Type{dtype.Bool, dtype.I8, dtype.U16, dtype.F16, dtype.BF16, dtype.I32, dtype.F64}
	n := uint64(200)
	if testing.Short() {
		n = 40
	}
	for seed := range n {
		r := rand.New(rand.NewPCG(seed, 5))
		c, to := memory.Random(r, memory.Options{DTypes: types, Tensors: 6, Ranks: 8, Stages: 2, Bytes: 512})
		for _, x := range c.Tensors { // every tensor has a place on both sides
			if to.Specs[x.Name] == nil {
				to.Specs[x.Name] = map[int]memory.Spec{0: memory.Whole(to.Devices, len(x.Shape))}
			}
			if c.Specs[x.Name] == nil {
				delete(c.Outside, x.Name)
				c.Specs[x.Name] = map[int]memory.Spec{0: memory.Whole(c.Devices, len(x.Shape))}
			}
		}
		c.Lacks = nil
		if len(c.Tensors) == 0 {
			continue
		}
		fs := storage.NewMemory()
		there := []checkpoint.Format{mindspore.Format{}, safetensors.Format{}}[seed%2]
		// The first conversion puts the tensors in the order of the program.
		_, err := c.Put(fs, "given", ".ckpt", func(out checkpoint.Output, data [][]byte) ([]byte, error) {
			return memory.File(mindspore.Format{}, out, data)
		})
		if err != nil {
			t.Fatal(err)
		}
		steps := []struct {
			from, to string
			a, b     *memory.Placement
			format   checkpoint.Format
		}{
			{"given", "a", &c.Placement, &c.Placement, safetensors.Format{}},
			{"a", "b", &c.Placement, to, there},
			{"b", "a2", to, &c.Placement, safetensors.Format{}},
		}
		var digests []map[string]string
		for _, s := range steps {
			res, err := move(fs, s.from, s.to, s.a, s.b, s.format)
			if err != nil {
				t.Fatalf("seed %d: %s to %s: %v", seed, s.from, s.to, err)
			}
			d := map[string]string{}
			for _, x := range res.Manifest.Tensors {
				d[x.Name] = x.CRC64
			}
			digests = append(digests, d)
		}
		for _, d := range digests[1:] {
			if !maps.Equal(d, digests[0]) {
				t.Errorf("seed %d: the digests change on the way: %v and %v", seed, digests[0], d)
			}
		}
		a, b := below(t, fs, "a"), below(t, fs, "a2")
		if d := unlike(b, a); d != "" {
			t.Errorf("seed %d: %s, after going there and back", seed, d)
		}
		if t.Failed() {
			return
		}
	}
}

// move converts rank folders from one placement to another.
func move(fs storage.FS, from, to string, a, b *memory.Placement, f checkpoint.Format) (*Result, error) {
	s, err := b.Strategy()
	if err != nil {
		return nil, err
	}
	o := ranks.Options{FS: placed{fs}, Formats: formats, Strategy: []string{"placement"}}
	o.Strategies = func([]ranks.StrategyFile) (*layout.Strategy, diag.List, error) {
		s, err := a.Strategy()
		return s, nil, err
	}
	src, err := ranks.Open(context.Background(), from, o)
	if err != nil {
		return nil, err
	}
	p, err := plan.Make(context.Background(), plan.Request{Source: src, Format: f, Strategy: s, Folder: true, Prefix: "x"})
	if err != nil {
		return nil, err
	}
	opt := small(fs)
	opt.Root, opt.Target, opt.Workers = from, to, 3
	return Run(context.Background(), p, opt)
}

// placed has a strategy file called "placement".
type placed struct{ storage.FS }

func (f placed) Stat(ctx context.Context, name string) (storage.Entry, error) {
	if name == "placement" {
		return storage.Entry{Name: name}, nil
	}
	return f.FS.Stat(ctx, name)
}

func (f placed) ReadFile(ctx context.Context, name string, n int64) ([]byte, error) {
	if name == "placement" {
		return nil, nil
	}
	return f.FS.ReadFile(ctx, name, n)
}

// below is the files of a folder but for the manifest.
func below(t *testing.T, fs storage.FS, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, b := range tree(t, fs) {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok && rest != "convert.manifest.json" {
			out[rest] = b
		}
	}
	return out
}

// Neither the number of workers nor memory nor the sizes of bands change a
// byte of what is written.
func TestSettingsChangeNoByte(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		var want map[string]string
		for i, s := range []struct {
			workers int
			memory  int64
			sizes   sizes
		}{{1, 0, sizes{}}, {4, 0, sizes{64, 1}}, {3, 1 << 30, sizes{1000, 300}}, {2, 0, sizes{7, 7}}} {
			x := newTrial(seed)
			p := x.plan(t)
			if p == nil {
				continue
			}
			x.o.FS, x.o.Workers, x.o.Memory, x.o.sizes = x.fs, s.workers, s.memory, s.sizes
			if _, err := Run(context.Background(), p, x.o); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			got := below(t, x.fs, "out")
			if i == 0 {
				want = got
			} else if d := unlike(got, want); d != "" {
				t.Errorf("seed %d: with %+v %s", seed, s, d)
			}
		}
	}
}

// Reader streams what a rank holds, whatever way it is stored.
func TestReader(t *testing.T) {
	for seed := uint64(1); seed <= 150; seed++ {
		x := newTrial(seed)
		if len(x.source.Tensors) == 0 {
			continue
		}
		fs := watch(x.fs)
		src, err := x.open(fs)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		r := NewReader(fs, src)
		for i := range x.source.Tensors {
			y := &x.source.Tensors[i]
			for rank := range x.source.Ranks() {
				b, ok := x.source.Holds(y, rank)
				if !ok {
					continue
				}
				var got []byte
				err := r.Stream(context.Background(), rank, src.Entry(rank, y.Name), func(p []byte) error {
					got = append(got, p...)
					return nil
				})
				if want := memory.Cut(y.Data, y.DType.Bits(), y.Shape, b); err != nil || !slices.Equal(got, want) {
					t.Errorf("seed %d: rank %d's part of %s is read as %d bytes (%v), want %d", seed, rank, y.Name, len(got), err, len(want))
				}
			}
		}
		stop := fmt.Errorf("enough")
		for _, k := range src.Ranks {
			for i := range k.Header.Index.Entries {
				e := &k.Header.Index.Entries[i]
				if n, _ := e.DType.Bytes(e.Shape); n == 0 {
					continue
				}
				if err := r.Stream(context.Background(), k.ID, e, func([]byte) error { return stop }); err != stop {
					t.Errorf("seed %d: the error of the caller comes back as %v", seed, err)
				}
			}
		}
		if err := r.Close(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		for _, f := range fs.faults() {
			t.Errorf("seed %d: %s", seed, f)
		}
	}
}

// Rank by rank, each file holds what its source file held, whatever the ranks
// have in common.
func TestRankByRank(t *testing.T) {
	for seed := uint64(1); seed <= 100; seed++ {
		x := newTrial(seed)
		if len(x.source.Tensors) == 0 || x.from == (odd{}) {
			continue
		}
		if _, err := x.open(x.fs); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		src, err := ranks.Open(context.Background(), "in", ranks.Options{FS: x.fs, Formats: formats, PerRank: true})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		p, err := plan.Make(context.Background(), plan.Request{Source: src, Format: x.to, Folder: true, Prefix: "p"})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		x.o.FS = x.fs
		res, err := Run(context.Background(), p, x.o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		tensors := 0
		for r := range x.source.Ranks() {
			for i := range x.source.Tensors {
				y := &x.source.Tensors[i]
				b, ok := x.source.Holds(y, r)
				if !ok {
					continue
				}
				tensors++
				want := memory.Cut(y.Data, y.DType.Bits(), y.Shape, b)
				if got := payload(t, x.fs, x.to, "out/"+x.name(r), y.Name); !slices.Equal(got, want) {
					t.Errorf("seed %d: rank %d's part of %s changes", seed, r, y.Name)
				}
				k := slices.IndexFunc(res.Manifest.Tensors, func(m manifest.Tensor) bool { return m.Name == y.Name && *m.Rank == r })
				if k < 0 || res.Manifest.Tensors[k].CRC64 != sum64(sum.CRC64.Of(want)) {
					t.Errorf("seed %d: the manifest does not have the digest of rank %d's part of %s", seed, r, y.Name)
				}
			}
		}
		if len(res.Manifest.Tensors) != tensors || res.Read != p.Totals.ReadBytes || res.Compared != 0 {
			t.Errorf("seed %d: %d tensors in the manifest, want %d; %d bytes read, planned %d; %d compared", seed, len(res.Manifest.Tensors), tensors, res.Read, p.Totals.ReadBytes, res.Compared)
		}
	}
}
