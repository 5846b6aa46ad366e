package mindspore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
)

func TestLayoutOfAnItem(t *testing.T) {
	list := func(v ...int64) []int64 { return v }
	for _, c := range []struct {
		name string
		it   item
		want string // layout.Key: mesh|axes of each dim|optimizer shard|cuts
	}{
		{"axes are counted from the right", item{matrix: list(2, 3, 4), maps: [][]int64{{2, 0, -1}}}, "[2 3 4]|[[0] [2] []]|1"},
		{"a scalar", item{matrix: list(4), maps: [][]int64{nil}}, "[4]|[]|1"},
		{"no tensor map at all", item{matrix: list(4)}, "[4]|[]|1"},
		{"two axes on a dim, major first", item{matrix: list(2, 2, 2), maps: [][]int64{{1, 0}, {-1}}}, "[2 2 2]|[[1 2] []]|1"},
		{"two axes on the only dim", item{matrix: list(2, 2), maps: [][]int64{{0, 1}, nil}}, "[2 2]|[[1 0]]|1"},
		{"one axis on the only dim, nested", item{matrix: list(2, 2), maps: [][]int64{{0}, nil}}, "[2 2]|[[1]]|1"},
		{"optimizer shard of the whole group", item{matrix: list(2, 4), maps: [][]int64{{1, -1}}, step: 1, size: -1}, "[2 4]|[[0] []]|4"},
		{"optimizer shard of a part of it", item{matrix: list(2, 4), maps: [][]int64{{1, -1}}, step: 1, size: 2}, "[2 4]|[[0] []]|2"},
		{"optimizer shard over the group", item{matrix: list(2, 4), maps: [][]int64{{1, -1}}, step: 1, size: 64}, "[2 4]|[[0] []]|4"},
		{"a step without size", item{matrix: list(4), maps: [][]int64{{-1}}, step: 1}, "[4]|[[]]|1"},
		{"a size without step", item{matrix: list(4), maps: [][]int64{{-1}}, size: -1}, "[4]|[[]]|1"},
		{"the step does not matter", item{matrix: list(4), maps: [][]int64{{-1}}, step: 3, size: -1}, "[4]|[[]]|4"},
		{"a manual split of rows", item{matrix: list(3), maps: [][]int64{{0, -1}}, rows: list(5, 2, 1), offsets: list(0, 5, 7)}, "[3]|[[0] []]|1|0:[5 2 1]"},
		{"a manual split of rows and columns", item{matrix: list(2, 2), maps: [][]int64{{1, 0}}, rows: list(5, 5, 3, 3), offsets: list(0, 0, 5, 5)}, "[2 2]|[[0] [1]]|1|0:[5 3]"},
		{"a manual split that is even", item{matrix: list(2), maps: [][]int64{{0, -1}}, rows: list(4, 4), offsets: list(0, 4)}, "[2]|[[0] []]|1"},
		{"a manual split without offsets", item{matrix: list(2), maps: [][]int64{{0}}, rows: list(4, 3)}, "[2]|[[0]]|1|0:[4 3]"},
	} {
		l, misfit, err := c.it.layout()
		if err != nil || misfit != "" || l.Key() != c.want {
			t.Errorf("%s: layout = %v, %q, %v; want %s", c.name, l, misfit, err, c.want)
		}
	}
}

