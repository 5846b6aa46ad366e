package checkpoint_test

import (
	"math"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/storage"
)

// at is bytes of the first file.
func at(off, n int64) []checkpoint.Extent { return []checkpoint.Extent{{Off: off, Len: n}} }

// What a format says of a tensor must fit its type, its shape and the files.
func TestValidateIndex(t *testing.T) {
	const size = 100
	type data = checkpoint.Data
	cases := []struct {
		name  string
		dtype dtype.Type
		shape []int64
		data  checkpoint.Data
		want  string // of the error; "" for none
	}{
		{"whole", dtype.F32, []int64{5, 5}, data{Extents: at(0, 100)}, ""},
		{"a scalar", dtype.F64, []int64{}, data{Extents: at(92, 8)}, ""},
		{"nothing", dtype.F64, []int64{3, 0}, data{}, ""},
		{"nothing, in dims of any size", dtype.F64, []int64{1 << 62, 0}, data{}, ""},
		{"several places", dtype.U8, []int64{10}, data{Extents: []checkpoint.Extent{{Off: 90, Len: 4}, {Off: 0, Len: 6}}}, ""},
		{"in the header", dtype.U16, []int64{2}, data{Inline: make([]byte, 4)}, ""},
		{"too few bytes in the header", dtype.U16, []int64{2}, data{Inline: make([]byte, 3)}, "holds 3 bytes"},
		{"too few bytes", dtype.F32, []int64{5, 5}, data{Extents: at(0, 96)}, "holds 96 bytes"},
		{"too many bytes", dtype.F32, []int64{5}, data{Extents: at(0, 96)}, "holds 96 bytes"},
		{"past the end", dtype.U8, []int64{10}, data{Extents: at(91, 10)}, "past the end"},
		{"far past the end", dtype.U8, []int64{10}, data{Extents: at(math.MaxInt64-3, 10)}, "past the end"},
		{"before the begin", dtype.U8, []int64{10}, data{Extents: at(-1, 10)}, "past the end"},
		{"a negative length", dtype.U8, []int64{10}, data{Extents: []checkpoint.Extent{{Off: 0, Len: 20}, {Off: 50, Len: -10}}}, "past the end"},
		{"no such file", dtype.U8, []int64{10}, data{Extents: []checkpoint.Extent{{File: 1, Len: 10}}}, "file 1 of 1"},
		{"a file before the first", dtype.U8, []int64{10}, data{Extents: []checkpoint.Extent{{File: -1, Len: 10}}}, "file -1"},
		{"no type", dtype.Invalid, []int64{1}, data{Extents: at(0, 1)}, "not possible"},
		{"a negative dim", dtype.U8, []int64{-1}, data{}, "not possible"},
		{"more elements than can be counted", dtype.U8, []int64{1 << 32, 1 << 32}, data{}, "not possible"},
		{"more bytes than can be counted", dtype.C128, []int64{1 << 60}, data{}, "not possible"},
		{"half a byte", dtype.F4E2M1, []int64{3}, data{Extents: at(0, 2)}, "not possible"},
		{"transposed", dtype.F32, []int64{2, 3}, data{Extents: at(0, 24), Strides: []int64{1, 2}}, ""},
		{"transposed, beyond the run", dtype.F32, []int64{2, 3}, data{Extents: at(0, 20), Strides: []int64{1, 2}}, "reaches element 5"},
		{"from the middle", dtype.F32, []int64{2}, data{Extents: at(0, 12), Offset: 1}, ""},
		{"from the middle, beyond the run", dtype.F32, []int64{2}, data{Extents: at(0, 12), Offset: 2}, "reaches element 3"},
		{"one element many times", dtype.F32, []int64{1 << 20, 3}, data{Extents: at(0, 12), Strides: []int64{0, 1}}, ""},
		{"a negative stride", dtype.F32, []int64{2}, data{Extents: at(0, 12), Strides: []int64{-1}}, "strides"},
		{"a negative offset", dtype.F32, []int64{2}, data{Extents: at(0, 12), Offset: -1}, "strides"},
		{"too few strides", dtype.F32, []int64{2, 2}, data{Extents: at(0, 16), Strides: []int64{1}}, "strides"},
		{"too few strides of nothing", dtype.F32, []int64{0, 2}, data{Strides: []int64{1}}, "strides"},
		{"strides that overflow", dtype.F32, []int64{1 << 31, 2}, data{Extents: at(0, 16), Strides: []int64{1 << 40, 1}}, "not possible"},
		{"an offset that overflows", dtype.F32, []int64{2}, data{Extents: at(0, 16), Offset: math.MaxInt64}, "not possible"},
		{"packed", dtype.U8, []int64{1000}, data{Extents: at(0, 50), Codec: checkpoint.Deflate, Decoded: 1000}, ""},
		{"packed, and more than it claims", dtype.U8, []int64{1000}, data{Extents: at(0, 50), Codec: checkpoint.Deflate, Decoded: 999}, "holds 999 bytes"},
		{"packed, nowhere", dtype.U8, []int64{1000}, data{Codec: checkpoint.Deflate, Decoded: 1000}, "packed"},
		{"packed, in two places", dtype.U8, []int64{10}, data{Extents: append(at(0, 5), at(5, 5)...), Codec: checkpoint.Deflate, Decoded: 10}, "packed"},
		{"packed by who knows what", dtype.U8, []int64{10}, data{Extents: at(0, 5), Codec: checkpoint.Deflate + 1, Decoded: 10}, "packed"},
		{"elements of half a byte, transposed", dtype.F4E2M1, []int64{2, 4}, data{Extents: at(0, 4), Strides: []int64{1, 2}}, "4 bits"},
		{"elements of half a byte, from inside of one", dtype.F4E2M1, []int64{2, 4}, data{Extents: at(0, 5), Offset: 1}, "4 bits"},
	}
	for _, c := range cases {
		x := checkpoint.Index{Entries: []checkpoint.Entry{{Name: "fine", DType: dtype.U8, Shape: []int64{0}}, {Name: "w", DType: c.dtype, Shape: c.shape, Data: c.data}}}
		err := x.Validate([]int64{size})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "`w`")):
			t.Errorf("%s: the error is %v, want one that names `w` and says %q", c.name, err, c.want)
		case err != nil && diag.From(err)[0].Code != diag.Damaged:
			t.Errorf("%s: the error is of class %s, want damaged", c.name, diag.From(err)[0].Code)
		}
	}
}

