package ranks_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/checkpoint/memory"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mesh"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
	"github.com/seed-e934e81e/convert/formats/torch"
)

var formats = []checkpoint.Format{mindspore.Format{}, safetensors.Format{}, torch.Format{}}

// entry is a tensor of zeros.
type entry struct {
	name  string
	dtype dtype.Type
	shape []int64
}

// f32 is a tensor of type f32.
func f32(name string, shape ...int64) entry { return entry{name, dtype.F32, shape} }

// put writes a file; the format follows from the name.
func put(t *testing.T, fs *storage.Memory, name string, entries ...entry) {
	t.Helper()
	var f checkpoint.Format = mindspore.Format{}
	switch {
	case strings.HasSuffix(name, ".safetensors"):
		f = safetensors.Format{}
	case strings.HasSuffix(name, ".bin"), strings.HasSuffix(name, ".pt"):
		f = torch.Format{}
	}
	var out checkpoint.Output
	var data [][]byte
	for i, e := range entries {
		out.Tensors = append(out.Tensors, checkpoint.Tensor{Name: e.name, DType: e.dtype, Shape: e.shape, Seq: i})
		n, ok := e.dtype.Bytes(e.shape)
		if !ok {
			t.Fatalf("%s: %v of %v is not possible", name, e.dtype, e.shape)
		}
		data = append(data, make([]byte, n))
	}
	b, err := memory.File(f, out, data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	fs.Put(name, b)
}

// param is how a parameter lies on ranks in a row: dims has for each dim whether
// all of them cut it.
type param struct {
	name    string
	stage   int
	cut     int // the dim that the ranks cut, −1 for none
	ndim    int
	opt     int
	unknown bool    // OptUnknown
	shape   []int64 // as the strategy records it
	rows    []int64 // of each part, where they are uneven
}

// strategy makes one of parameters, on stages of so many ranks.
func strategy(t *testing.T, stages, devices int, params ...param) *layout.Strategy {
	t.Helper()
	m, err := mesh.New([]string{"tp"}, []int{devices})
	if err != nil {
		t.Fatal(err)
	}
	var out []layout.Param
	for _, p := range params {
		dims := make([][]int, p.ndim)
		if p.cut >= 0 {
			dims[p.cut] = []int{0}
		}
		l, err := layout.New(m, dims, p.opt)
		if err == nil && p.rows != nil {
			l, err = l.WithCuts(0, p.rows)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, layout.Param{Name: p.name, Stage: p.stage, Layout: l, OptUnknown: p.unknown, Shape: p.shape})
	}
	s, err := layout.NewStrategy(stages, devices, out)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open opens root; s may be nil.
func open(fs storage.FS, root string, s *layout.Strategy, change ...func(*ranks.Options)) (*checkpoint.Checkpoint, error) {
	o := ranks.Options{FS: fs, Formats: formats}
	if s != nil {
		o.FS = withStrategy{fs}
		o.Strategy = []string{"strategy.ckpt"}
		o.Strategies = func([]ranks.StrategyFile) (*layout.Strategy, diag.List, error) { return s, nil, nil }
	}
	for _, f := range change {
		f(&o)
	}
	return ranks.Open(context.Background(), root, o)
}

type withStrategy struct{ storage.FS }

func (f withStrategy) Stat(ctx context.Context, name string) (storage.Entry, error) {
	if name == "strategy.ckpt" {
		return storage.Entry{Name: name}, nil
	}
	return f.FS.Stat(ctx, name)
}

func (f withStrategy) ReadFile(ctx context.Context, name string, n int64) ([]byte, error) {
	if name == "strategy.ckpt" {
		return nil, nil
	}
	return f.FS.ReadFile(ctx, name, n)
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

// files are the files that ranks are read from.
func files(c *checkpoint.Checkpoint) []string {
	var out []string
	for _, r := range c.Ranks {
		for _, f := range r.Files {
			out = append(out, f.Name)
		}
	}
	return out
}

// said tells whether some warning holds the words.
func said(l diag.List, words ...string) bool {
	return slices.ContainsFunc(l, func(d *diag.Diagnostic) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(d.Error(), w) })
	})
}

func rank(r int, name string) string { return fmt.Sprintf("ckpt/rank_%d/%s", r, name) }
