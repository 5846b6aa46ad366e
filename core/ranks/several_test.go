package ranks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/core/storage"
)

// hub puts a checkpoint of two files with its index.
func hub(t *testing.T, weights string) *storage.Memory {
	t.Helper()
	fs := storage.NewMemory()
	put(t, fs, "hub/model-00001-of-00002.safetensors", f32("a", 2), f32("b", 3))
	put(t, fs, "hub/model-00002-of-00002.safetensors", f32("c", 4))
	fs.Put("hub/model.safetensors.index.json", []byte(weights))
	fs.Put("hub/config.json", []byte("{}"))
	return fs
}

func TestSeveralFiles(t *testing.T) {
	const first, second = `"model-00001-of-00002.safetensors"`, `"model-00002-of-00002.safetensors"`
	cases := []struct {
		name    string
		weights string
		want    []string // the tensors
		code    diag.Code
		words   []string // of the error, or else of a warning
	}{
		{name: "the Hub's form", weights: `{"metadata":{"total_size":36},"weight_map":{"a":` + first + `,"b":` + first + `,"c":` + second + `}}`, want: []string{"a", "b", "c"}},
		{name: "MindFormers' flat form", weights: `{"a":` + first + `,"b":` + first + `,"c":` + second + `}`, want: []string{"a", "b", "c"}},
		{name: "a tensor that the index does not name", weights: `{"weight_map":{"a":` + first + `,"c":` + second + `}}`, want: []string{"a", "b", "c"}, words: []string{"3 tensors", "2"}},
		{name: "a tensor in another file", weights: `{"weight_map":{"a":` + second + `,"b":` + first + `,"c":` + second + `}}`, code: diag.Damaged, words: []string{"`a`", "model-00002"}},
		{name: "a tensor in no file", weights: `{"weight_map":{"x":` + first + `,"c":` + second + `}}`, code: diag.Damaged, words: []string{"`x`"}},
		{name: "a file that is not there", weights: `{"weight_map":{"a":"model-00003.safetensors"}}`, code: diag.Damaged, words: []string{"model-00003", "not there"}},
		{name: "a file elsewhere", weights: `{"weight_map":{"a":"../secret.safetensors"}}`, code: diag.Damaged, words: []string{"index", "secret"}},
		{name: "no tensor at all", weights: `{"weight_map":{}}`, code: diag.Damaged, words: []string{"index", "no tensor"}},
		{name: "no index", weights: `{"weight_map":[]}`, code: diag.Damaged, words: []string{"index"}},
		{name: "cut", weights: `{"weight_map":{"a":`, code: diag.Damaged, words: []string{"index"}},
	}
	for _, c := range cases {
		got, err := open(hub(t, c.weights), "hub", nil)
		if c.code != "" {
			wantError(t, c.name, err, c.code, c.words...)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var names []string
		for _, x := range got.Tensors {
			names = append(names, x.Name)
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%s: the tensors are %v, want %v", c.name, names, c.want)
		}
		for i, x := range got.Ranks[0].Header.Index.Entries {
			if x.Seq != i {
				t.Errorf("%s: %s comes as number %d, want %d", c.name, x.Name, x.Seq, i)
			}
			for _, y := range x.Data.Extents {
				if want := map[string]int{"a": 0, "b": 0, "c": 1}[x.Name]; y.File != want {
					t.Errorf("%s: %s is in file %d, want %d", c.name, x.Name, y.File, want)
				}
			}
		}
		if c.words != nil && !said(got.Warnings, c.words...) {
			t.Errorf("%s: the warnings %v do not say %q", c.name, got.Warnings, c.words)
		}
	}
}

func TestTensorInTwoFiles(t *testing.T) {
	fs := hub(t, `{"weight_map":{"a":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}}`)
	put(t, fs, "hub/model-00002-of-00002.safetensors", f32("c", 4), f32("a", 2))
	_, err := open(fs, "hub", nil)
	wantError(t, "a tensor in two files", err, diag.Damaged, "`a`", "model-00001", "model-00002")
}

func TestTwoIndexes(t *testing.T) {
	fs := hub(t, `{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}}`)
	put(t, fs, "hub/pytorch_model-00001-of-00001.bin", f32("p", 2))
	fs.Put("hub/pytorch_model.bin.index.json", []byte(`{"weight_map":{"p":"pytorch_model-00001-of-00001.bin"}}`))
	_, err := open(fs, "hub", nil)
	wantError(t, "two indexes", err, diag.Usage, "several checkpoints", "source.format")
	for format, want := range map[string]string{"safetensors": "a", "torch": "p"} {
		c, err := open(fs, "hub", nil, func(o *ranks.Options) { o.Format = format })
		if err != nil {
			t.Errorf("%s: %v", format, err)
		} else if c.Tensors[0].Name != want {
			t.Errorf("%s: the first tensor is %s, want %s", format, c.Tensors[0].Name, want)
		}
	}
}

// counted counts open files.
type counted struct {
	storage.FS
	mu   *sync.Mutex
	open map[storage.File]string
}

type countedFile struct {
	storage.File
	in *counted
}

func (f *counted) Open(ctx context.Context, name string) (storage.File, error) {
	x, err := f.FS.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	out := &countedFile{x, f}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[out] = name
	return out, nil
}

func (f *countedFile) Close() error {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	delete(f.in.open, f)
	return f.File.Close()
}

// Whatever operation fails while a source is opened, the error is told and no
// file stays open.
func TestOpenFails(t *testing.T) {
	injected := errors.New("injected")
	sources := map[string]func(fs storage.FS) (*checkpoint.Checkpoint, error){
		"hub": func(fs storage.FS) (*checkpoint.Checkpoint, error) { return open(fs, "hub", nil) },
		"ckpt": func(fs storage.FS) (*checkpoint.Checkpoint, error) {
			return open(fs, "ckpt", strategy(t, 1, 2, param{name: "w", cut: 0, ndim: 1}))
		},
		"ckpt/rank_0/a.ckpt": func(fs storage.FS) (*checkpoint.Checkpoint, error) { return open(fs, "ckpt/rank_0/a.ckpt", nil) },
	}
	fs := hub(t, `{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}}`)
	put(t, fs, rank(0, "a.ckpt"), f32("w", 2))
	put(t, fs, rank(1, "a.ckpt"), f32("w", 2))
	var mu sync.Mutex
	n, at := 0, 0
	op := ""
	fs.Fail = func(o storage.Op, name string, _ int64) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == at {
			op = fmt.Sprintf("%s of %s", o, name)
			return injected
		}
		return nil
	}
	for root, f := range sources {
		for k := 1; ; k++ {
			c := &counted{FS: fs, mu: new(sync.Mutex), open: map[storage.File]string{}}
			n, at, op = 0, k, ""
			_, err := f(c)
			for _, name := range c.open {
				t.Errorf("%s: %s failed, and %s is left open", root, op, name)
			}
			if op == "" {
				if err != nil {
					t.Errorf("%s: nothing failed, and still: %v", root, err)
				}
				break
			}
			if !errors.Is(err, injected) {
				t.Errorf("%s: %s failed, the error is %v", root, op, err)
			}
		}
	}
}