func TestImpossibleItems(t *testing.T) {
	list := func(v ...int64) []int64 { return v }
	for _, c := range []struct {
		name, want string
		it         item
	}{
		{"no device matrix", "the device matrix of `w` is empty", item{maps: [][]int64{{-1}}}},
		{"an axis of no ranks", "the device matrix [2 0] of `w` is not possible", item{matrix: list(2, 0), maps: [][]int64{{-1}}}},
		{"more ranks than any cluster has", "is not possible", item{matrix: list(1<<20, 1<<20), maps: [][]int64{{-1}}}},
		{"an axis that is not there", "the tensor_map of `w` names axis 2 of 2", item{matrix: list(2, 2), maps: [][]int64{{2}}}},
		{"a negative axis", "the tensor_map of `w` names axis -2 of 2", item{matrix: list(2, 2), maps: [][]int64{{-2}}}},
		{"none among axes", "the tensor_map of `w` names axis -1 of 2", item{matrix: list(2, 2), maps: [][]int64{{0, -1}, {-1}}}},
		{"an axis twice", "cuts more than once", item{matrix: list(2, 2), maps: [][]int64{{0, 0}}}},
		{"a negative optimizer shard", "`w` has the optimizer shard size -2", item{matrix: list(2), maps: [][]int64{{-1}}, step: 1, size: -2}},
		{"an optimizer shard that does not divide the group", "does not divide", item{matrix: list(4), maps: [][]int64{{-1}}, step: 1, size: 3}},
		{"an optimizer shard of a scalar", "scalar", item{matrix: list(4), maps: [][]int64{nil}, step: 1, size: -1}},
		{"a shape of other dims", "`w` has a tensor_map of 1 dims and a tensor_shape of 2", item{matrix: list(4), maps: [][]int64{{-1}}, shape: list(4, 4)}},
		{"a negative shape", "`w` has the tensor_shape [-4]", item{matrix: list(4), maps: [][]int64{{-1}}, shape: list(-4)}},
	} {
		c.it.name = "w"
		m := &merger{yield: noYield, layouts: map[string]built{}}
		_, err := m.strategy([]param{{item: c.it, file: "s.ckpt"}})
		d := diagnostic(err)
		if d == nil || d.Code != diag.Damaged || !strings.Contains(err.Error(), c.want) || d.Subject.Tensor != "w" || d.Subject.File != "s.ckpt" {
			t.Errorf("%s: %v, want %q of `w` in s.ckpt", c.name, err, c.want)
		}
	}
}

func TestManualSplitsThatDoNotFitAreToldAndLeftEven(t *testing.T) {
	for _, c := range []struct {
		name string
		it   item
	}{
		{"more entries than slices", item{matrix: []int64{2}, maps: [][]int64{{0}}, rows: []int64{1, 2, 3}}},
		{"a gap", item{matrix: []int64{2}, maps: [][]int64{{0}}, rows: []int64{1, 2}, offsets: []int64{0, 2}}},
		{"columns of different heights", item{matrix: []int64{2, 2}, maps: [][]int64{{1, 0}}, rows: []int64{1, 2, 3, 3}}},
		{"copies", item{matrix: []int64{2, 2}, maps: [][]int64{{0}}, rows: []int64{1, 2}}},
		{"negative rows", item{matrix: []int64{2}, maps: [][]int64{{0}}, rows: []int64{-1, 2}}},
		{"rows that overflow", item{matrix: []int64{3}, maps: [][]int64{{0}}, rows: []int64{1 << 62, 1 << 62, 1 << 62}}},
		{"a scalar", item{matrix: []int64{1}, maps: [][]int64{nil}, rows: []int64{1}}},
	} {
		c.it.name = "t"
		s, notes, err := ReadStrategies([]StrategyFile{{"s.ckpt", strategyBytes(0, c.it)}}, noYield)
		if err != nil || !s.Params[0].Layout.Even() {
			t.Errorf("%s: %v, want an even layout", c.name, err)
			continue
		}
		if len(notes) != 1 || notes[0].Subject.Tensor != "t" || !strings.Contains(notes[0].Summary, "manual split of `t` is not kept") {
			t.Errorf("%s: warnings %v, want one of `t`", c.name, notes)
		}
	}
}

func TestJSONAndProtobufSayTheSame(t *testing.T) {
	a, _, err := ReadStrategies([]StrategyFile{{"a.json", []byte(goodJSON)}}, noYield)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := ReadStrategies([]StrategyFile{{"b.ckpt", goodStrategy}}, noYield)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describeStrategy(a), describeStrategy(b); got != want {
		t.Errorf("JSON gives\n%s\nprotobuf\n%s", got, want)
	}
	if got := a.Params[0].Shape; len(got) != 2 || got[0] != 8 || got[1] != 4 {
		t.Errorf("tensor_shape is %v, want [8 4]", got)
	}
}

