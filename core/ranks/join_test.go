package ranks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/core/storage"
)

func TestJoin(t *testing.T) {
	fs := storage.NewMemory()
	put(t, fs, rank(0, "a.ckpt"), f32("w", 2, 6), f32("v", 4), f32("b", 3), f32("step"))
	put(t, fs, rank(1, "a.ckpt"), f32("w", 2, 6), f32("v", 4), f32("b", 3), f32("step"))
	put(t, fs, rank(2, "a.ckpt"), f32("tied", 5), f32("b", 3), f32("z", 1))
	put(t, fs, rank(3, "a.ckpt"), f32("b", 3), f32("tied", 5), f32("z", 1))
	s := strategy(t, 2, 2,
		param{name: "w", stage: 0, cut: 0, ndim: 2}, param{name: "v", stage: 0, cut: 0, ndim: 1},
		param{name: "b", stage: 0, cut: -1, ndim: 1}, param{name: "b", stage: 1, cut: -1, ndim: 1},
		param{name: "tied", stage: 1, cut: -1, ndim: 1}, param{name: "gone", stage: 1, cut: -1, ndim: 1})
	c, err := open(fs, "ckpt", s)
	if err != nil {
		t.Fatal(err)
	}
	type view struct {
		name   string
		shape  []int64
		stages []int
		named  bool
	}
	// The highest rank's file comes first, as MindSpore reads them.
	want := []view{
		{"b", []int64{3}, []int{0, 1}, true},
		{"tied", []int64{5}, []int{1}, true},
		{"z", []int64{1}, []int{1}, false},
		{"w", []int64{4, 6}, []int{0}, true},
		{"v", []int64{8}, []int{0}, true},
		{"step", []int64{}, []int{0}, false},
	}
	for i, w := range want {
		if i >= len(c.Tensors) {
			t.Fatalf("there are %d tensors, want %d", len(c.Tensors), len(want))
		}
		g := c.Tensors[i]
		got := view{g.Name, g.Shape, nil, g.Named}
		for _, p := range g.Places {
			got.stages = append(got.stages, p.Stage)
		}
		if got.name != w.name || !slices.Equal(got.shape, w.shape) || !slices.Equal(got.stages, w.stages) || got.named != w.named {
			t.Errorf("tensor %d is %v, want %v", i, got, w)
		}
	}
	if c.Ranks[0].Header != c.Ranks[1].Header || c.Ranks[2].Header == c.Ranks[3].Header {
		t.Errorf("ranks 0 and 1 share a header, ranks 2 and 3 do not")
	}
	if !said(c.Warnings, "gone") {
		t.Errorf("no file holds `gone`, which is not said: %v", c.Warnings)
	}
}

// What contradicts itself is an error that names tensor, rank, file and both
// values.
func TestDisagreement(t *testing.T) {
	w := param{name: "w", cut: 0, ndim: 2}
	cases := []struct {
		name  string
		a, b  []entry
		param param
		words []string
	}{
		{name: "types", a: []entry{f32("w", 2, 3)}, b: []entry{{"w", dtype.F16, []int64{2, 3}}}, param: w, words: []string{"`w`", "f16", "f32", "rank_", "rank 0"}},
		{name: "shapes", a: []entry{f32("w", 2, 3)}, b: []entry{f32("w", 5, 3)}, param: w, words: []string{"`w`", "[10 3]", "[4 3]", "rank_", "rank 0"}},
		{name: "other dims", a: []entry{f32("w", 2, 3)}, b: []entry{f32("w", 2, 4)}, param: w, words: []string{"`w`", "[4 3]", "[4 4]"}},
		{name: "number of dims", a: []entry{f32("w", 2, 3)}, b: []entry{f32("w", 6)}, param: w, words: []string{"`w`", "1 dims", "2"}},
		{name: "strategy of another network", a: []entry{f32("w", 6)}, b: []entry{f32("w", 6)}, param: w, words: []string{"`w`", "1 dims", "2", "strategy"}},
		{name: "shape in the strategy", a: []entry{f32("w", 2, 3)}, b: []entry{f32("w", 2, 3)}, param: param{name: "w", cut: 0, ndim: 2, shape: []int64{8, 3}}, words: []string{"`w`", "[4 3]", "[8 3]", "[2 3]"}},
		{name: "outside of the strategy, shapes", a: []entry{f32("x", 2)}, b: []entry{f32("x", 3)}, param: w, words: []string{"`x`", "[2]", "[3]"}},
		{name: "outside of the strategy, dims", a: []entry{f32("x", 2)}, b: []entry{f32("x", 2, 1)}, param: w, words: []string{"`x`", "[2]", "[2 1]"}},
		{name: "uneven parts", a: []entry{f32("w", 3, 1)}, b: []entry{f32("w", 3, 1)}, param: param{name: "w", cut: 0, ndim: 2, rows: []int64{3, 1}}, words: []string{"`w`", "[3 1]", "[1 1]", "rank_1"}},
		{name: "uneven parts, columns", a: []entry{f32("w", 3, 1)}, b: []entry{f32("w", 1, 2)}, param: param{name: "w", cut: 0, ndim: 2, rows: []int64{3, 1}}, words: []string{"`w`", "[4 1]", "[4 2]"}},
	}
	for _, c := range cases {
		fs := storage.NewMemory()
		put(t, fs, rank(0, "a.ckpt"), c.a...)
		put(t, fs, rank(1, "a.ckpt"), c.b...)
		_, err := open(fs, "ckpt", strategy(t, 1, 2, c.param))
		wantError(t, c.name, err, diag.Damaged, c.words...)
		if err != nil {
			d := diag.From(err)[0]
			if d.Subject.File == "" || d.Subject.Tensor == "" || !d.Subject.HasRank {
				t.Errorf("%s: the error does not tell file, tensor and rank: %+v", c.name, d.Subject)
			}
		}
	}
}

