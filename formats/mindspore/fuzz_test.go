package mindspore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
)

// Hostile bytes give a FormatError. What is indexed is valid, is found by
// Probe, and can be written so that it is read as the same.
func FuzzIndex(f *testing.F) {
	f.Add(rec("w", "Float32", []int64{2, 2}, seq(16)))
	f.Add(withTrailer(cat(rec("a", "Int32", []int64{0}, seq(4)), rec("s", "str", []int64{0}, utf32("x")))))
	f.Add(cat(rec("a", "BFloat16", []int64{2}, seq(8)), rec("a", "BFloat16", []int64{2}, nil), rec("b", "Int4", nil, seq(1))))
	f.Add(cat(rec("a", "Int8", nil, seq(1)), rec("b", "Int8", []int64{0, 3}, nil), rec("a", "Int8", []int64{3}, seq(3))))
	f.Add(encrypted(0xD8, 16))
	f.Add(goodStrategy)
	f.Add(groupInfo)
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := index(b)
		if err != nil {
			if formatError(err) == nil {
				t.Fatalf("hostile bytes must give a FormatError, got %T: %v", err, err)
			}
			return
		}
		if err := x.Validate([]int64{int64(len(b))}); err != nil {
			t.Fatalf("Validate = %v", err)
		}
		out := output(x)
		bp, err := Format{}.Blueprint(context.Background(), out)
		if err != nil {
			t.Fatalf("what is read must be writable: %v", err)
		}
		if len(bp.Dropped) > 0 {
			t.Fatalf("what is read must be writable, dropped %v", bp.Dropped)
		}
		again := assemble(t, bp, out, func(i int) []byte { return content(t, b, &x.Entries[i]) })
		if got := (Format{}).Probe(sample(again)); got != checkpoint.Yes && isPlain(firstName(x)) {
			t.Fatalf("Probe = %v of what was written", got)
		}
		y := mustIndex(t, again)
		if describe(y) != describe(x) {
			t.Fatalf("written and read it has\n%s\nwant\n%s", describe(y), describe(x))
		}
		for i := range x.Entries {
			if !bytes.Equal(content(t, again, &y.Entries[i]), content(t, b, &x.Entries[i])) {
				t.Fatalf("the content of %s changed", x.Entries[i].Name)
			}
		}
		if twice := rewrite(t, again, sliceBytes); !bytes.Equal(twice, again) {
			t.Fatalf("writing again gives other bytes")
		}
	})
}

func firstName(x *checkpoint.Index) string {
	for _, e := range x.Entries {
		if e.Seq == 0 {
			return e.Name
		}
	}
	return x.Leaves[0].Path.Label()
}

// Hostile bytes give a diagnostic. What is read can be written and read as the
// same.
func FuzzStrategy(f *testing.F) {
	f.Add(goodStrategy, []byte(nil))
	f.Add([]byte(goodJSON), []byte(nil))
	f.Add(stageFile("a", 0, 2, "x", "t").Bytes, stageFile("b", 1, 2, "y", "t").Bytes)
	f.Add(stageFile("m", 0, 2, "0-x", "1-y").Bytes, stageFile("b", 1, 2, "y").Bytes)
	f.Add(strategyBytes(0, item{name: "w", matrix: []int64{2, 2}, maps: [][]int64{{1, 0}, nil}}), []byte(nil))
	f.Add(strategyBytes(0, item{name: "w", matrix: []int64{2, 2}, maps: [][]int64{{1, -1}}, step: 1, size: -1}), []byte(nil))
	f.Add(strategyBytes(0, item{name: "w", matrix: []int64{3}, maps: [][]int64{{0}}, rows: []int64{3, 2, 1}, offsets: []int64{0, 3, 5}}), []byte(nil))
	paths, _ := filepath.Glob(filepath.Join(root(f), "fixtures", "mindspore", "*strategy*"))
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil {
			f.Add(b, []byte(nil))
		}
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		files := []StrategyFile{{"a", a}}
		if len(b) > 0 {
			files = append(files, StrategyFile{"b", b})
		}
		s, _, err := ReadStrategies(files, noYield)
		if err != nil {
			var d *diag.Diagnostic
			if !errors.As(err, &d) || d.Code != diag.Damaged {
				t.Fatalf("hostile bytes must give a diagnostic of damage, got %T: %v", err, err)
			}
			return
		}
		again, _, err := ReadStrategies([]StrategyFile{{"c", WriteStrategy(s)}}, noYield)
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if got, want := describeStrategy(again), describeStrategy(s); got != want {
			t.Fatalf("written and read it is\n%s\nwant\n%s", got, want)
		}
	})
}
