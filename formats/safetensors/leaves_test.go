package safetensors

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/jsontext"
)

// path makes a path of strings, integers and parts.
func path(parts ...any) checkpoint.Path {
	p := checkpoint.Path{}
	for _, x := range parts {
		switch x := x.(type) {
		case string:
			p = append(p, checkpoint.Part{Text: x})
		case int:
			p = append(p, checkpoint.Part{Kind: checkpoint.IndexPart, Index: int64(x)})
		case checkpoint.Part:
			p = append(p, x)
		}
	}
	return p
}

// tree is a checkpoint as torch nests it, with a leaf of every kind.
func tree() checkpoint.Output {
	leaf := func(p checkpoint.Path, typ string, v checkpoint.Value, seq int) checkpoint.Leaf {
		return checkpoint.Leaf{Path: p, Type: typ, Value: v, Seq: seq}
	}
	return checkpoint.Output{
		From: "torch",
		Tensors: []checkpoint.Tensor{
			{Name: "model.a.b", Path: path("model", "a.b"), DType: dtype.F16, Shape: []int64{2}, Seq: 2},
			{Name: "optimizer.state.0.exp_avg", Path: path("optimizer", "state", 0, "exp_avg"), DType: dtype.F32, Shape: []int64{2}, Seq: 4},
			{Name: "flat", DType: dtype.F64, Shape: []int64{0}, Seq: 15},
			{Name: "also flat", Path: path("also flat"), DType: dtype.F32, Shape: []int64{0}, Seq: 16},
			{Name: "attr.state.indices.(1, 2)", DType: dtype.U8, Shape: []int64{1}, Seq: 17, Path: path(
				checkpoint.Part{Kind: checkpoint.AttrPart, Text: "attr"}, checkpoint.Part{Kind: checkpoint.StatePart, Text: "state"},
				checkpoint.Part{Kind: checkpoint.SparsePart, Text: "indices"}, checkpoint.Part{Kind: checkpoint.OtherPart, Text: "(1, 2)"}, -7)},
		},
		Leaves: []checkpoint.Leaf{
			leaf(path(), "collections.OrderedDict", checkpoint.Value{Kind: checkpoint.Sized, Len: 3}, 0),
			leaf(path("model"), "dict", checkpoint.Value{Kind: checkpoint.Sized, Len: 1}, 1),
			leaf(path("optimizer"), "dict", checkpoint.Value{Kind: checkpoint.Sized}, 3),
			leaf(path("step"), "int", checkpoint.Value{Kind: checkpoint.Integer, Int: math.MinInt64}, 5),
			leaf(path("big"), "int", checkpoint.Value{Kind: checkpoint.Integer, Big: "-99999999999999999999"}, 6),
			leaf(path("lr"), "float", checkpoint.Value{Kind: checkpoint.Float, Float: 1e-300}, 7),
			leaf(path("whole"), "float", checkpoint.Value{Kind: checkpoint.Float, Float: 3}, 8),
			leaf(path("-0"), "float", checkpoint.Value{Kind: checkpoint.Float, Float: math.Copysign(0, -1)}, 9),
			leaf(path("inf"), "float", checkpoint.Value{Kind: checkpoint.Float, Float: math.Inf(1)}, 10),
			leaf(path("none"), "NoneType", checkpoint.Value{Kind: checkpoint.None}, 11),
			leaf(path("flag"), "bool", checkpoint.Value{Kind: checkpoint.Boolean, Bool: true}, 12),
			leaf(path("text"), "str", checkpoint.Value{Kind: checkpoint.Text, Text: "层 \"\\\n\x00 not UTF-8: \xed\xa0\x80"}, 13),
			leaf(path("bytes\xff"), "bytes", checkpoint.Value{Kind: checkpoint.Bytes, Text: "\x00\xff"}, 14),
			leaf(path("object"), "numpy.dtype", checkpoint.Value{Kind: checkpoint.Opaque, Text: "numpy.dtype"}, 18),
		},
	}
}

func TestLeavesAndPathsComeBack(t *testing.T) {
	out := tree()
	data, bp := write(t, out)
	if len(bp.Dropped) != 0 {
		t.Errorf("dropped %v", bp.Dropped)
	}
	x, err := index(data, true)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(x.Leaves, out.Leaves) {
		t.Errorf("read the leaves\n%+v\nwant\n%+v", x.Leaves, out.Leaves)
	}
	if want := []checkpoint.KV{{Key: "format", Value: "pt"}}; !slices.Equal(x.Metadata, want) {
		t.Errorf("read the metadata %v, want %v", x.Metadata, want)
	}
	for _, want := range out.Tensors {
		got := x.Find(want.Name)
		if p := got.PathOrName(); got.Seq != want.Seq || want.Path != nil && !p.Equal(want.Path) || want.Path == nil && !p.Equal(path(want.Name)) {
			t.Errorf("tensor %q was read at %v as number %d, want %v and %d", want.Name, got.Path, got.Seq, want.Path, want.Seq)
		}
	}
}

