package plan_test

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
	"github.com/seed-e934e81e/convert/core/mapping"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
)

// source is a checkpoint of two stages of two ranks: `a` is cut by rows in
// stage 0, `b` by columns in stage 1, both stages hold `tied`, and no strategy
// names `step0` of stage 0 and `step1` of stage 1.
func source() *memory.Checkpoint {
	c := &memory.Checkpoint{Lacks: map[string][]int{}, Placement: memory.Placement{Stages: 2, Devices: 2, Outside: map[string][]int{"step0": {0}, "step1": {1}}}}
	c.Specs = map[string]map[int]memory.Spec{
		"a":    {0: {Mesh: []int{2}, Dims: [][]int{{0}, nil}}},
		"b":    {1: {Mesh: []int{2}, Dims: [][]int{nil, {0}}}},
		"tied": {0: memory.Whole(2, 1), 1: memory.Whole(2, 1)},
	}
	for _, x := range []memory.Tensor{{Name: "a", Shape: []int64{4, 6}}, {Name: "b", Shape: []int64{8, 2}}, {Name: "tied", Shape: []int64{5}}, {Name: "step0", Shape: []int64{}}, {Name: "step1", Shape: []int64{}}} {
		x.DType = dtype.F32
		n, _ := x.DType.Bytes(x.Shape)
		x.Data = make([]byte, n)
		c.Tensors = append(c.Tensors, x)
	}
	return c
}

// one is a target of one stage in which so many ranks hold parameters whole.
func one(devices int, ndims map[string]int) *memory.Placement {
	p := &memory.Placement{Stages: 1, Devices: devices, Specs: map[string]map[int]memory.Spec{}}
	for n, d := range ndims {
		p.Specs[n] = map[int]memory.Spec{0: memory.Whole(devices, d)}
	}
	return p
}

var all = map[string]int{"a": 2, "b": 2, "tied": 1}

// make plans to put c on to, or gathers it, if to is nil.
func makePlan(t *testing.T, c *memory.Checkpoint, to *memory.Placement, change func(*plan.Request)) (*plan.Plan, error) {
	t.Helper()
	fs := storage.NewMemory()
	put(t, fs, "in", c)
	q := plan.Request{Source: open(t, fs, "in", &c.Placement), Format: mindspore.Format{}, File: "model.ckpt"}
	if to != nil {
		q.Strategy, q.Folder = strategyOf(t, to), true
	}
	if change != nil {
		change(&q)
	}
	return plan.Make(context.Background(), q)
}

func itemNames(p *plan.Plan, g *plan.Group) []string {
	var out []string
	for _, it := range g.Items {
		out = append(out, p.Tensors[it.Tensor].Name)
	}
	return out
}

func dropped(p *plan.Plan) []string {
	var out []string
	for _, d := range p.Dropped {
		out = append(out, d.Kind+" "+d.Name)
	}
	slices.Sort(out)
	return out
}

// A target parameter that nothing becomes keeps its initial values, which is
// an error unless the job says otherwise.
func TestMissing(t *testing.T) {
	to := one(2, map[string]int{"a": 2, "b": 2, "tied": 1, "new": 1, "other": 1})
	_, err := makePlan(t, source(), to, nil)
	wantError(t, "two parameters without a source", err, diag.Usage, "2 parameters", "`new`", "`other`", "target.missing")
	p, err := makePlan(t, source(), to, func(q *plan.Request) { q.Missing = plan.Skip })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"new", "other"}; !slices.Equal(p.Absent, want) {
		t.Errorf("absent are %v, want %v", p.Absent, want)
	}
}

// What the source's strategy cuts and the target's does not know must never
// pass as raw slices; in whichever stage it is.
func TestLeftovers(t *testing.T) {
	for _, known := range []map[string]int{{"a": 2}, {"b": 2}, {"a": 2, "tied": 1}, {"tied": 1}} {
		var left []string
		for n := range all {
			if _, ok := known[n]; !ok {
				left = append(left, n)
			}
		}
		slices.Sort(left)
		to := one(2, known)
		what := fmt.Sprintf("the target knows %v", known)

		_, err := makePlan(t, source(), to, nil)
		wantError(t, what, err, diag.Usage, append([]string{"target.leftovers"}, quoted(left)...)...)

		p, err := makePlan(t, source(), to, func(q *plan.Request) { q.Leftovers = plan.Drop })
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, n := range left {
			if !slices.Contains(dropped(p), "tensor "+n) {
				t.Errorf("%s: `%s` is dropped, which is not listed: %v", what, n, dropped(p))
			}
			if slices.Contains(itemNames(p, &p.Groups[0]), n) {
				t.Errorf("%s: `%s` is dropped, and in the files", what, n)
			}
		}

		p, err = makePlan(t, source(), to, func(q *plan.Request) { q.Leftovers = plan.Merge })
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, n := range left {
			i := slices.Index(itemNames(p, &p.Groups[0]), n)
			if i < 0 || p.Groups[0].Items[i].Layout.Blocks() != 1 {
				t.Errorf("%s: `%s` is to be whole on every rank, the files hold %v", what, n, itemNames(p, &p.Groups[0]))
			}
		}
	}
}

