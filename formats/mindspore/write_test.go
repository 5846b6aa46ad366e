package mindspore

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
)

func TestRewritingGivesTheSameBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"tensors", cat(rec("a", "Float32", []int64{2, 3}, seq(24)), rec("b", "Bool", []int64{300}, make([]byte, 300)))},
		{"scalars of both kinds", cat(rec("a", "Float32", nil, seq(4)), rec("b", "Int32", []int64{0}, seq(4)), rec("c", "Int32", []int64{1}, seq(4)))},
		{"tensors without elements", cat(rec("a", "Float32", []int64{0}, nil), rec("b", "Int8", []int64{3, 0}, nil), rec("c", "Int8", []int64{1}, seq(1)))},
		{"strings", cat(rec("a", "str", []int64{0}, utf32("x")), rec("b", "Int8", nil, seq(1)), rec("c", "str", []int64{0}, make([]byte, 4)))},
		{"the trailer", withTrailer(rec("a", "Int8", []int64{2}, seq(2)))},
		{"a trailer after a string", withTrailer(rec("a", "str", []int64{0}, utf32("x")))},
	} {
		if got := rewrite(t, c.b, sliceBytes); !bytes.Equal(got, c.b) {
			t.Errorf("%s: rewritten to\n%x\nwant\n%x", c.name, got, c.b)
		}
	}
}