func TestJSONForms(t *testing.T) {
	file := func(body string) []byte {
		return []byte(`{"parallel_layout_item":{"w":{"dev_matrix":[2,2,2],` + body + `}}}`)
	}
	for _, c := range []struct{ name, body, want string }{
		{"flat", `"tensor_map":[2,-1]`, "[2 2 2]|[[0] []]|1"},
		{"expanded dims keep their shape", `"tensor_map":[2,1,-1],"tensor_shape":[2,16,16]`, "[2 2 2]|[[0] [1] []]|1"},
		{"nested", `"tensor_map":[[2,1],[-1]]`, "[2 2 2]|[[0 1] []]|1"},
		{"nested, one dim", `"tensor_map":[[2,1]]`, "[2 2 2]|[[0 1]]|1"},
		{"a scalar", `"tensor_map":[]`, "[2 2 2]|[]|1"},
		{"optimizer shard", `"tensor_map":[0],"opt_weight_shard_step":2,"opt_weight_shard_size":-1`, "[2 2 2]|[[2]]|4"},
		{"other keys are passed over", `"tensor_map":[0],"x":{"y":[{},1,"z",null]}`, "[2 2 2]|[[2]]|1"},
	} {
		s, _, err := ReadStrategies([]StrategyFile{{"s.json", file(c.body)}}, noYield)
		if err != nil || s.Params[0].Layout.Key() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	for _, c := range []struct{ name, body, want string }{
		{"a key twice", `"tensor_map":[0],"tensor_map":[1]`, "a key of `w` occurs twice"},
		{"a fraction", `"tensor_map":[0.5]`, "`0.5` is not a whole number of 64 bits"},
		{"a number over 64 bits", `"field":99999999999999999999`, "is not a whole number of 64 bits"},
		{"text for a number", `"field":"0"`, "found `0`, want a number"},
		{"an object for an array", `"tensor_map":{}`, "found `{`, want `[`"},
		{"mixed maps", `"tensor_map":[[0],1]`, "mixes numbers and arrays"},
		{"deep nesting", `"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested over 32 deep"},
		{"too many axes", `"tensor_map":[` + strings.Repeat("0,", 64) + `0]`, "more than 64 numbers"},
	} {
		_, _, err := ReadStrategies([]StrategyFile{{"s.json", file(c.body)}}, noYield)
		if d := diagnostic(err); d == nil || d.Code != diag.Damaged || !strings.Contains(d.Summary, c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// stageFile is a file of a stage in which each name lies on ranks so.
func stageFile(name string, stage int, ranks int64, names ...string) StrategyFile {
	var items []item
	for _, n := range names {
		items = append(items, item{name: n, matrix: []int64{ranks}, maps: [][]int64{{0}}})
	}
	return StrategyFile{name, strategyBytes(stage, items...)}
}

func TestStageFilesAreMerged(t *testing.T) {
	a, b := stageFile("a", 0, 2, "x", "tied"), stageFile("b", 1, 2, "y", "tied")
	again := StrategyFile{"a again", a.Bytes}
	counter := StrategyFile{"another counter", append([]byte{8, 7}, a.Bytes[2:]...)}
	mergedAll := stageFile("merged", 0, 2, "0-x", "0-tied", "1-y", "1-tied")
	mergedOld := stageFile("old", 0, 2, "0-x", "1-y")
	mergedOther := stageFile("other", 0, 4, "0-x", "0-tied", "1-y", "1-tied")
	gone := stageFile("part", 0, 2, "x")
	dashed := stageFile("dashed", 0, 2, "x-0", "0-y")
	const both = "2 stages of 2\n0 tied [2]|[[0]]|1 field=0 unknown=false\n0 x [2]|[[0]]|1 field=0 unknown=false\n" +
		"1 tied [2]|[[0]]|1 field=0 unknown=false\n1 y [2]|[[0]]|1 field=0 unknown=false"
	for _, c := range []struct {
		name  string
		files []StrategyFile
		want  string
		notes string
	}{
		{"a file for each stage, in any order", []StrategyFile{b, a}, both, ""},
		{"a file for each rank", []StrategyFile{a, again, b, counter}, both, ""},
		{"the merged file alone", []StrategyFile{mergedAll}, both, ""},
		{"the merged file among its parts", []StrategyFile{a, b, mergedAll}, both, ""},
		{"the merged file and some of its parts", []StrategyFile{a, mergedAll}, both, ""},
		{"an old merged file", []StrategyFile{a, b, mergedOld}, both, "the merged strategy file is passed over: it does not hold what the files of the stages hold"},
		{"a merged file of another run", []StrategyFile{mergedOther, a, b}, both, "the merged strategy file is passed over: it does not hold what the files of the stages hold"},
		{"two merged files", []StrategyFile{mergedOld, mergedAll}, both, "the merged strategy file is passed over: `merged` holds it all"},
		{"a file that lacks a parameter", []StrategyFile{a, b, gone}, both, "the strategy file lacks 1 parameters that other files of stage 0 name, such as `tied`"},
		{"names with dashes", []StrategyFile{dashed}, "1 stages of 2\n0 0-y [2]|[[0]]|1 field=0 unknown=false\n0 x-0 [2]|[[0]]|1 field=0 unknown=false", ""},
		{"merged twice", []StrategyFile{stageFile("m", 0, 2, "0-0-x", "0-1-y")}, "1 stages of 2\n0 0-x [2]|[[0]]|1 field=0 unknown=false\n0 1-y [2]|[[0]]|1 field=0 unknown=false", "all names begin with a number and `-`, such as `0-x`: the file seems to be merged twice"},
		{
			"states that the strategy does not describe",
			[]StrategyFile{stageFile("s", 0, 2, "accu_grads.w", "exp_avg_sq_row.w", "exp_avg.w")},
			"1 stages of 2\n0 accu_grads.w [2]|[[0]]|1 field=0 unknown=true\n0 exp_avg.w [2]|[[0]]|1 field=0 unknown=false\n0 exp_avg_sq_row.w [2]|[[0]]|1 field=0 unknown=true", "",
		},
	} {
		s, notes, err := ReadStrategies(c.files, noYield)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := describeStrategy(s); got != c.want {
			t.Errorf("%s: strategy is\n%s\nwant\n%s", c.name, got, c.want)
		}
		got := ""
		for _, n := range notes {
			got += n.Summary
		}
		if got != c.notes {
			t.Errorf("%s: warnings %q, want %q", c.name, got, c.notes)
		}
	}
}

func TestStrategiesThatCannotBe(t *testing.T) {
	a := stageFile("a", 0, 2, "x", "w")
	other := StrategyFile{"other", strategyBytes(0, item{name: "x", matrix: []int64{2}, maps: [][]int64{{0}}}, item{name: "w", matrix: []int64{2}, maps: [][]int64{{-1}}})}
	noOperator := StrategyFile{"bare", a.Bytes[len(appendOperator([]byte{8, 1}, 0)):]}
	for _, c := range []struct {
		name, want, file string
		files            []StrategyFile
	}{
		{"no file", "there is no strategy file", "", nil},
		{"two files of a stage that differ", "the strategy files of stage 0 differ: `w` lies otherwise in `a`", "other", []StrategyFile{a, other}},
		{"two layouts in a file", "the strategy file has two different layouts of `x` in stage 0", "s", []StrategyFile{{"s", cat(a.Bytes, stageFile("", 0, 4, "x").Bytes)}}},
		{"two merged files that differ", "differ: `x` lies otherwise in `m`", "n", []StrategyFile{stageFile("m", 0, 2, "0-x"), stageFile("n", 0, 4, "0-x")}},
		{"a stage is missing", "the strategy is not of all stages: it has stage 0, 2, not stage 1", "a", []StrategyFile{a, stageFile("c", 2, 2, "x")}},
		{"one stage, not the first", "it has stage 1, not stage 0", "b", []StrategyFile{stageFile("b", 1, 2, "x")}},
		{"stages of different size", "the device matrix [4] of `y` has 4 ranks, that of `x` has 2", "b", []StrategyFile{a, stageFile("b", 1, 4, "y")}},
		{"matrices of different size", "the device matrix [4] of `y` has 4 ranks, that of `x` has 2", "s", []StrategyFile{{"s", cat(a.Bytes, stageFile("", 0, 4, "y").Bytes)}}},
		{"a file that does not tell its stage", "names no operator, so it does not tell its stage", "bare", []StrategyFile{a, noOperator}},
		{"both kinds", "want all of one kind", "j", []StrategyFile{a, {"j", []byte(goodJSON)}}},
		{"a checkpoint", "this is a checkpoint, not a strategy file", "c", []StrategyFile{{"c", rec("w", "Int8", nil, seq(1))}}},
		{"a strategy cut off", "damaged or not a mindspore strategy file", "s", []StrategyFile{{"s", goodStrategy[:len(goodStrategy)-3]}}},
		{"a name not UTF-8", "a parameter has no name in UTF-8", "s", []StrategyFile{stageFile("s", 0, 2, "\xff")}},
		{"JSON cut off", "the JSON text ends too early", "s", []StrategyFile{{"s", []byte(goodJSON[:50])}}},
		{"JSON and more", "something follows the JSON object", "s", []StrategyFile{{"s", []byte(goodJSON + "{}")}}},
		{"JSON not UTF-8", "the text is not UTF-8", "s", []StrategyFile{{"s", []byte("{\"\xff\"}")}}},
		{"a strategy of operators", "the strategy file names no parameter", "s", []StrategyFile{{"s", []byte(`{"parallel_strategy_item":{}}`)}}},
	} {
		_, _, err := ReadStrategies(c.files, noYield)
		d := diagnostic(err)
		if d == nil || d.Code != diag.Damaged || !strings.Contains(d.Summary, c.want) || d.Subject.File != c.file {
			t.Errorf("%s: %v, want %q in file %q", c.name, err, c.want, c.file)
		}
	}
}

func TestReadStage(t *testing.T) {
	s, stage, _, err := ReadStage(stageFile("s", 3, 2, "x"), noYield)
	if err != nil || stage != 3 || s.Stages != 1 || s.InStage("x", 0) == nil {
		t.Errorf("ReadStage = %v, %d, %v; want `x` of stage 3 as the only stage", s, stage, err)
	}
	if _, _, _, err := ReadStage(stageFile("m", 0, 2, "0-x"), noYield); err == nil {
		t.Errorf("ReadStage takes a merged file")
	}
}

func TestWriteStrategyIsWhatMindSporeWrites(t *testing.T) {
	// Every field is there, the empty ones too.
	s, _, err := ReadStrategies([]StrategyFile{stageFile("s", 0, 2, "w")}, noYield)
	if err != nil {
		t.Fatal(err)
	}
	want := "08 01" + // current_stage
		" 12 0c 0a 06 53 74 61 67 65 30 12 02 08 00" + // operator of stage 0
		" 1a 17 0a 01 77 12 12" + // parameter w
		" 0a 02 08 02 12 02 08 00 1a 00 22 00 28 00 30 00 38 00"
	if got := fmt.Sprintf("% x", WriteStrategy(s)); got != want {
		t.Errorf("WriteStrategy =\n%s\nwant\n%s", got, want)
	}
}

func TestWrittenStrategiesAreReadEqual(t *testing.T) {
	items := []item{
		{name: "flat", matrix: []int64{2, 3, 4}, maps: [][]int64{{2, 0, -1}}},
		{name: "scalar", matrix: []int64{24}, maps: [][]int64{nil}},
		{name: "nested", matrix: []int64{2, 3, 4}, maps: [][]int64{{1, 0}, {-1}}},
		{name: "nested one", matrix: []int64{6, 4}, maps: [][]int64{{0, 1}, nil}},
		{name: "zero", matrix: []int64{4, 6}, maps: [][]int64{{1, -1}}, step: 1, size: -1},
		{name: "zero part", matrix: []int64{4, 6}, maps: [][]int64{{1, -1}}, step: 1, size: 3},
		{name: "manual", matrix: []int64{24}, maps: [][]int64{{0}}, rows: append([]int64{5}, seq64(23)...)},
		{name: "field", matrix: []int64{24}, maps: [][]int64{{0, -1}}, field: 3},
	}
	for _, names := range []string{"%s", "0-%s"} { // the second is kept apart from a merged file's
		var named []item
		for _, it := range items {
			it.name = fmt.Sprintf(names, it.name)
			named = append(named, it)
		}
		b := strategyBytes(0, named...)
		if names != "%s" {
			for i := range named {
				named[i].name = "0-" + named[i].name
			}
			b = strategyBytes(0, named...)
		}
		s, _, err := ReadStrategies([]StrategyFile{{"s", b}}, noYield)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := ReadStrategies([]StrategyFile{{"t", WriteStrategy(s)}}, noYield)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := describeStrategy(again), describeStrategy(s); got != want {
			t.Errorf("written and read it is\n%s\nwant\n%s", got, want)
		}
	}
}

func seq64(n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}

func TestTheStepIsTheAverageDistance(t *testing.T) {
	// The group {0,1,4,5} of a mesh [2 2 2] cut by axis 1 has step 1.
	it := item{matrix: []int64{2, 2, 2}, maps: [][]int64{{1, -1}}, step: 9, size: -1}
	l, _, err := it.layout()
	if err != nil {
		t.Fatal(err)
	}
	got := itemOf(&layout.Param{Name: "w", Layout: l})
	if got.step != 1 || got.size != -1 {
		t.Errorf("step %d size %d, want 1 and -1", got.step, got.size)
	}
}