// What a format lays out must hold every byte of every tensor once, in order,
// and sums that can be filled in.
func TestValidateBlueprint(t *testing.T) {
	type seg = checkpoint.Segment
	type hole = checkpoint.Hole
	text := func(n int) seg { return seg{Literal: make([]byte, n)} }
	run := func(tensor int, off, n int64) seg { return seg{Tensor: tensor, Off: off, Len: n} }
	over := func(off, n int64) storage.Range { return storage.Range{Off: off, Len: n} }
	cases := []struct {
		name  string
		segs  []seg
		holes []hole
		want  string
	}{
		{"in turn", []seg{text(8), run(0, 0, 6), text(2), run(1, 0, 4)}, nil, ""},
		{"in another order", []seg{run(1, 0, 4), run(0, 0, 6)}, nil, ""},
		{"in slices", []seg{run(0, 0, 2), text(3), run(1, 0, 4), run(0, 2, 4)}, nil, ""},
		{"a byte too few", []seg{run(0, 0, 5), run(1, 0, 4)}, nil, "`a`"},
		{"none of one", []seg{run(0, 0, 6)}, nil, "`b`"},
		{"a byte too many", []seg{run(0, 0, 7), run(1, 0, 4)}, nil, "`a`"},
		{"a slice twice", []seg{run(0, 0, 3), run(0, 0, 3), run(1, 0, 4)}, nil, "out of order"},
		{"slices the other way round", []seg{run(0, 3, 3), run(0, 0, 3), run(1, 0, 4)}, nil, "out of order"},
		{"no such tensor", []seg{run(0, 0, 6), run(1, 0, 4), run(2, 0, 1)}, nil, "out of order"},
		{"a negative length", []seg{run(0, 0, -6), run(1, 0, 4)}, nil, "out of order"},
		{"a sum at the end", []seg{run(0, 0, 6), run(1, 0, 4), text(4)}, []hole{{At: 10, Over: over(0, 10)}}, ""},
		{"a sum at the begin", []seg{text(4), run(0, 0, 6), run(1, 0, 4)}, []hole{{At: 0, Over: over(4, 10)}}, ""},
		{"a sum past the end", []seg{run(0, 0, 6), run(1, 0, 4), text(4)}, []hole{{At: 11, Over: over(0, 10)}}, "outside"},
		{"a sum of what is not there", []seg{run(0, 0, 6), run(1, 0, 4), text(4)}, []hole{{At: 10, Over: over(14, 1)}}, "outside"},
		{"a sum of more than can be counted", []seg{run(0, 0, 6), run(1, 0, 4), text(4)}, []hole{{At: 10, Over: over(1, math.MaxInt64)}}, "outside"},
		{"a sum of itself", []seg{run(0, 0, 6), run(1, 0, 4), text(4)}, []hole{{At: 10, Over: over(0, 11)}}, "itself"},
		{"a sum in a payload", []seg{run(0, 0, 6), run(1, 0, 4), text(4)}, []hole{{At: 6, Over: over(0, 6)}}, "literal"},
		{"a sum that is half in a payload", []seg{run(0, 0, 6), run(1, 0, 4), text(4)}, []hole{{At: 9, Over: over(0, 6)}}, "literal"},
		{"two sums in one place", []seg{run(0, 0, 6), run(1, 0, 4), text(6)}, []hole{{At: 10, Over: over(0, 6)}, {At: 12, Over: over(6, 4)}}, "two sums"},
		{"a sum over parts of another", []seg{run(0, 0, 6), run(1, 0, 4), text(8)}, []hole{{At: 10, Over: over(0, 6)}, {At: 14, Over: over(3, 5)}}, "overlap"},
		{"two sums of the same", []seg{run(0, 0, 6), run(1, 0, 4), text(8)}, []hole{{At: 10, Over: over(0, 6)}, {At: 14, Over: over(0, 6)}}, ""},
	}
	out := checkpoint.Output{Tensors: []checkpoint.Tensor{{Name: "a", DType: dtype.U8, Shape: []int64{6}}, {Name: "b", DType: dtype.I32, Shape: []int64{}}}}
	for _, c := range cases {
		bp := checkpoint.Blueprint{Segments: c.segs, Holes: c.holes}
		err := bp.Validate(out)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: the error is %v, want %q", c.name, err, c.want)
		}
	}
}