func TestSlicesAreCutWhereMindSporeCutsThem(t *testing.T) {
	// 10 bytes in slices of 4: the whole's dims in each, cut inside a row.
	got := rewrite(t, cat(rec("w", "Int8", []int64{2, 5}, seq(10)), rec("v", "Int8", []int64{4}, seq(4))), 4)
	want := cat(
		rec("w", "Int8", []int64{2, 5}, []byte{0, 1, 2, 3}),
		rec("w", "Int8", []int64{2, 5}, []byte{4, 5, 6, 7}),
		rec("w", "Int8", []int64{2, 5}, []byte{8, 9}),
		rec("v", "Int8", []int64{4}, seq(4)),
	)
	if !bytes.Equal(got, want) {
		t.Errorf("slices are\n%x\nwant\n%x", got, want)
	}
	if again := rewrite(t, got, 4); !bytes.Equal(again, got) {
		t.Errorf("slices are rewritten to\n%x\nwant\n%x", again, got)
	}
	out := checkpoint.Output{Yield: noYield, Tensors: []checkpoint.Tensor{
		{Name: "just", DType: dtype.I8, Shape: []int64{536870912}},
		{Name: "over", DType: dtype.I8, Shape: []int64{536870913}},
	}}
	bp, err := Format{}.Blueprint(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	var lens []int64
	for _, s := range bp.Segments {
		if s.Len > 0 {
			lens = append(lens, s.Len)
		}
	}
	if len(lens) != 3 || lens[0] != 536870912 || lens[1] != 536870912 || lens[2] != 1 {
		t.Errorf("payloads of %v bytes, want 536870912, 536870912 and 1", lens)
	}
}

func TestLeavesBecomeEntries(t *testing.T) {
	leaf := func(name, kind string, seq int, v checkpoint.Value) checkpoint.Leaf {
		return checkpoint.Leaf{Path: checkpoint.Keys(name), Type: kind, Value: v, Seq: seq}
	}
	out := checkpoint.Output{
		Yield:   noYield,
		Tensors: []checkpoint.Tensor{{Name: "w", DType: dtype.I8, Shape: []int64{1}, Seq: 3}},
		Leaves: []checkpoint.Leaf{
			leaf("last", "str", 9, checkpoint.Value{Kind: checkpoint.Text, Text: "é"}),
			leaf("root", "dict", 0, checkpoint.Value{Kind: checkpoint.Sized, Len: 3}),
			leaf("step", "int", 1, checkpoint.Value{Kind: checkpoint.Integer, Int: -2}),
			leaf("half", "float", 2, checkpoint.Value{Kind: checkpoint.Float, Float: 0.5}),
			leaf("tenth", "float", 2, checkpoint.Value{Kind: checkpoint.Float, Float: 0.1}),
			leaf("nan", "float", 2, checkpoint.Value{Kind: checkpoint.Float, Float: math.NaN()}),
			leaf("on", "bool", 4, checkpoint.Value{Kind: checkpoint.Boolean, Bool: true}),
			leaf("big", "int", 5, checkpoint.Value{Kind: checkpoint.Integer, Big: "99999999999999999999"}),
			leaf("w", "int", 5, checkpoint.Value{Kind: checkpoint.Integer, Int: 1}),
			leaf("npstr", "numpy.str_", 5, checkpoint.Value{Kind: checkpoint.Text, Text: "x"}),
			leaf("none", "NoneType", 5, checkpoint.Value{Kind: checkpoint.None}),
			leaf("", "int", 5, checkpoint.Value{Kind: checkpoint.Integer}),
		},
		Metadata: []checkpoint.KV{{Key: "format", Value: "pt"}},
	}
	bp, err := Format{}.Blueprint(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	want := cat(
		rec("step", "Int64", nil, []byte{0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}),
		rec("half", "Float32", nil, []byte{0, 0, 0, 0x3F}),
		rec("tenth", "Float64", nil, []byte{0x9A, 0x99, 0x99, 0x99, 0x99, 0x99, 0xB9, 0x3F}),
		rec("nan", "Float32", nil, []byte{0, 0, 0xC0, 0x7F}),
		rec("w", "Int8", []int64{1}, []byte{7}),
		rec("on", "Bool", nil, []byte{1}),
		rec("last", "str", []int64{0}, utf32("é")),
	)
	if got := assemble(t, bp, out, func(int) []byte { return []byte{7} }); !bytes.Equal(got, want) {
		t.Errorf("file is\n%x\nwant\n%x", got, want)
	}
	var dropped []string
	for _, d := range bp.Dropped {
		dropped = append(dropped, d.What+" "+d.Path.Label()+": "+d.Reason)
	}
	wantDropped := `leaf root: a .ckpt file holds no containers, only what is in them
leaf big: the integer does not fit in 64 bits
leaf w: another entry is called ` + "`w`" + `
leaf npstr: a .ckpt file holds no values of type ` + "`numpy.str_`" + `
leaf none: a .ckpt file holds no values of type ` + "`NoneType`" + `
leaf : its name cannot be written
metadata format: a .ckpt file holds no metadata`
	if got := strings.Join(dropped, "\n"); got != wantDropped {
		t.Errorf("dropped\n%s\nwant\n%s", got, wantDropped)
	}
}

func TestLeavesComeLastWhereTensorsAreReordered(t *testing.T) {
	out := checkpoint.Output{
		Yield: noYield,
		Tensors: []checkpoint.Tensor{
			{Name: "b", DType: dtype.I8, Shape: []int64{1}, Seq: 2},
			{Name: "a", DType: dtype.I8, Shape: []int64{1}, Seq: 0},
		},
		Leaves: []checkpoint.Leaf{{Path: checkpoint.Keys("n"), Type: "bool", Value: checkpoint.Value{Kind: checkpoint.Boolean}, Seq: 1}},
	}
	bp, err := Format{}.Blueprint(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	b := assemble(t, bp, out, func(i int) []byte { return []byte{byte(i)} })
	if got, want := describe(mustIndex(t, b)), "0 b i8 [1] map[]\n1 a i8 [1] map[]\n2 n bool [] map[]\n"; got != want {
		t.Errorf("file has\n%swant\n%s", got, want)
	}
}

func TestBlueprintRefusesWhatMindSporeCannotHold(t *testing.T) {
	tensor := func(name string, d dtype.Type, shape ...int64) checkpoint.Tensor {
		return checkpoint.Tensor{Name: name, DType: d, Shape: shape}
	}
	for _, c := range []struct {
		name, want string
		tensors    []checkpoint.Tensor
	}{
		{"a type without a name", "`w` is f8_e8m0, a type that MindSpore does not have", []checkpoint.Tensor{tensor("w", dtype.F8E8M0, 1)}},
		{"an empty name", "MindSpore's names are UTF-8 of 1 to 65536 bytes", []checkpoint.Tensor{tensor("", dtype.I8, 1)}},
		{"a name not UTF-8", "MindSpore's names are UTF-8", []checkpoint.Tensor{tensor("\xff", dtype.I8, 1)}},
		{"two of a name", "two tensors are called `w`", []checkpoint.Tensor{tensor("w", dtype.I8, 1), tensor("w", dtype.I8, 2)}},
		{"an impossible shape", "i8 of shape [-1] is not possible", []checkpoint.Tensor{tensor("w", dtype.I8, -1)}},
		{"too many dims", "is not possible", []checkpoint.Tensor{tensor("w", dtype.I8, make([]int64, 65)...)}},
	} {
		_, err := Format{}.Blueprint(context.Background(), checkpoint.Output{Tensors: c.tensors, Yield: noYield})
		d := diagnostic(err)
		if d == nil || d.Code != diag.Usage || !strings.Contains(d.Summary, c.want) || d.Subject.Tensor != c.tensors[0].Name {
			t.Errorf("%s: Blueprint = %v, want a usage error %q of the tensor", c.name, err, c.want)
		}
	}
}

func TestEveryTypeIsWrittenAndRead(t *testing.T) {
	for d := dtype.Bool; int(d) < dtype.Count; d++ {
		if d.MindSpore() == "" {
			continue
		}
		b := rec("w", d.MindSpore(), []int64{3}, seq(int(3*d.Size())))
		if got := mustIndex(t, b).Entries[0].DType; got != d {
			t.Errorf("%s is read as %v, want %v", d.MindSpore(), got, d)
		}
		if got := rewrite(t, b, sliceBytes); !bytes.Equal(got, b) {
			t.Errorf("%v is rewritten to %x, want %x", d, got, b)
		}
	}
}