func quoted(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, "`"+n+"`")
	}
	return out
}

// Every source tensor is in a file or listed as dropped.
func TestNothingVanishes(t *testing.T) {
	for seed := range uint64(200) {
		_, _, q := pair(t, seed)
		q.Leftovers = plan.Drop
		if seed%3 == 0 {
			q.Mapping = mapped(t, mapping.Rule{Match: ".*bias.*", Drop: true}, mapping.Rule{Match: `adam_m\.(.*)`, To: "m.$1"})
		}
		p, err := plan.Make(context.Background(), q)
		if err != nil {
			if strings.Contains(err.Error(), "nothing is left") {
				continue
			}
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := range p.Source.Tensors {
			kept := slices.ContainsFunc(p.Groups, func(g plan.Group) bool {
				return slices.ContainsFunc(g.Items, func(it plan.Item) bool { return p.Tensors[it.Tensor].Source == i })
			})
			told := slices.ContainsFunc(p.Dropped, func(d plan.Dropped) bool { return d.Name == p.Source.Tensors[i].Name && d.Kind == "tensor" })
			if kept == told {
				t.Errorf("seed %d: `%s` is in a file: %v, is listed as dropped: %v; want one of both", seed, p.Source.Tensors[i].Name, kept, told)
			}
		}
	}
}

func TestNames(t *testing.T) {
	cases := []struct {
		name  string
		rules []mapping.Rule
		words []string
	}{
		{"two become one", []mapping.Rule{{Match: "[ab]", To: "x"}}, []string{"`a`", "`b`", "`x`"}},
		{"one takes the name of another", []mapping.Rule{{Match: "a", To: "b"}}, []string{"`a`", "`b`"}},
		{"a cast of what has no values to cast", []mapping.Rule{{Match: "n", DType: dtype.F16}}, []string{"`n`", "i32"}},
		{"nothing is left", []mapping.Rule{{Match: ".*", Drop: true}}, []string{"nothing is left"}},
	}
	for _, c := range cases {
		src := source()
		src.Tensors = append(src.Tensors, memory.Tensor{Name: "n", DType: dtype.I32, Shape: []int64{2}, Data: make([]byte, 8)})
		src.Outside["n"] = []int{0}
		_, err := makePlan(t, src, nil, func(q *plan.Request) { q.Mapping = mapped(t, c.rules...) })
		wantError(t, c.name, err, diag.Usage, c.words...)
	}
	_, err := makePlan(t, source(), nil, func(q *plan.Request) {
		q.Mapping = mapped(t, mapping.Rule{Match: "a", To: "b"}, mapping.Rule{Match: "b", To: "a"}, mapping.Rule{Match: "step.", Drop: true})
	})
	wantError(t, "rules are applied one after the other", err, diag.Usage, "`a`")
	p, err := makePlan(t, source(), nil, func(q *plan.Request) { q.Mapping = mapped(t, mapping.Rule{Match: "step.", Drop: true}) })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := dropped(p), []string{"tensor step0", "tensor step1"}; !slices.Equal(got, want) {
		t.Errorf("dropped are %v, want %v", got, want)
	}
	for _, d := range p.Dropped {
		if d.Reason == "" {
			t.Errorf("`%s` is dropped for no reason", d.Name)
		}
	}
}

func TestTargetRanks(t *testing.T) {
	to := one(4, all)
	_, err := makePlan(t, source(), to, func(q *plan.Request) { q.Ranks = []int{1, 4} })
	wantError(t, "a rank that the target does not have", err, diag.Usage, "rank 4", "4 ranks")
	_, err = makePlan(t, source(), to, func(q *plan.Request) { q.Ranks = []int{} })
	wantError(t, "no rank", err, diag.Usage, "target.ranks")
	p, err := makePlan(t, source(), to, func(q *plan.Request) { q.Ranks = []int{3, 1, 3} })
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Groups[0].Ranks; !slices.Equal(got, []int{1, 3}) {
		t.Errorf("ranks 3, 1 and 3 are %v, want [1 3]", got)
	}
}

// A layout that does not fit is an error that tells dim, elements and parts.
func TestUnevenTarget(t *testing.T) {
	to := one(3, all)
	to.Specs["a"][0] = memory.Spec{Mesh: []int{3}, Dims: [][]int{{0}, nil}}
	_, err := makePlan(t, source(), to, nil)
	wantError(t, "4 rows on 3 ranks", err, diag.Usage, "`a`", "dim 0", "4 elements", "3")

	to = one(2, map[string]int{"a": 1, "b": 2, "tied": 1})
	_, err = makePlan(t, source(), to, nil)
	wantError(t, "a layout of 1 dim for a tensor of 2", err, diag.Usage, "`a`", "2 dims", "1")
}

// A rank's file that is missing is an error only if its bytes are needed.
func TestMissingRank(t *testing.T) {
	lacking := func(rank int) *memory.Checkpoint {
		c := source()
		for _, x := range c.Tensors {
			c.Lacks[x.Name] = append(c.Lacks[x.Name], rank)
		}
		return c
	}
	_, err := makePlan(t, lacking(1), nil, nil)
	wantError(t, "rank 1 holds half of `a` alone", err, diag.Damaged, "source rank 1 has no file", "target rank 0", "`a`")

	to := one(2, all)
	to.Specs["a"][0] = memory.Spec{Mesh: []int{2}, Dims: [][]int{{0}, nil}}
	to.Specs["b"][0] = memory.Spec{Mesh: []int{2}, Dims: [][]int{nil, {0}}}
	if _, err := makePlan(t, lacking(1), to, func(q *plan.Request) { q.Ranks = []int{0} }); err != nil {
		t.Errorf("target rank 0 needs nothing of source rank 1: %v", err)
	}
	_, err = makePlan(t, lacking(1), to, func(q *plan.Request) { q.Ranks = []int{1} })
	wantError(t, "target rank 1 needs it", err, diag.Damaged, "source rank 1 has no file", "target rank 1")

	c := source()
	c.Lacks["a"] = []int{0}
	_, err = makePlan(t, c, nil, nil)
	wantError(t, "a file lacks a tensor", err, diag.Damaged, "rank 0", "lacks `a`", "rank_0/net.ckpt")

	c = source()
	c.Lacks["tied"] = []int{0, 1, 3}
	if _, err := makePlan(t, c, nil, nil); err != nil {
		t.Errorf("one copy of `tied` is left: %v", err)
	}
	c.Lacks["tied"] = []int{0, 1, 2, 3}
	p, err := makePlan(t, c, nil, nil)
	if err != nil || slices.ContainsFunc(p.Tensors, func(x plan.Tensor) bool { return x.Name == "tied" }) {
		t.Errorf("no file holds `tied`, so there is no such tensor: %v", err)
	}
}

// A part that its stage lacks is taken from another stage, if that has cut the
// tensor in the same way.
func TestPartOfAnotherStage(t *testing.T) {
	rows := memory.Spec{Mesh: []int{2}, Dims: [][]int{{0}, nil}}
	columns := memory.Spec{Mesh: []int{2}, Dims: [][]int{nil, {0}}}
	for _, c := range []struct {
		other memory.Spec
		lacks []int
		from  int // the source rank of the second half; 0 for an error
	}{{rows, nil, 1}, {rows, []int{1}, 3}, {columns, []int{1}, 0}, {rows, []int{1, 3}, 0}} {
		src := source()
		src.Specs["a"][1] = c.other
		src.Lacks["a"] = c.lacks
		p, err := makePlan(t, src, nil, nil)
		if c.from == 0 {
			wantError(t, fmt.Sprintf("the other stage cuts by %v, lacking are %v", c.other.Dims, c.lacks), err, diag.Damaged, "`a`", "rank 1")
			continue
		}
		if err != nil {
			t.Errorf("lacking on %v: %v", c.lacks, err)
			continue
		}
		got := 0
		p.Needs(&p.Groups[0], 0, func(n plan.Need) bool {
			if p.Tensors[p.Groups[0].Items[n.Item].Tensor].Name == "a" && n.Part.Off[0] == 2 {
				got = n.Rank
			}
			return true
		})
		if got != c.from {
			t.Errorf("lacking on %v: the second half is read from rank %d, want %d", c.lacks, got, c.from)
		}
	}
}

func TestClasses(t *testing.T) {
	to := one(4, map[string]int{"a": 2, "b": 2, "tied": 1})
	to.Specs["a"][0] = memory.Spec{Mesh: []int{4}, Dims: [][]int{{0}, nil}}
	to.Specs["b"][0] = memory.Spec{Mesh: []int{4}, Dims: [][]int{{0}, nil}}
	p, err := makePlan(t, source(), to, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]plan.Class{"a": plan.SplitFurther, "b": plan.ReCut, "tied": plan.Replicated, "step0": plan.Replicated}
	for _, x := range p.Tensors {
		if w, ok := want[x.Name]; ok && x.Class != w {
			t.Errorf("`%s` is %s, want %s", x.Name, x.Class, w)
		}
	}
	p, err = makePlan(t, source(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range p.Tensors {
		if x.Name == "a" && x.Class != plan.Merged {
			t.Errorf("`a` is %s, want %s", x.Class, plan.Merged)
		}
	}
}

// A full checkpoint can be split into files of a size, with the Hub's names.
func TestMaxFileSize(t *testing.T) {
	gather := func(change func(*plan.Request)) (*plan.Plan, error) {
		return makePlan(t, source(), nil, func(q *plan.Request) {
			q.Format, q.File, q.MaxFileSize = safetensors.Format{}, "model.safetensors", 100
			change(q)
		})
	}
	p, err := gather(func(*plan.Request) {})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range p.Groups {
		names = append(names, p.FileName(&p.Groups[i], 0))
	}
	if len(names) < 2 || names[0] != fmt.Sprintf("model-00001-of-%05d.safetensors", len(names)) {
		t.Errorf("the files are %v", names)
	}
	if len(p.Extra) != 1 || p.Extra[0].Name != "model.safetensors.index.json" || !strings.Contains(string(p.Extra[0].Bytes), names[1]) {
		t.Errorf("the index is %+v", p.Extra)
	}
	p, err = gather(func(q *plan.Request) { q.MaxFileSize = 1 << 20 })
	if err != nil || len(p.Groups) != 1 || p.Groups[0].File != "model.safetensors" || len(p.Extra) != 0 {
		t.Errorf("what fits one file is one file: %v", err)
	}
	_, err = gather(func(q *plan.Request) { q.Format, q.File = mindspore.Format{}, "model.ckpt" })
	wantError(t, "MindSpore has no index", err, diag.Usage, "max_file_size", "mindspore")
	_, err = makePlan(t, source(), one(2, all), func(q *plan.Request) { q.MaxFileSize = 100 })
	wantError(t, "rank folders", err, diag.Usage, "max_file_size")
}

// What the format cannot hold is found before anything is written.
func TestTypeThatTheFormatLacks(t *testing.T) {
	c := source()
	c.Tensors[0].DType, c.Tensors[0].Data = dtype.HiF8, make([]byte, 24)
	_, err := makePlan(t, c, nil, func(q *plan.Request) { q.Format = safetensors.Format{} })
	wantError(t, "HiFloat8 in safetensors", err, diag.Usage, "a", "hif8")
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, q := pair(t, 1)
	if _, err := plan.Make(ctx, q); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("an interrupted plan gives %v", err)
	}
}

// What the target's format cannot hold is listed, once.
func TestWhatTheFormatDrops(t *testing.T) {
	fs := storage.NewMemory()
	for r := range 2 {
		out := checkpoint.Output{Tensors: []checkpoint.Tensor{{Name: "w", DType: dtype.F32, Shape: []int64{2}}}, Metadata: []checkpoint.KV{{Key: "note", Value: "x"}}}
		b, err := memory.File(safetensors.Format{}, out, [][]byte{make([]byte, 8)})
		if err != nil {
			t.Fatal(err)
		}
		fs.Put(fmt.Sprintf("in/rank_%d/a.safetensors", r), b)
	}
	to := one(2, map[string]int{"w": 1})
	p, err := plan.Make(context.Background(), plan.Request{Source: open(t, fs, "in", to), Format: mindspore.Format{}, Strategy: strategyOf(t, to), Folder: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Dropped) - len(slices.Compact(dropped(p))); n != 0 || !slices.Contains(dropped(p), "metadata note") {
		t.Errorf("dropped are %v, want the metadata `note` once", dropped(p))
	}
}
