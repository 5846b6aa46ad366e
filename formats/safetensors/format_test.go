package safetensors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, Format{}, conformance.Options{
		DTypes: append(order[:], dtype.I4x2),
		Samples: []conformance.Sample{
			{Name: "every element type", Data: read(t, fixture(t, "edge", "all_dtypes.safetensors"))},
			{Name: "empty tensors", Data: read(t, fixture(t, "edge", "zero_between.safetensors"))},
		},
	})
}

// one is a header with one tensor of 4 bytes.
const one = `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`

func TestErrorsSayWhatWhereAndOfWhat(t *testing.T) {
	long := file(strings.Repeat(" ", 24)+one, 4)
	tests := []struct {
		name   string
		data   []byte
		off    int64
		tensor string
		want   string
	}{
		{"no bytes", nil, 0, "", "a file of 0 bytes is too short"},
		{"a header over the limit", file(one, 4)[1:], 0, "", "is over the limit of 100000000"},
		{"a header longer than the file", long[:40], 0, "", "a header of 78 bytes does not fit a file of 40"},
		{"bytes missing", long[:len(long)-1], int64(len(long) - 1), "", "the tensors have 4 bytes, 3 follow the header"},
		{"bytes too many", append(long, 0), int64(len(long) + 1), "", "the tensors have 4 bytes, 5 follow the header"},
		{"not UTF-8", file("{\"\xff\":1}", 0), 10, "", "header is not UTF-8"},
		{"not JSON", file(`{"a":{"dtype":"F32",}}`, 0), 28, "a", "has '}' where a key was expected"},
		{"an unknown type", file(strings.Replace(one, "F32", "F33", 1), 4), 22, "a", "unknown element type `F33`"},
		{"a missing field", file(`{"a":{"dtype":"F32","shape":[1]}}`, 4), 13, "a", "the entry of tensor `a` has no `data_offsets`"},
		{"a hole", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), 9, "a", "tensor `a` begins at 4, want 0: the bytes between are of no tensor"},
		{
			"an overlap", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), 62, "b",
			"tensor `b` begins at 4, want 8: it overlaps the tensor before it",
		},
		{"a size that is not the shape's", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), 9, "a", "tensor `a` spans 4 bytes, F32 of shape [2] has 8"},
		{"an overflow", file(`{"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,4]}}`, 4), 9, "a", "more bits than 64 bits can count"},
		{"half a byte", file(`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}`, 2), 9, "a", "does not fill whole bytes"},
		{"a name that must be escaped", file("{\"a\\u0000`\\u001b[31m\":1}", 0), 30, "a\x00`\x1b[31m", "tensor `a\\x00`\\x1b[31m` has a number"},
	}
	for _, tt := range tests {
		_, err := index(tt.data, false)
		var fe *checkpoint.FormatError
		if !errors.As(err, &fe) || fe.Off != tt.off || fe.Tensor != tt.tensor || !strings.Contains(fe.Msg, tt.want) {
			t.Errorf("%s: got %#v, want byte %d, tensor %q, %q", tt.name, err, tt.off, tt.tensor, tt.want)
		}
	}
}