// labels is a format whose file has tensors of one label at many paths.
type labels struct{ n int }

func (labels) Describe() checkpoint.Description { return checkpoint.Description{Name: "labels"} }

func (labels) Probe(checkpoint.Sample) checkpoint.Match { return checkpoint.Yes }

func (f labels) Index(context.Context, checkpoint.Input) (*checkpoint.Index, error) {
	x := &checkpoint.Index{Format: "labels"}
	for i := range f.n {
		e := checkpoint.Entry{Name: "a", Path: checkpoint.Path{{Kind: checkpoint.StatePart, Text: fmt.Sprint(i)}, {Text: "a"}}, DType: dtype.U8, Shape: []int64{0}}
		if i == 1 {
			e.Name = "a#3" // as a third one would be called
		}
		x.Entries = append(x.Entries, e)
	}
	return x, nil
}

func (labels) Blueprint(context.Context, checkpoint.Output) (*checkpoint.Blueprint, error) {
	return nil, errors.ErrUnsupported
}

// Tensors that a label does not tell apart get names of their own, however
// many there are.
func TestLabels(t *testing.T) {
	const n = 100_000
	fs := storage.NewMemory()
	fs.Put("x", nil)
	began := time.Now()
	c, err := open(fs, "x", nil, func(o *ranks.Options) { o.Formats = []checkpoint.Format{labels{n}} })
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for i := range c.Tensors {
		names[c.Tensors[i].Name] = true
	}
	if len(names) != n || !names["a"] || !names["a#2"] || !names["a#3"] || !names["a#4"] {
		t.Errorf("%d tensors have %d names", n, len(names))
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("naming %d tensors takes %v", n, took)
	}
}