// The text is fixed by specs/formats/safetensors.md: files that hold it live on.
func TestLeavesAreWrittenAsSpecified(t *testing.T) {
	out := tree()
	tensors, err := place(&out, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	got, err := marshalLeaves(&out, asRead(tensors), func() error { return nil })
	want := `{"version":1,"leaves":[` +
		`{"path":[],"type":"collections.OrderedDict","value":{"len":3},"seq":0},` +
		`{"path":["model"],"type":"dict","value":{"len":1},"seq":1},` +
		`{"path":["optimizer"],"type":"dict","value":{"len":0},"seq":3},` +
		`{"path":["step"],"type":"int","value":-9223372036854775808,"seq":5},` +
		`{"path":["big"],"type":"int","value":{"int":"-99999999999999999999"},"seq":6},` +
		`{"path":["lr"],"type":"float","value":1e-300,"seq":7},` +
		`{"path":["whole"],"type":"float","value":3.0,"seq":8},` +
		`{"path":["-0"],"type":"float","value":-0.0,"seq":9},` +
		`{"path":["inf"],"type":"float","value":{"float":"inf"},"seq":10},` +
		`{"path":["none"],"type":"NoneType","value":null,"seq":11},` +
		`{"path":["flag"],"type":"bool","value":true,"seq":12},` +
		`{"path":["text"],"type":"str","value":{"raw":"5bGCICJcCgAgbm90IFVURi04OiDtoIA="},"seq":13},` +
		`{"path":[{"raw":"Ynl0ZXP/"}],"type":"bytes","value":{"bytes":"AP8="},"seq":14},` +
		`{"path":["object"],"type":"numpy.dtype","value":{"opaque":"numpy.dtype"},"seq":18}],` +
		`"paths":{"optimizer.state.0.exp_avg":["optimizer","state",0,"exp_avg"],"model.a.b":["model","a.b"],` +
		`"attr.state.indices.(1, 2)":[{"attr":"attr"},{"state":"state"},{"sparse":"indices"},{"key":"(1, 2)"},-7]},` +
		`"order":[16,15,4,2,17]}`
	if err != nil || got != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

func TestFloatsKeepTheirBits(t *testing.T) {
	for _, bits := range []uint64{
		0, 1 << 63, 1, 0x7fefffffffffffff, 0x3ff0000000000001, 0x7ff0000000000000, 0xfff0000000000000,
		0x7ff8000000000000, 0xfff8000000000000, 0x7ff0000000000001, 0x7ff8000000000123, 0x444b1ae4d6e2ef50, 0x3fb999999999999a,
	} {
		v := checkpoint.Value{Kind: checkpoint.Float, Float: math.Float64frombits(bits)}
		r := leavesReader{Reader: jsontext.NewReader(appendValue(nil, &v))}
		got, err := r.value()
		if err != nil || got.Kind != checkpoint.Float || math.Float64bits(got.Float) != bits {
			t.Errorf("%x was written as %s and read as %x, %v", bits, appendValue(nil, &v), math.Float64bits(got.Float), err)
		}
	}
}

func TestLeavesOfOthersAreLeftAlone(t *testing.T) {
	const leaf = `{"path":["a"],"type":"int","value":1,"seq":0}`
	with := func(old, new string) string {
		return `{"version":1,"leaves":[` + strings.Replace(leaf, old, new, 1) + `]}`
	}
	deep := strings.Repeat("0,", maxDepth) + "0"
	tests := []struct{ name, text, want string }{
		{"no JSON", "step 5", "where an object was expected"},
		{"another version", `{"version":2}`, "is not of version 1"},
		{"no version", `{"leaves":[]}`, "has no version"},
		{"an unknown field", `{"version":1,"x":0}`, "unknown field `x`"},
		{"a field twice", `{"version":1,"leaves":[],"leaves":[]}`, "same field twice"},
		{"a leaf without a value", with(`"value":1,`, ``), "without path, type, value or seq"},
		{"a leaf's field twice", with(`"seq":0`, `"seq":0,"seq":1`), "same field twice"},
		{"a leaf's unknown field", with(`"seq":0`, `"seq":0,"x":1`), "unknown field `x`"},
		{"a path that is no list", with(`["a"]`, `"a"`), "where an array was expected"},
		{"a fraction for an index", with(`["a"]`, `[1.5]`), "has a fraction for an index"},
		{"an unknown kind of part", with(`["a"]`, `[{"b":"c"}]`), "unknown kind `b`"},
		{"a part without a kind", with(`["a"]`, `[{"":"c"}]`), "unknown kind ``"},
		{"a part that is an empty object", with(`["a"]`, `[{}]`), "has an empty object"},
		{"a part of two kinds", with(`["a"]`, `[{"attr":"b","key":"c"}]`), "more than one key"},
		{"a long path", with(`["a"]`, `[`+deep+`]`), "paths that are too long"},
		{"an unknown kind of value", with(`:1,`, `:{"x":"y"},`), "unknown kind `x`"},
		{"a list for a value", with(`:1,`, `:[1],`), "where an object was expected"},
		{"bytes that are not base64", with(`:1,`, `:{"bytes":"A"},`), "not base64"},
		{"an integer beyond 64 bits as a number", with(`:1,`, `:9223372036854775808,`), "more than 64 bits"},
		{"digits that are none", with(`:1,`, `:{"int":"1x"},`), "not decimal digits"},
		{"a float that is none", with(`:1,`, `:{"float":"1"},`), "neither a number"},
		{"a NaN that is a number", with(`:1,`, `:{"float":"nan:3ff0000000000000"},`), "neither a number"},
		{"a negative length", with(`:1,`, `:{"len":-1},`), "where a whole number"},
		{"a number too large for a place", with(`"seq":0`, `"seq":2147483648`), "has a count of more than"},
		{"a path twice", `{"version":1,"paths":{"a":[],"a":[]}}`, "has the tensor `a` twice"},
		{"something after", `{"version":1} 1`, "goes on"},
		{"deep nesting", `{"version":1,"leaves":` + strings.Repeat("[", 200), "where an object was expected"},
	}
	for _, tt := range tests {
		header := []byte(`{"__metadata__":{"convert.leaves":`)
		header = jsontext.AppendString(header, tt.text)
		header = append(header, `},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`...)
		data := file(string(header)+strings.Repeat(" ", -len(header)&7), 4)
		x, err := index(data, false)
		if err != nil || len(x.Warnings) != 1 || !strings.Contains(x.Warnings[0].Summary, tt.want) || len(x.Leaves) != 0 || len(x.Metadata) != 1 || len(x.Entries) != 1 {
			t.Errorf("%s: got %+v, %v; want it left alone with a warning of %q", tt.name, x, err, tt.want)
		}
		_, err = index(data, true)
		var fe *checkpoint.FormatError
		if !errors.As(err, &fe) || !strings.Contains(fe.Msg, tt.want) {
			t.Errorf("%s: strict gave %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

// Another tool has added a tensor and removed one since the leaves were
// written: what still fits is kept.
func TestLeavesOfAFileThatWasChanged(t *testing.T) {
	header := `{"__metadata__":{"convert.leaves":"{\"version\":1,\"leaves\":[{\"path\":[\"step\"],\"type\":\"int\",\"value\":1,\"seq\":4}],` +
		`\"paths\":{\"a\":[\"x\",\"y\"],\"gone\":[\"z\"]},\"order\":[0,1,2]}"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`
	x, err := index(file(header, 4), false)
	if err != nil || len(x.Leaves) != 1 || !x.Entries[0].Path.Equal(path("x", "y")) || x.Entries[0].Seq <= x.Leaves[0].Seq {
		t.Errorf("got %+v, %v; want the leaf, the path, and tensors after leaves", x, err)
	}
}

func TestRefusesMoreLeavesThanItReads(t *testing.T) {
	long := make(checkpoint.Path, maxDepth+1)
	for _, out := range []checkpoint.Output{
		{Leaves: make([]checkpoint.Leaf, maxLeaves+1)},
		{Leaves: []checkpoint.Leaf{{Path: long}}},
		{Tensors: []checkpoint.Tensor{{Name: "a", Path: long, DType: dtype.I8}}},
	} {
		out.Yield = func() {}
		_, err := Format{}.Blueprint(context.Background(), out)
		var d *diag.Diagnostic
		if !errors.As(err, &d) || d.Code != diag.Usage || !strings.Contains(d.Summary, "cannot hold the leaves") {
			t.Errorf("got %v, want a refusal", err)
		}
	}
}

func FuzzLeaves(f *testing.F) {
	out := tree()
	tensors, err := place(&out, func() error { return nil })
	if err != nil {
		f.Fatal(err)
	}
	text, err := marshalLeaves(&out, asRead(tensors), func() error { return nil })
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(`{"version":1,"leaves":[{"path":[1,{"raw":"AA=="}],"type":{"raw":"/w=="},"value":{"float":"nan:fff8000000000000"},"seq":7}],"order":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		read := func(text string) (leavesReader, error) {
			r := leavesReader{Reader: jsontext.NewReader([]byte(text)), yield: func() error { return nil }}
			err := r.top()
			return r, err
		}
		r, err := read(strings.ToValidUTF8(text, ""))
		if err != nil {
			var je *jsontext.Error
			if !errors.As(err, &je) || je.Off < 0 || je.Off > len(text) {
				t.Fatalf("the error %v has no place", err)
			}
			return
		}
		out := checkpoint.Output{Leaves: r.leaves}
		again, err := marshalLeaves(&out, nil, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		s, err := read(again)
		if err != nil || len(s.leaves) != len(r.leaves) || !hasNaN(r.leaves) && len(r.leaves) > 0 && !reflect.DeepEqual(s.leaves, r.leaves) {
			t.Fatalf("%s was read again as %+v, %v; want %+v", again, s.leaves, err, r.leaves)
		}
	})
}
