package mindspore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
)

func utf32(s string) []byte {
	var b []byte
	for _, r := range s {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return b
}

func TestIndexTensors(t *testing.T) {
	x := mustIndex(t, cat(
		rec("a", "Float32", []int64{2, 3}, seq(24)),
		rec("scalar", "Int64", nil, seq(8)),
		rec("old scalar", "Int32", []int64{0}, seq(4)),
		rec("one", "Float16", []int64{1}, seq(2)),
		rec("empty", "Float32", []int64{0}, nil),
		rec("empty too", "Float32", []int64{0, 7}, nil),
		rec("u", "Uint16", []int64{2}, seq(4)),
		rec("i4", "Int4", []int64{3}, seq(3)),
		rec("c", "Complex128", []int64{1}, seq(16)),
		rec("hif8", "HiFloat8", []int64{2}, seq(2)),
		rec("name", "str", []int64{0}, utf32("höhe 🜁")),
		rec("none", "str", []int64{0}, make([]byte, 4)),
	))
	want := `0 a f32 [2 3] map[]
1 scalar i64 [] map[]
2 old scalar i32 [] map[dims:0]
3 one f16 [1] map[]
4 empty f32 [0] map[]
5 empty too f32 [0 7] map[]
6 u u16 [2] map[]
7 i4 i4x2 [3] map[]
8 c c128 [1] map[]
9 hif8 hif8 [2] map[]
10 name str "höhe 🜁"
11 none str ""
`
	if got := describe(x); got != want {
		t.Errorf("Index has\n%swant\n%s", got, want)
	}
	if len(x.Warnings) > 0 {
		t.Errorf("Index warns %v, want nothing", x.Warnings)
	}
}

func TestIndexJoinsSlices(t *testing.T) {
	b := cat(
		rec("a", "Float32", []int64{4}, seq(6)),
		rec("a", "Float32", []int64{4}, seq(10)[:6]),
		rec("a", "Float32", []int64{4}, seq(4)),
		rec("s", "str", []int64{0}, utf32("ab")),
		rec("s", "str", []int64{0}, utf32("c")),
	)
	x := mustIndex(t, b)
	if got, want := content(t, b, &x.Entries[0]), cat(seq(6), seq(6), seq(4)); len(x.Entries[0].Data.Extents) != 3 || !bytes.Equal(got, want) {
		t.Errorf("slices give %v in %d extents, want %v in 3", got, len(x.Entries[0].Data.Extents), want)
	}
	if got := x.Leaves[0].Value.Text; got != "abc" {
		t.Errorf("slices of a string give %q, want abc", got)
	}
}

func TestIndexTakesTheLastOfANameAtItsFirstPlace(t *testing.T) {
	b := cat(
		rec("a", "Int8", []int64{2}, []byte{1, 2}),
		rec("b", "Int8", []int64{1}, []byte{9}),
		rec("a", "Int8", []int64{3}, []byte{3, 4, 5}),
		rec("b", "str", []int64{0}, utf32("x")),
	)
	x := mustIndex(t, b)
	if got, want := describe(x), "0 a i8 [3] map[]\n1 b str \"x\"\n"; got != want {
		t.Errorf("Index has\n%swant\n%s", got, want)
	}
	if got := content(t, b, &x.Entries[0]); !bytes.Equal(got, []byte{3, 4, 5}) {
		t.Errorf("content = %v, want that of the later record", got)
	}
	if len(x.Warnings) != 2 || !strings.Contains(x.Warnings[0].Summary, "`a` is stored twice") {
		t.Errorf("warnings = %v, want one for a and one for b", x.Warnings)
	}
	if _, err := indexStrict(b); formatError(err) == nil || formatError(err).Tensor != "a" {
		t.Errorf("strict: Index = %v, want an error of `a`", err)
	}
}

func TestIndexAcceptsOtherWritersOfProtobuf(t *testing.T) {
	packed := appendBytes(nil, 1, []byte{2, 0x81, 0x00}) // 1 with a needless byte
	tensor := cat(appendBytes(nil, 3, seq(2)), appendBytes(nil, 2, []byte("Int8")), packed)
	b := appendBytes(nil, 1, cat(appendBytes(nil, 2, tensor), appendBytes(nil, 1, []byte("w"))))
	x := mustIndex(t, b)
	if got, want := describe(x), "0 w i8 [2 1] map[]\n"; got != want {
		t.Errorf("Index has %q, want %q", got, want)
	}
	if got := content(t, b, &x.Entries[0]); !bytes.Equal(got, seq(2)) {
		t.Errorf("content = %v, want %v", got, seq(2))
	}
}

func TestIndexPassesOverUnknownFields(t *testing.T) {
	fixed := append([]byte{4<<3 | wireFixed32}, 1, 2, 3, 4)
	tensor := cat(appendNumber(nil, 9, 7), appendBytes(nil, 2, []byte("Int8")), appendBytes(nil, 3, []byte{1}))
	b := cat(
		appendBytes(nil, 1, cat(appendBytes(nil, 1, []byte("w")), appendBytes(nil, 2, tensor), fixed)),
		appendBytes(nil, 2, []byte("top level")),
	)
	x := mustIndex(t, b)
	if len(x.Entries) != 1 || len(x.Warnings) != 1 || !strings.Contains(x.Warnings[0].Summary, "3 fields") {
		t.Errorf("%d entries, warnings %v; want 1 and a warning of 3 fields", len(x.Entries), x.Warnings)
	}
	if _, err := indexStrict(b); formatError(err) == nil {
		t.Errorf("strict: Index = %v, want a FormatError", err)
	}
}

func TestIndexBFloat16InFourBytes(t *testing.T) {
	b := cat(
		rec("a", "BFloat16", []int64{2, 2}, seq(16)),
		rec("s", "BFloat16", []int64{0}, seq(4)),
		rec("t", "BFloat16", nil, seq(4)),
		rec("new", "BFloat16", []int64{2}, seq(4)),
	)
	x := mustIndex(t, b)
	for i, want := range [][]byte{{2, 3, 6, 7, 10, 11, 14, 15}, {2, 3}, {2, 3}, seq(4)} {
		if e := &x.Entries[i]; e.DType != dtype.BF16 || !bytes.Equal(content(t, b, e), want) {
			t.Errorf("%s: %v %v, want the upper halves %v", e.Name, e.DType, content(t, b, e), want)
		}
	}
	if len(x.Warnings) != 1 || !strings.Contains(x.Warnings[0].Summary, "3 tensors are BFloat16 kept in 4 bytes") {
		t.Errorf("warnings = %v, want one of 3 tensors", x.Warnings)
	}
}

func TestIndexTrailer(t *testing.T) {
	b := withTrailer(rec("a", "Int8", []int64{2}, seq(2)))
	body := int64(len(b)) - 17
	x := mustIndex(t, b)
	want := checkpoint.Check{
		Algorithm: checkpoint.CRC32, Range: checkpoint.Extent{Len: body}, Name: "crc_num",
		Want: uint64(binary.BigEndian.Uint32(b[len(b)-4:])),
	}
	if len(x.Checks) != 1 || x.Checks[0] != want {
		t.Errorf("Checks = %+v, want %+v", x.Checks, want)
	}
	for cut := 1; cut < 17; cut++ {
		_, err := index(b[:len(b)-cut])
		fe := formatError(err)
		if fe == nil || fe.Off != body || !strings.Contains(fe.Msg, "of 17 bytes are missing") {
			t.Errorf("without %d bytes of the trailer: Index = %v, want an error at %d", cut, err, body)
		}
	}
	b[len(b)-9] = 1 // a sum over 32 bits can be no CRC-32
	if x := mustIndex(t, b); x.Checks[0].Want <= 1<<32-1 {
		t.Errorf("Want = %d, want a number that no CRC-32 has", x.Checks[0].Want)
	}
	inside := rec("a", "Int8", []int64{17}, []byte("crc_num\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	if x := mustIndex(t, inside); len(x.Checks) != 0 {
		t.Errorf("content that looks like a trailer is taken for one")
	}
}

func TestIndexErrorsNamePlaceAndTensor(t *testing.T) {
	first := rec("first", "Int8", []int64{2}, seq(2))
	at := int64(len(first))
	value := func(fields ...[]byte) []byte { return appendBytes(nil, 1, cat(fields...)) }
	named := appendBytes(nil, 1, []byte("w"))
	tensor := func(fields ...[]byte) []byte { return appendBytes(nil, 2, cat(fields...)) }
	int8s, one := appendBytes(nil, 2, []byte("Int8")), appendBytes(nil, 3, []byte{1})
	long := rec("w", "Float32", []int64{100}, seq(400))
	for _, c := range []struct {
		name, tensor, want string
		b                  []byte
	}{
		{"cut in the content", "w", "the file ends inside the record of `w`, 100 bytes are missing", long[:len(long)-100]},
		{"cut in the name", "", "the file ends inside the record, 418 bytes are missing", long[:5]},
		{"cut in the length", "", "the file ends inside a field", long[:2]},
		{"content too short", "w", "`w` holds 8 bytes, Float32 of dims [3] has 12", rec("w", "Float32", []int64{3}, seq(8))},
		{"content too long", "w", "`w` holds 8 bytes, Float32 of dims [] has 4", rec("w", "Float32", nil, seq(8))},
		{"dims [0] of two elements", "w", "`w` holds 8 bytes, Float32 of dims [0] has 0", rec("w", "Float32", []int64{0}, seq(8))},
		{"written twice in a row", "w", "`w` holds 8 bytes, Float32 of dims [1] has 4", cat(rec("w", "Float32", []int64{1}, seq(4)), rec("w", "Float32", []int64{1}, seq(4)))},
		{"slices of two types", "w", "slices of `w` differ in type: Int8 and UInt8", cat(rec("w", "Int8", []int64{2}, seq(1)), rec("w", "UInt8", []int64{2}, seq(1)))},
		{"slices of two shapes", "w", "slices of `w` differ in dims: [2] and [2 1]", cat(rec("w", "Int8", []int64{2}, seq(1)), rec("w", "Int8", []int64{2, 1}, seq(1)))},
		{"negative dims", "w", "`w` has a negative dim: [-1]", rec("w", "Int8", []int64{-1}, seq(1))},
		{"dims that overflow", "w", "cannot have dims [4611686018427387904 4]", rec("w", "Int8", []int64{1 << 62, 4}, nil)},
		{"unknown type", "w", "`w` has the unknown type `Float12`", rec("w", "Float12", []int64{1}, seq(4))},
		{"map parameter", "w", "`w` is a map parameter (a hash table), which is not supported", value(named, appendBytes(nil, 3, nil))},
		{"no name", "", "the record has no name", value(tensor(int8s, one))},
		{"empty name", "", "the record's name is empty", rec("", "Int8", []int64{1}, seq(1))},
		{"name not UTF-8", "", "the name is not UTF-8", rec("\xff", "Int8", []int64{1}, seq(1))},
		{"two names", "w", "the record has two names", value(named, named, tensor(int8s, one))},
		{"two values", "w", "the record has two values", value(named, tensor(int8s, one), tensor(int8s, one))},
		{"two types", "w", "the tensor has two types", value(named, tensor(int8s, int8s, one))},
		{"two contents", "w", "the tensor has two contents", value(named, tensor(int8s, one, one))},
		{"no value", "w", "`w` has no tensor", value(named)},
		{"no type", "w", "`w` has no tensor_type", value(named, tensor(one))},
		{"no content", "w", "`w` has no tensor_content", value(named, tensor(int8s))},
		{"content past its tensor", "w", "the content of 9 bytes runs 8 bytes past the end of its message", value(named, tensor(int8s, []byte{3<<3 | 2, 9, 1}))},
		{"name past its record", "", "the name of 9 bytes runs 8 bytes past the end of its message", value([]byte{1<<3 | 2, 9, 'w'})},
		{"a number over 64 bits", "", "a number has more than 64 bits", cat([]byte{0x0A}, bytes.Repeat([]byte{0xFF}, 9), []byte{2})},
		{"a record of 2^64 bytes", "", "a record of 18446744073709551615 bytes is not possible", cat([]byte{0x0A}, bytes.Repeat([]byte{0xFF}, 9), []byte{1})},
		{"another wire type", "", "a record begins with 0a, found 08", []byte{8, 1}},
		{"a group", "", "wire type 3 is not possible", []byte{0x63, 0x63}},
		{"field 0", "", "field number 0 is not possible", []byte{0, 0}},
		{"a name of another wire type", "", "the name has wire type 0, want 2", value([]byte{8, 1})},
		{"dims of another wire type", "w", "dims has wire type 5, want 0 or 2", value(named, tensor([]byte{1<<3 | wireFixed32, 1, 2, 3, 4}))},
		{"too many dims", "w", "dims has more than 64 numbers", rec("w", "Int8", make([]int64, 65), nil)},
		{"too long a type", "w", "the type has 65 bytes, at most 64 are possible", rec("w", strings.Repeat("I", 65), nil, nil)},
		{"too long a name", "", "the name has 65537 bytes", rec(strings.Repeat("w", 65537), "Int8", nil, seq(1))},
		{"a string of half characters", "w", "the string `w` has 3 bytes", rec("w", "str", []int64{0}, seq(3))},
		{"a string past Unicode", "w", "the string `w` holds 0x110000, which is no character", rec("w", "str", []int64{0}, []byte{0, 0, 0x11, 0})},
		{"half a surrogate pair", "w", "the string `w` holds 0xd800, which is no character", rec("w", "str", []int64{0}, []byte{0, 0xD8, 0, 0})},
	} {
		_, err := index(cat(first, c.b))
		fe := formatError(err)
		if fe == nil {
			t.Errorf("%s: Index = %v, want a FormatError", c.name, err)
			continue
		}
		if !strings.Contains(fe.Msg, c.want) || fe.Tensor != c.tensor || fe.Off < at {
			t.Errorf("%s: Index = %v (tensor %q), want %q of tensor %q at %d or later", c.name, err, fe.Tensor, c.want, c.tensor, at)
		}
	}
}

func TestIndexReadsHeadersOnly(t *testing.T) {
	b := cat(rec("a", "Int8", []int64{1 << 20}, make([]byte, 1<<20)), rec("b", "Int8", []int64{1 << 20}, make([]byte, 1<<20)))
	f := &counting{file: b}
	if _, err := (Format{}).Index(context.Background(), checkpoint.Input{File: f, Yield: noYield}); err != nil {
		t.Fatal(err)
	}
	if f.bytes > 8192 || f.calls > 8 {
		t.Errorf("Index read %d bytes in %d calls of a file of %d, want headers only", f.bytes, f.calls, len(b))
	}
}

type counting struct {
	file
	calls, bytes int
}

func (c *counting) ReadAt(b []byte, off int64) (int, error) {
	c.calls++
	c.bytes += len(b)
	return c.file.ReadAt(b, off)
}

func TestIndexStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Format{}.Index(ctx, checkpoint.Input{File: file(rec("a", "Int8", nil, seq(1))), Yield: noYield})
	if err != context.Canceled {
		t.Errorf("Index = %v, want %v", err, context.Canceled)
	}
}

func TestIndexBoundsTheNumberOfRecords(t *testing.T) {
	one := rec("a", "Int8", []int64{0}, nil)
	b := bytes.Repeat(one, maxRecords)
	mustIndex(t, b)
	if _, err := index(cat(b, one)); formatError(err) == nil || !strings.Contains(err.Error(), "more than 1048576 records") {
		t.Errorf("Index = %v, want a bound on records", err)
	}
}

func TestIndexBoundsWarnings(t *testing.T) {
	var b []byte
	for range 100 {
		b = append(b, rec("a", "Int8", []int64{1}, []byte{1})...)
		b = append(b, rec("b", "Int8", []int64{1}, []byte{1})...)
	}
	x := mustIndex(t, b)
	if n := len(x.Warnings); n != maxNotes+1 || !strings.Contains(x.Warnings[n-1].Summary, "178 more tensors are stored twice") {
		t.Errorf("%d warnings, the last %v; want %d and a count of the rest", n, x.Warnings[n-1], maxNotes+1)
	}
}

func TestIndexGivesReadErrorsOfTheFile(t *testing.T) {
	b := rec("a", "Int8", []int64{1}, seq(1))
	_, err := Format{}.Index(context.Background(), checkpoint.Input{File: shrunk{file: b[:12], size: int64(len(b))}, Yield: noYield})
	if formatError(err) != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Index of a file that shrank = %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

// shrunk has fewer bytes than it said.
type shrunk struct {
	file
	size int64
}

func (s shrunk) Size() int64 { return s.size }