func TestOdditiesAreWarningsOrErrors(t *testing.T) {
	tests := []struct {
		name, header string
		data         int
		off          int64
		tensor       string
		want         string
	}{
		{"leading whitespace", " \t" + one, 4, 8, "", "begins with whitespace"},
		{"a newline after", one + "\n", 4, 62, "", "padded with whitespace other than spaces"},
		{"null metadata", `{"__metadata__":null,` + one[1:], 4, 9, "", "`__metadata__` is null"},
		{"a metadata key twice", `{"__metadata__":{"k":"1","k":"2"},` + one[1:], 4, 33, "", "the metadata has the key `k` twice, the last value counts"},
		{"a tensor twice", `{"a":{"dtype":"I8","shape":[0],"data_offsets":[9,9]},` + one[1:], 4, 61, "a", "the header has the tensor `a` twice, the last entry counts"},
		{"another field", strings.Replace(one, "]}}", `],"x":[{}]}}`, 1), 4, 61, "a", "a field other than dtype, shape and data_offsets"},
		{"a list", `{"a":["F32",[1],[0,4]]}`, 4, 13, "a", "is a list, not an object"},
		{"a type that is an object", strings.Replace(one, `"F32"`, `{"F32":null}`, 1), 4, 22, "a", "the dtype of tensor `a` is an object"},
		{"an empty name", strings.Replace(one, `"a"`, `""`, 1), 4, 9, "", "a tensor has the empty name"},
		{"control characters in a name", strings.Replace(one, `"a"`, `"a\n"`, 1), 4, 9, "a\n", "the name of tensor `a\\n` has control characters"},
		{"data that is not aligned", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F16","shape":[1],"data_offsets":[1,3]},` +
			`"c":{"dtype":"F16","shape":[1],"data_offsets":[3,5]}}`, 5, 61, "b", "tensor `b` does not begin at a multiple of its element's size in the data (and 1 more like it)"},
		{"dims beyond counting", `{"a":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}}`, 0, 9, "a", "dims that are too large to count"},
		{"leaves of others", `{"__metadata__":{"convert.leaves":"{}"},` + one[1:], 4, 0, "", "at byte 0 it has no version"},
	}
	for i := range tests {
		tests[i].header += strings.Repeat(" ", -len(tests[i].header)&7)
	}
	tests = append(tests, tests[0])
	last := &tests[len(tests)-1]
	last.name, last.header, last.off, last.want = "a length that is odd", one, 0, "not a multiple of 8"
	for _, tt := range tests {
		data := file(tt.header, tt.data)
		x, err := index(data, false)
		if err != nil || len(x.Warnings) != 1 {
			t.Errorf("%s: got %v and the warnings %v, want one warning", tt.name, err, x)
			continue
		}
		w := x.Warnings[0]
		if w.Severity != diag.Warning || w.Subject.Offset != tt.off || w.Subject.Tensor != tt.tensor || !strings.Contains(w.Summary, tt.want) {
			t.Errorf("%s: got the warning %q at %d of %q, want %q at %d of %q", tt.name, w.Summary, w.Subject.Offset, w.Subject.Tensor, tt.want, tt.off, tt.tensor)
		}
		_, err = index(data, true)
		var fe *checkpoint.FormatError
		what, _, _ := strings.Cut(tt.want, " (and")
		if !errors.As(err, &fe) || fe.Off != tt.off || !strings.Contains(fe.Msg, what) {
			t.Errorf("%s: strict gave %v, want an error with %q at %d", tt.name, err, what, tt.off)
		}
	}
}

func TestLastOfTwoCounts(t *testing.T) {
	x, err := index(file(`{"__metadata__":{"k":"1","l":"","k":"2"},"a":{"dtype":"I8","shape":[9],"data_offsets":[7,9]},`+one[1:], 4), false)
	if err != nil || len(x.Entries) != 1 || x.Entries[0].DType != dtype.F32 {
		t.Errorf("of two tensors the first counted: %+v, %v", x, err)
	}
	if want := []checkpoint.KV{{Key: "k", Value: "2"}, {Key: "l"}}; !slices.Equal(x.Metadata, want) {
		t.Errorf("of two metadata values got %v, want %v", x.Metadata, want)
	}
}