// Uneven parts that fit are read.
func TestUneven(t *testing.T) {
	fs := storage.NewMemory()
	put(t, fs, rank(0, "a.ckpt"), f32("w", 3, 2))
	put(t, fs, rank(1, "a.ckpt"), f32("w", 1, 2))
	c, err := open(fs, "ckpt", strategy(t, 1, 2, param{name: "w", cut: 0, ndim: 2, rows: []int64{3, 1}}))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Tensors[0].Shape; !slices.Equal(got, []int64{4, 2}) {
		t.Errorf("parts of 3 and 1 rows make %v, want [4 2]", got)
	}
}

// The strategy does not say how some states are cut: their shapes do, held
// against their weight's (facts 7.2).
func TestStatesThatTheStrategyDoesNotDescribe(t *testing.T) {
	weight := param{name: "w", cut: -1, ndim: 2, opt: 2}
	cases := []struct {
		name  string
		state entry
		param param
		want  []int64
	}{
		{"gradients are not cut, whatever the strategy says", f32("accu_grads.w", 8, 6), param{cut: -1, ndim: 2, opt: 2}, []int64{8, 6}},
		{"gradients are cut as it says", f32("accu_grads.w", 4, 6), param{cut: -1, ndim: 2, opt: 2}, []int64{8, 6}},
		{"AdaFactor's rows are cut though it does not say", f32("exp_avg_sq_row.w", 4), param{cut: -1, ndim: 1}, []int64{8}},
		{"AdaFactor's rows that are not cut", f32("exp_avg_sq_row.w", 8), param{cut: -1, ndim: 1}, []int64{8}},
		{"AdaFactor's columns are not cut", f32("exp_avg_sq_col.w", 6), param{cut: -1, ndim: 1}, []int64{6}},
		{"CAME's rows are cut", f32("exp_avg_insta_row.w", 4), param{cut: -1, ndim: 1}, []int64{8}},
	}
	for _, c := range cases {
		fs := storage.NewMemory()
		for r := range 2 {
			put(t, fs, rank(r, "a.ckpt"), f32("w", 4, 6), c.state)
		}
		c.param.name, c.param.unknown = c.state.name, true
		got, err := open(fs, "ckpt", strategy(t, 1, 2, weight, c.param))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		i := slices.IndexFunc(got.Tensors, func(g checkpoint.Global) bool { return g.Name == c.state.name })
		if shape := got.Tensors[i].Shape; !slices.Equal(shape, c.want) {
			t.Errorf("%s: a part of %v makes %v, want %v", c.name, c.state.shape, shape, c.want)
		}
	}
}

// Ranks whose states are cut differently cannot be put together.
func TestStatesThatRanksCutDifferently(t *testing.T) {
	fs := storage.NewMemory()
	put(t, fs, rank(0, "a.ckpt"), f32("w", 4, 6), f32("accu_grads.w", 8, 6))
	put(t, fs, rank(1, "a.ckpt"), f32("w", 4, 6), f32("accu_grads.w", 4, 6))
	_, err := open(fs, "ckpt", strategy(t, 1, 2, param{name: "w", cut: -1, ndim: 2, opt: 2}, param{name: "accu_grads.w", cut: -1, ndim: 2, opt: 2, unknown: true}))
	wantError(t, "rank 0 holds it whole, rank 1 half", err, diag.Damaged, "`accu_grads.w`", "[8 6]", "[4 6]", "rank_")
}

