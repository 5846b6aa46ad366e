package mindspore

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
)

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	return read(t, filepath.Join(root(t), "fixtures", "mindspore", name))
}

func TestFixturesAreReadAndWrittenBitForBit(t *testing.T) {
	var expect map[string]struct {
		Params []fileParam
		CRC    uint64
	}
	if err := json.Unmarshal(fixture(t, "expect.json"), &expect); err != nil {
		t.Fatal(err)
	}
	for name, want := range expect {
		b := fixture(t, name)
		x := mustIndex(t, b)
		compare(t, b, x, want.Params)
		if len(x.Checks) > 0 && x.Checks[0].Want != want.CRC || len(x.Checks) == 0 && want.CRC != 0 {
			t.Errorf("%s: checks %v, want the sum %d", name, x.Checks, want.CRC)
		}
		slice := int64(sliceBytes)
		if name == "slices.ckpt" {
			slice = 1024
		}
		if got := rewrite(t, b, slice); !bytes.Equal(got, b) {
			t.Errorf("%s: rewriting gives other bytes", name)
		}
	}
}

func TestFixtureStrategies(t *testing.T) {
	read := func(names ...string) string {
		t.Helper()
		var files []StrategyFile
		for _, n := range names {
			files = append(files, StrategyFile{n, fixture(t, n)})
		}
		s, notes, err := ReadStrategies(files, noYield)
		if err != nil || len(notes) > 0 {
			t.Fatalf("%v: %v, %v", names, notes, err)
		}
		return describeStrategy(s)
	}
	if got, want := read("strategy_stage1.ckpt", "strategy_stage0.ckpt"), read("strategy_merged.ckpt"); got != want {
		t.Errorf("the stages give\n%s\nMindSpore's merged file\n%s", got, want)
	}
	for _, c := range []struct{ name, want string }{
		{"strategy_two_axes.ckpt", `1 stages of 8
0 add_0.weight [2 2 2]|[[2]]|1 field=0 unknown=false
0 matmul_0.weight [2 2 2]|[[1] [2]]|1 field=0 unknown=false
0 matmul_1.weight [2 2 2]|[[] [1 2]]|1 field=0 unknown=false
0 mul_0.weight [2 2 2]|[[1 2]]|1 field=0 unknown=false`},
		{"strategy_manual_field.ckpt", `1 stages of 4
0 field.w [4]|[[0] []]|1 field=3 unknown=false
0 table [4]|[[0] []]|1|0:[10 8 5 7] field=0 unknown=false`},
	} {
		if got := read(c.name); got != c.want {
			t.Errorf("%s says\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	if got, want := read("strategy.json")[:15], "1 stages of 4\n0"; got != want {
		t.Errorf("strategy.json begins %q, want %q", got, want)
	}
}