func TestEntriesComeInTheOrderOfTheirData(t *testing.T) {
	x, err := index(file(`{"c":{"dtype":"I8","shape":[1],"data_offsets":[1,2]},"b":{"dtype":"I8","shape":[0],"data_offsets":[1,1]},`+
		`"z":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[0,2],"data_offsets":[1,1]}}`, 2), false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, e := range x.Entries {
		if got = append(got, e.Name); e.Seq != i {
			t.Errorf("entry %d has Seq %d", i, e.Seq)
		}
	}
	if want := []string{"z", "a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProbe(t *testing.T) {
	tests := []struct {
		name string
		data []byte
		size int64 // 0: that of data
		want checkpoint.Match
	}{
		{"a file", file(one, 4), 0, checkpoint.Yes},
		{"an empty checkpoint", file("{}", 0), 0, checkpoint.Yes},
		{"whitespace first", file(" \n { \"a", 0), 0, checkpoint.Yes},
		{"a file whose data is cut", file(one, 1), 0, checkpoint.Yes},
		{"a file whose header is cut", file(one, 4)[:30], 0, checkpoint.Maybe},
		{"whitespace as far as one sees", file(strings.Repeat(" ", 5000), 0)[:4096], 6000, checkpoint.Maybe},
		{"nothing but whitespace", file("    ", 0), 0, checkpoint.No},
		{"another JSON text", file(`["a"]`, 0), 0, checkpoint.No},
		{"a brace by chance", file("{\x00\x01", 0), 0, checkpoint.No},
		{"JSON without a length", []byte(`{"weight_map":{"a":"b"}}`), 0, checkpoint.No},
		{"a length over the limit", append(binary.LittleEndian.AppendUint64(nil, maxHeader+1), one...), 1 << 40, checkpoint.No},
		{"a length and no more", make([]byte, 8), 0, checkpoint.No},
	}
	for _, tt := range tests {
		s := checkpoint.Sample{Head: tt.data, Tail: tt.data, Size: max(tt.size, int64(len(tt.data)))}
		if got := (Format{}).Probe(s); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// write lays out and assembles zeros.
func write(t testing.TB, out checkpoint.Output) ([]byte, *checkpoint.Blueprint) {
	t.Helper()
	if out.Yield == nil {
		out.Yield = func() {}
	}
	bp, err := Format{}.Blueprint(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	if err := bp.Validate(out); err != nil {
		t.Fatal(err)
	}
	data, err := conformance.Assemble(bp, func(i int) []byte {
		n, _ := out.Tensors[i].DType.Bytes(out.Tensors[i].Shape)
		return make([]byte, n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return data, bp
}

func tensor(name string, t dtype.Type, shape ...int64) checkpoint.Tensor {
	return checkpoint.Tensor{Name: name, DType: t, Shape: shape}
}

func TestWritesTheMostAlignedTypeFirst(t *testing.T) {
	data, _ := write(t, checkpoint.Output{Tensors: []checkpoint.Tensor{
		tensor("b", dtype.Bool, 3), tensor("h", dtype.F16, 2), tensor("é\"\n\x1f/", dtype.F16, 1), tensor("z", dtype.I64), tensor("e", dtype.F32, 0, 5), tensor("y", dtype.I64, 1),
	}})
	want := `{"__metadata__":{"format":"pt"},"y":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"z":{"dtype":"I64","shape":[],"data_offsets":[8,16]},` +
		`"e":{"dtype":"F32","shape":[0,5],"data_offsets":[16,16]},"h":{"dtype":"F16","shape":[2],"data_offsets":[16,20]},` +
		`"é\"\n\u001f/":{"dtype":"F16","shape":[1],"data_offsets":[20,22]},"b":{"dtype":"BOOL","shape":[3],"data_offsets":[22,25]}}`
	want += strings.Repeat(" ", -len(want)&7)
	if got := string(data[8 : len(data)-25]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWritesMetadata(t *testing.T) {
	kv := func(list ...string) (m []checkpoint.KV) {
		for i := 0; i < len(list); i += 2 {
			m = append(m, checkpoint.KV{Key: list[i], Value: list[i+1]})
		}
		return m
	}
	tests := []struct {
		name     string
		from     string
		metadata []checkpoint.KV
		want     []checkpoint.KV
		dropped  int
	}{
		{"from MindSpore", "mindspore", nil, kv("format", "ms"), 0},
		{"from torch", "torch", nil, kv("format", "pt"), 0},
		{"from a file that MindSpore wrote", formatName, kv("format", "ms"), kv("format", "ms"), 0},
		{"from another framework", formatName, kv("format", "tf"), kv("format", "pt"), 0},
		{"the source's entries, by key", formatName, kv("z", "1", "format", "pt", "a", "2"), kv("a", "2", "format", "pt", "z", "1"), 0},
		{"what was true of the source only", formatName, kv("crc_num", "123", "remove_redundancy", "True", "k", "v"), kv("format", "pt", "k", "v"), 2},
		{"a mark of 4 bits on another tensor", formatName, kv("eight", "Int4", "gone", "Int4"), kv("format", "pt", "gone", "Int4"), 1},
		{"what is not UTF-8", formatName, kv("k", "\xff"), kv("format", "pt"), 1},
		{"leaves of others", formatName, kv(leavesKey, "x"), kv("format", "pt"), 1},
	}
	for _, tt := range tests {
		data, bp := write(t, checkpoint.Output{From: tt.from, Metadata: tt.metadata, Tensors: []checkpoint.Tensor{tensor("eight", dtype.I8, 8)}})
		x, err := index(data, true)
		if err != nil || !slices.Equal(x.Metadata, tt.want) || len(bp.Dropped) != tt.dropped {
			t.Errorf("%s: got %v, %d dropped, %v; want %v and %d", tt.name, x.Metadata, len(bp.Dropped), err, tt.want, tt.dropped)
		}
	}
}

func TestMarksMindSporesInt4(t *testing.T) {
	data, _ := write(t, checkpoint.Output{From: "mindspore", Tensors: []checkpoint.Tensor{tensor("w", dtype.I4x2, 4), tensor("v", dtype.I8, 4)}})
	want := `{"__metadata__":{"format":"ms","w":"Int4"},"v":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"w":{"dtype":"I8","shape":[4],"data_offsets":[4,8]}}`
	if got := string(data[8 : 8+len(want)]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	x, err := index(data, true)
	if err != nil || x.Find("w").DType != dtype.I4x2 || x.Find("v").DType != dtype.I8 || len(x.Metadata) != 1 {
		t.Errorf("read back as %+v, %v", x, err)
	}
	x, err = index(file(`{"__metadata__":{"a":"Int4","b":"Int4"},`+one[1:], 4), false)
	if err != nil || x.Entries[0].DType != dtype.F32 || len(x.Metadata) != 2 {
		t.Errorf("marks on what is no I8 tensor: read %+v, %v", x, err)
	}
}

func TestKeepsDimsBeyondCounting(t *testing.T) {
	const header = `{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[4611686018427387904,2,0,18446744073709551615],"data_offsets":[0,0]}}`
	x, err := index(file(header, 0), false)
	if err != nil || !slices.Equal(x.Entries[0].Shape, []int64{1 << 62, 1, 0, 1<<63 - 1}) {
		t.Fatalf("read %v, %v", x, err)
	}
	data, _ := write(t, outputOf(x))
	if got := string(data[8:]); strings.TrimRight(got, " ") != header {
		t.Errorf("written again as %s, want %s", got, header)
	}
	out := outputOf(x)
	out.Tensors[0].Shape = []int64{2, 1, 0, 1} // as after resharding: the note no longer fits
	if data, _ := write(t, out); !strings.Contains(string(data), `"shape":[2,1,0,1]`) {
		t.Errorf("another shape is written as %s", data[8:])
	}
}

func TestRefusesToWrite(t *testing.T) {
	many := make([]checkpoint.Tensor, 3)
	for i := range many {
		many[i] = tensor(fmt.Sprintf("%d%s", i, strings.Repeat("x", maxHeader/3)), dtype.I8)
	}
	var huge []checkpoint.Tensor
	for i := range 20 {
		huge = append(huge, tensor(fmt.Sprintf("t%02d", i), dtype.I8, 1<<59))
	}
	tests := []struct {
		name    string
		tensors []checkpoint.Tensor
		tensor  string
		want    string
	}{
		{"the metadata's name", []checkpoint.Tensor{tensor("__metadata__", dtype.F32)}, "__metadata__", "cannot hold a tensor called `__metadata__`"},
		{"a name that is not UTF-8", []checkpoint.Tensor{tensor("a\xff", dtype.F32)}, "a\xff", "its name is not UTF-8"},
		{"a type of another format", []checkpoint.Tensor{tensor("a", dtype.QI8, 1)}, "a", "it has no element type qi8"},
		{"a pair of doubles", []checkpoint.Tensor{tensor("a", dtype.C128, 1)}, "a", "it has no element type c128"},
		{"half a byte", []checkpoint.Tensor{tensor("a", dtype.F4E2M1, 3)}, "a", "no whole number of bytes, or too many"},
		{"a shape that cannot be", []checkpoint.Tensor{tensor("a", dtype.F32, -1)}, "a", "no whole number of bytes, or too many"},
		{"two of a name", []checkpoint.Tensor{tensor("a", dtype.F32), tensor("b", dtype.F32), tensor("a", dtype.I8)}, "a", "two tensors are called `a`"},
		{"a 4-bit tensor that would hide the framework", []checkpoint.Tensor{tensor("format", dtype.I4x2, 1)}, "format", "the metadata needs that name"},
		{"a header over the limit", many, "", "is over the limit of 100000000 bytes"},
		{"more bytes than a file can have", huge, "t15", "no whole number of bytes, or too many"},
	}
	for _, tt := range tests {
		_, err := Format{}.Blueprint(context.Background(), checkpoint.Output{Tensors: tt.tensors, Yield: func() {}})
		var d *diag.Diagnostic
		if !errors.As(err, &d) || d.Code != diag.Usage || d.Subject.Tensor != tt.tensor || !strings.Contains(d.Summary, tt.want) {
			t.Errorf("%s: got %.200v, want %q of tensor %q", tt.name, err, tt.want, tt.tensor)
		}
	}
}

func TestErrorsOfWritingSayWhatToDo(t *testing.T) {
	for _, out := range []checkpoint.Output{
		{Tensors: []checkpoint.Tensor{tensor("__metadata__", dtype.F32)}},
		{Tensors: []checkpoint.Tensor{tensor("a", dtype.QI8)}},
		{Tensors: []checkpoint.Tensor{tensor("\xff", dtype.F32)}},
	} {
		out.Yield = func() {}
		_, err := Format{}.Blueprint(context.Background(), out)
		var d *diag.Diagnostic
		if !errors.As(err, &d) || !strings.Contains(d.Hint, "[[map]]") {
			t.Errorf("%v has the hint %q", err, d.Hint)
		}
	}
}

func TestIndexStopsWhenCancelledOnTheWay(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var s strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&s, `,"t%d":{"dtype":"F32","shape":[0,2],"data_offsets":[0,0]}`, i)
	}
	data := file("{"+s.String()[1:]+"}", 0)
	calls := 0
	_, err := Format{}.Index(ctx, checkpoint.Input{File: conformance.Bytes("", data), Yield: func() {
		if calls++; calls == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || calls != 3 {
		t.Errorf("got %v after %d yields, want %v after 3", err, calls, context.Canceled)
	}
}

// Whatever bytes come, errors have a place, and what is read is written and
// read again as the same.
func FuzzIndex(f *testing.F) {
	f.Add(file(one, 4))
	f.Add(file(`{"__metadata__":{"format":"ms","b":"Int4","crc_num":"1"},"a":["F32",[1],[0,4]],"b":{"dtype":{"I8":null},"shape":[0,18446744073709551615],"x":[{}],"data_offsets":[4,4]}}`, 4))
	f.Add(file(`{"__metadata__":{"convert.leaves":"{\"version\":1,\"leaves\":[{\"path\":[\"a\",0,{\"attr\":\"m\"}],\"type\":\"int\",\"value\":1,\"seq\":1}],\"paths\":{\"a\":[\"x\",\"y\"]},\"order\":[0]}"},`+one[1:], 4))
	f.Add(file(`{"a\u00e9\ud83d\ude00":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}`, 2))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := index(data, false)
		if err != nil {
			var fe *checkpoint.FormatError
			if !errors.As(err, &fe) || fe.Off < 0 || fe.Off > int64(len(data)) || fe.Msg == "" {
				t.Fatalf("the error %v has no place in a file of %d bytes", err, len(data))
			}
			return
		}
		if err := x.Validate([]int64{int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		out := outputOf(x)
		bp, err := Format{}.Blueprint(context.Background(), out)
		if err != nil {
			var d *diag.Diagnostic
			if !errors.As(err, &d) || d.Code != diag.Usage {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			return
		}
		payload := func(i int) []byte {
			b, err := conformance.ReadTensor(context.Background(), conformance.Bytes("", data), &x.Entries[i])
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		again, err := conformance.Assemble(bp, payload)
		if err != nil {
			t.Fatal(err)
		}
		y, err := index(again, false)
		if err != nil {
			t.Fatalf("what was written is refused: %v", err)
		}
		same(t, x, data, y, again)
	})
}

// same compares two indexes, whose tensors may lie in another order.
func same(t *testing.T, x *checkpoint.Index, a []byte, y *checkpoint.Index, b []byte) {
	if len(x.Entries) != len(y.Entries) || !reflect.DeepEqual(x.Leaves, y.Leaves) && len(x.Leaves)+len(y.Leaves) > 0 && !hasNaN(x.Leaves) {
		t.Fatalf("read again as %d tensors and %v, want %d and %v", len(y.Entries), y.Leaves, len(x.Entries), x.Leaves)
	}
	for i := range x.Entries {
		e := &x.Entries[i]
		w := y.Find(e.Name)
		if w == nil || w.DType != e.DType || !slices.Equal(w.Shape, e.Shape) || !w.PathOrName().Equal(e.PathOrName()) {
			t.Fatalf("tensor %q was read again as %+v, want %+v", e.Name, w, e)
		}
		p, err1 := conformance.ReadTensor(t.Context(), conformance.Bytes("", a), e)
		q, err2 := conformance.ReadTensor(t.Context(), conformance.Bytes("", b), w)
		if err1 != nil || err2 != nil || string(p) != string(q) {
			t.Fatalf("tensor %q has other bytes: %v, %v", e.Name, err1, err2)
		}
	}
}

func hasNaN(leaves []checkpoint.Leaf) bool {
	return slices.ContainsFunc(leaves, func(l checkpoint.Leaf) bool { return l.Value.Float != l.Value.Float })
}

// header85k is the header of a mixture of experts with 85 thousand tensors.
func header85k() []byte {
	b := []byte("{")
	for i := range 85_000 {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `"model.layers.%d.mlp.experts.%d.down_proj.weight":{"dtype":"BF16","shape":[16,8],"data_offsets":[%d,%d]}`,
			i/256, i%256, i*256, i*256+256)
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	return b
}

// sparse is a file of a header and zeros that take no memory.
type sparse struct {
	*conformance.Source
	size int64
}

func (s sparse) Size() int64 { return s.size }

func BenchmarkIndex85k(b *testing.B) {
	header := header85k()
	src := sparse{conformance.Bytes("", file(string(header), 0)), int64(lenSize + len(header) + 85_000*256)}
	b.SetBytes(int64(len(header)))
	b.ReportAllocs()
	for b.Loop() {
		x, err := Format{}.Index(context.Background(), checkpoint.Input{File: src, Yield: func() {}})
		if err != nil || len(x.Entries) != 85_000 {
			b.Fatal(err)
		}
	}
}

func BenchmarkBlueprint85k(b *testing.B) {
	header := header85k()
	src := sparse{conformance.Bytes("", file(string(header), 0)), int64(lenSize + len(header) + 85_000*256)}
	x, err := Format{}.Index(context.Background(), checkpoint.Input{File: src, Yield: func() {}})
	if err != nil {
		b.Fatal(err)
	}
	out := outputOf(x)
	b.SetBytes(int64(len(header)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (Format{}).Blueprint(context.Background(), out); err != nil {
			b.Fatal(err)
		}
	}
}