// Damage tells rank and file; whatever fails, no file stays open.
func TestDamagedRank(t *testing.T) {
	s := strategy(t, 1, 2, param{name: "w", cut: 0, ndim: 1})
	for what, change := range map[string]func(b []byte) []byte{
		"cut":   func(b []byte) []byte { return b[:len(b)-3] },
		"empty": func([]byte) []byte { return nil },
		"text":  func([]byte) []byte { return []byte("<html>not found</html>") },
	} {
		fs := storage.NewMemory()
		put(t, fs, rank(0, "a.ckpt"), f32("w", 3))
		put(t, fs, rank(1, "a.ckpt"), f32("w", 3))
		b, _ := fs.Bytes(rank(1, "a.ckpt"))
		fs.Put(rank(1, "a.ckpt"), change(b))
		c, err := open(fs, "ckpt", s)
		if what != "cut" && err == nil {
			if !said(c.Warnings, "rank_1") {
				t.Errorf("%s: rank 1's file is no checkpoint, which is not said: %v", what, c.Warnings)
			}
			continue
		}
		wantError(t, what, err, diag.Damaged, "rank_1/a.ckpt", "rank 1")
	}
}

// Two formats in one checkpoint are a mistake, unless the job names one.
func TestTwoFormats(t *testing.T) {
	s := strategy(t, 1, 2, param{name: "w", cut: 0, ndim: 1})
	fs := storage.NewMemory()
	put(t, fs, rank(0, "a.ckpt"), f32("w", 3))
	put(t, fs, rank(1, "a.safetensors"), f32("w", 3))
	_, err := open(fs, "ckpt", s)
	wantError(t, "two formats", err, diag.Usage, "rank 0 is mindspore", "rank 1 is safetensors")

	put(t, fs, rank(0, "a.safetensors"), f32("w", 3))
	c, err := open(fs, "ckpt", s, func(o *ranks.Options) { o.Format = "safetensors" })
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(files(c), " "); got != "rank_0/a.safetensors rank_1/a.safetensors" {
		t.Errorf("of two formats the files %s are read", got)
	}
}

// leafy is a format whose files are leaves: one in each line, "name value".
type leafy struct{}

func (leafy) Describe() checkpoint.Description { return checkpoint.Description{Name: "leafy"} }

func (leafy) Probe(checkpoint.Sample) checkpoint.Match { return checkpoint.Yes }

func (leafy) Index(_ context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
	b := make([]byte, in.File.Size())
	if err := in.File.ReadRanges(context.Background(), []int64{0}, [][]byte{b}); err != nil {
		return nil, err
	}
	x := &checkpoint.Index{Format: "leafy", Metadata: []checkpoint.KV{{Key: "file", Value: string(b)}}}
	for line := range strings.Lines(string(b)) {
		var name string
		v := checkpoint.Value{Kind: checkpoint.Float}
		if _, err := fmt.Sscan(line, &name, &v.Float); err != nil {
			return nil, err
		}
		x.Leaves = append(x.Leaves, checkpoint.Leaf{Path: checkpoint.Keys(name), Type: "float", Value: v})
	}
	return x, nil
}

func (leafy) Blueprint(context.Context, checkpoint.Output) (*checkpoint.Blueprint, error) {
	return nil, errors.ErrUnsupported
}

// What is no tensor comes from the lowest rank that has it; what others have
// different is told once.
func TestLeaves(t *testing.T) {
	fs := storage.NewMemory()
	fs.Put(rank(0, "x"), []byte("step 7\nnan NaN\n"))
	fs.Put(rank(1, "x"), []byte("step 8\nnan NaN\nown 3\n"))
	fs.Put(rank(2, "x"), []byte("step 9\nown 3\n"))
	c, err := open(fs, "ckpt", nil, func(o *ranks.Options) { o.Formats, o.TargetPlaced = []checkpoint.Format{leafy{}}, true })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range c.Leaves {
		got = append(got, fmt.Sprint(l.Path.Label(), " ", l.Value.Float))
	}
	if want := []string{"step 7", "nan NaN", "own 3"}; !slices.Equal(got, want) {
		t.Errorf("the leaves are %v, want %v", got, want)
	}
	if len(c.Warnings) != 1 || !said(c.Warnings, "step", "rank 0") {
		t.Errorf("the warnings are %v, want one about step", c.Warnings)
	}
	if len(c.Meta) != 1 || !strings.HasPrefix(c.Meta[0].Value, "step 7") {
		t.Errorf("the metadata is %v, want rank 0's", c.Meta)
	}
}
