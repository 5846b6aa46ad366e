package torch

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

// written lays out, writes and lists again.
func written(t *testing.T, out checkpoint.Output) (listing, dropped string) {
	t.Helper()
	out.Yield = func() {}
	bp, err := Format{}.Blueprint(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	if err := bp.Validate(out); err != nil {
		t.Fatal(err)
	}
	b := render(bp, func(i int) []byte {
		n, _ := out.Tensors[i].DType.Bytes(out.Tensors[i].Shape)
		return make([]byte, n)
	})
	x, err := indexOf(b, true)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, d := range bp.Dropped {
		lines = append(lines, fmt.Sprintf("%s %s: %s", d.What, d.Path.Label(), d.Reason))
	}
	return list(x), strings.Join(lines, "\n")
}

func index(i int64) checkpoint.Part { return checkpoint.Part{Kind: checkpoint.IndexPart, Index: i} }

func key(s string) checkpoint.Part { return checkpoint.Part{Kind: checkpoint.KeyPart, Text: s} }

func attr(s string) checkpoint.Part { return checkpoint.Part{Kind: checkpoint.AttrPart, Text: s} }

func sized(typ string, path ...checkpoint.Part) checkpoint.Leaf {
	return checkpoint.Leaf{Path: path, Type: typ, Value: checkpoint.Value{Kind: checkpoint.Sized}}
}

func TestTreesAreBuiltAgain(t *testing.T) {
	tensor := func(path ...checkpoint.Part) checkpoint.Tensor {
		p := checkpoint.Path(path)
		return checkpoint.Tensor{Name: p.Label(), Path: p, DType: dtype.U8, Shape: []int64{1}}
	}
	number := func(v int64, path ...checkpoint.Part) checkpoint.Leaf {
		return checkpoint.Leaf{Path: path, Type: "int", Value: checkpoint.Value{Kind: checkpoint.Integer, Int: v}}
	}
	opaque := func(class string, path ...checkpoint.Part) checkpoint.Leaf {
		return checkpoint.Leaf{Path: path, Type: "object", Value: checkpoint.Value{Kind: checkpoint.Opaque, Text: class}}
	}
	for _, c := range []struct {
		name          string
		out           checkpoint.Output
		want, dropped string
	}{
		{
			"paths without containers are dicts in an OrderedDict",
			checkpoint.Output{Tensors: []checkpoint.Tensor{tensor(key("a"), index(3), key("b"))}},
			": OrderedDict 1\n.a: dict 1\n.a[3]: dict 1\n.a[3].b: u8 [1]", "",
		},
		{
			"the container says whether an index is a key",
			checkpoint.Output{
				Tensors: []checkpoint.Tensor{tensor(key("list"), index(0)), tensor(key("dict"), index(0))},
				Leaves:  []checkpoint.Leaf{sized("dict"), sized("list", key("list")), sized("dict", key("dict"))},
			},
			": dict 2\n.list: list 1\n.list[0]: u8 [1]\n.dict: dict 1\n.dict[0]: u8 [1]", "",
		},
		{
			"a list keeps the places of what is left",
			checkpoint.Output{Tensors: []checkpoint.Tensor{tensor(key("list"), index(2))}, Leaves: []checkpoint.Leaf{sized("list", key("list"))}},
			": OrderedDict 1\n.list: list 3\n.list[0]: NoneType\n.list[1]: NoneType\n.list[2]: u8 [1]", "",
		},
		{
			"an index beyond measure is a key",
			checkpoint.Output{Tensors: []checkpoint.Tensor{tensor(key("list"), index(1<<40))}, Leaves: []checkpoint.Leaf{sized("list", key("list"))}},
			": OrderedDict 1\n.list: dict 1\n.list[1099511627776]: u8 [1]", "",
		},
		{
			"attributes of an OrderedDict",
			checkpoint.Output{Leaves: []checkpoint.Leaf{sized("collections.OrderedDict"), sized("dict", attr("_metadata")), number(2, attr("_metadata"), key(""))}},
			": OrderedDict 0\n<2 _metadata>: dict 1\n<2 _metadata>.: int 2", "",
		},
		{
			"objects are dropped, what they hold is kept",
			checkpoint.Output{
				Leaves:  []checkpoint.Leaf{opaque("my.C", key("a")), opaque("my.D", key("b")), number(1, key("b"), attr("x"))},
				Tensors: []checkpoint.Tensor{tensor(key("b"), attr("w"))},
			},
			": OrderedDict 1\n.b: dict 2\n.b.w: u8 [1]\n.b.x: int 1",
			"leaf b: an object of `my.D` is written as a dict of what it holds\nleaf a: an object of `my.C` cannot be written",
		},
		{
			"an object in a list leaves None",
			checkpoint.Output{Leaves: []checkpoint.Leaf{sized("tuple", key("t")), number(1, key("t"), index(0)), opaque("my.C", key("t"), index(1))}},
			": OrderedDict 1\n.t: tuple 2\n.t[0]: int 1\n.t[1]: NoneType", "leaf t.1: an object of `my.C` cannot be written",
		},
		{
			"a set of objects is a list",
			checkpoint.Output{Leaves: []checkpoint.Leaf{sized("set", key("s")), sized("list", key("s"), index(0))}},
			": OrderedDict 1\n.s: list 1\n.s[0]: list 0", "leaf s: a `set` of objects is written as a list",
		},
		{
			"a defaultdict of a class is a dict",
			checkpoint.Output{Leaves: []checkpoint.Leaf{{Path: checkpoint.Keys("d"), Type: "defaultdict", Value: checkpoint.Value{Kind: checkpoint.Sized, Text: "my.C"}}}},
			": OrderedDict 1\n.d: dict 0", "leaf d: a defaultdict of `my.C` is written as a dict",
		},
		{
			"a key that cannot be written",
			checkpoint.Output{Leaves: []checkpoint.Leaf{number(1, checkpoint.Part{Kind: checkpoint.OtherPart, Text: "<my.C>"})}},
			": OrderedDict 0", "leaf <my.C>: its key cannot be written",
		},
		{"an object alone", checkpoint.Output{Leaves: []checkpoint.Leaf{opaque("my.C")}}, ": NoneType", "leaf : an object of `my.C` cannot be written"},
		{
			"a value that does not fit its type",
			checkpoint.Output{Leaves: []checkpoint.Leaf{{Path: checkpoint.Keys("d"), Type: "device", Value: checkpoint.Value{Kind: checkpoint.Text, Text: "cuda:x"}}}},
			": OrderedDict 0", "leaf d: a `device` that cannot be written",
		},
		{"metadata", checkpoint.Output{Metadata: []checkpoint.KV{{Key: "format", Value: "pt"}}}, ": OrderedDict 0", "metadata format: a torch file has no metadata"},
		{
			"a class of tensors",
			checkpoint.Output{Tensors: []checkpoint.Tensor{{Name: "a", DType: dtype.U8, Shape: []int64{1}, Note: map[string]string{"class": "my.Sub"}}}},
			": OrderedDict 1\n.a: u8 [1]", "leaf a: the class `my.Sub` of a tensor is not written",
		},
	} {
		got, dropped := written(t, c.out)
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
		if dropped != c.dropped {
			t.Errorf("%s: dropped\n%s\nwant\n%s", c.name, dropped, c.dropped)
		}
	}
}

func TestPlacesDecideTheOrder(t *testing.T) {
	out := checkpoint.Output{
		Tensors: []checkpoint.Tensor{
			{Name: "b", DType: dtype.U8, Shape: []int64{1}, Seq: 4},
			{Name: "a", DType: dtype.U8, Shape: []int64{1}, Seq: 2},
		},
		Leaves: []checkpoint.Leaf{{Path: checkpoint.Keys("step"), Type: "int", Value: checkpoint.Value{Kind: checkpoint.Integer}, Seq: 3}},
	}
	if got, _ := written(t, out); got != ": OrderedDict 3\n.a: u8 [1]\n.step: int 0\n.b: u8 [1]" {
		t.Errorf("the order is\n%s", got)
	}
}

func TestLiteralsOfPython(t *testing.T) {
	for _, s := range []string{
		"None", "True", "False", "-7", "123456789012345678901234567890", "1.5", "-0.0", "1e-07", "1e+16", "nan", "inf", "-inf",
		"''", `'a\'b\\c\nd'`, "'中'", `b''`, `b'\x00\xffa\'\\'`, "()", "(1,)", "(1, 'a', (None, b'x'), 2.5)",
	} {
		w := pickle.NewWriter()
		if !writeLiteral(w, s) {
			t.Errorf("%s is not written", s)
			continue
		}
		r, err := pickle.Parse(w.Stop(), pickle.Limits{})
		if err != nil || repr(r.Root) != s {
			t.Errorf("%s is read as %s, %v", s, repr(r.Root), err)
		}
	}
	for _, s := range []string{"", "abc", "(1", "(1 2)", "'a", `'a\`, `b'\x0`, "1,", "[1]", "1x", strings.Repeat("(", 100), "(,)"} {
		if writeLiteral(pickle.NewWriter(), s) {
			t.Errorf("%q is taken for a literal", s)
		}
	}
}

func TestFloatsInPythonsNotation(t *testing.T) {
	for _, c := range []struct {
		f    float64
		want string
	}{
		{0, "0.0"},
		{1, "1.0"},
		{0.1, "0.1"},
		{1e15, "1000000000000000.0"},
		{1e16, "1e+16"},
		{1e22, "1e+22"},
		{0.0001, "0.0001"},
		{0.00001, "1e-05"},
		{5e-324, "5e-324"},
		{123456.789, "123456.789"},
		{math.Inf(-1), "-inf"},
		{math.NaN(), "nan"},
	} {
		if got := pyFloat(c.f); got != c.want {
			t.Errorf("pyFloat(%g) = %s, want %s", c.f, got, c.want)
		}
	}
}

// The opcodes that the weights_only unpickler of torch 1.13 knows.
const weightsOnly = "\x80.c\x81Rba\x00esu(t\x85\x86\x87N\x88\x89)]}\x8fJKMXQhjqr\x8a"

func TestStateDictsUseOnlyTheOpcodesOfWeightsOnly(t *testing.T) {
	out := checkpoint.Output{Yield: func() {}}
	for i := range 300 {
		out.Tensors = append(out.Tensors, checkpoint.Tensor{Name: fmt.Sprint("layer.", i), DType: dtype.BF16, Shape: []int64{int64(i), 70000}})
	}
	bp, err := Format{}.Blueprint(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	lit := bp.Segments[0].Literal
	p := lit[bytes.Index(lit, []byte("\x80\x02")):]
	for i := 0; ; {
		op := p[i]
		if !strings.Contains(weightsOnly, string([]byte{op})) {
			t.Fatalf("opcode %q at %d is not known to weights_only", op, i)
		}
		i++
		switch op {
		case '.':
			return
		case 'K', 'h', 'q', 0x80:
			i++
		case 'M':
			i += 2
		case 'J', 'j', 'r':
			i += 4
		case 0x8a:
			i += 1 + int(p[i])
		case 'X':
			i += 4 + int(p[i]) + int(p[i+1])<<8
		case 'c':
			i += bytes.IndexByte(p[i:], '\n') + 1
			i += bytes.IndexByte(p[i:], '\n') + 1
		}
	}
}

func BenchmarkIndexAndBlueprint(b *testing.B) {
	out := checkpoint.Output{Yield: func() {}}
	for i := range 20000 {
		out.Tensors = append(out.Tensors, checkpoint.Tensor{Name: fmt.Sprintf("model.layers.%d.mlp.weight", i), DType: dtype.U8, Shape: []int64{4, 4}})
	}
	bp, err := Format{}.Blueprint(context.Background(), out)
	if err != nil {
		b.Fatal(err)
	}
	file := render(bp, func(int) []byte { return make([]byte, 16) })
	b.Run("index", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := indexOf(file, true); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("blueprint", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := (Format{}).Blueprint(context.Background(), out); err != nil {
				b.Fatal(err)
			}
		}
	})
}
