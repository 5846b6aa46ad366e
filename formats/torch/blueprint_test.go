package torch

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/storage"
)

// render writes the file that a blueprint describes.
func render(bp *checkpoint.Blueprint, payload func(tensor int) []byte) []byte {
	var out []byte
	for _, s := range bp.Segments {
		if s.Len > 0 {
			out = append(out, payload(s.Tensor)[s.Off:][:s.Len]...)
		} else {
			out = append(out, s.Literal...)
		}
	}
	for _, h := range bp.Holes {
		binary.LittleEndian.PutUint32(out[h.At:], crc32.ChecksumIEEE(out[h.Over.Off:][:h.Over.Len]))
	}
	return out
}

// outputOf asks for a copy of what an index lists.
func outputOf(x *checkpoint.Index) checkpoint.Output {
	out := checkpoint.Output{From: x.Format, Leaves: x.Leaves, Metadata: x.Metadata, Yield: func() {}}
	for _, e := range x.Entries {
		out.Tensors = append(out.Tensors, checkpoint.Tensor{Name: e.Name, Path: e.Path, DType: e.DType, Shape: e.Shape, Note: e.Note, Seq: e.Seq})
	}
	return out
}

// rewrite reads a file and writes what it lists into a new one.
func rewrite(file []byte) ([]byte, *checkpoint.Blueprint, error) {
	x, err := indexOf(file, false)
	if err != nil {
		return nil, nil, err
	}
	out := outputOf(x)
	bp, err := Format{}.Blueprint(context.Background(), out)
	if err != nil {
		return nil, nil, err
	}
	if err := bp.Validate(out); err != nil {
		return nil, nil, fmt.Errorf("Validate: %w", err)
	}
	var failed error
	b := render(bp, func(i int) []byte {
		p, err := gather(file, &x.Entries[i])
		if err != nil {
			failed = err
		}
		if e := x.Entries[i]; e.Data.Conjugate || e.Data.Negate {
			p = lazily(p, e)
		}
		return p
	})
	return b, bp, failed
}

// lazily applies the sign changes of complex numbers that torch puts off.
func lazily(p []byte, e checkpoint.Entry) []byte {
	for i := 0; i < len(p); i += 4 {
		if e.Data.Negate || i%8 == 4 {
			p[i+3] ^= 0x80
		}
	}
	return p
}

func TestRoundTripOfFixtures(t *testing.T) {
	files, err := filepath.Glob(fixture("*.pt"))
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := indexOf(b, false); err == nil {
			read++
			t.Run(filepath.Base(f), func(t *testing.T) { roundTrip(t, b) })
		}
	}
	if read < 15 {
		t.Errorf("%d fixtures were read, want 15 at least", read)
	}
}

func TestRoundTripOfRealFiles(t *testing.T) {
	for _, dir := range []string{shared(t, "corpus", "dev"), shared(t, "golden", "torch", "torch")} {
		for _, m := range manifests(t, filepath.Join(dir, "manifest.json")) {
			if m.Kind != "torch_zip" || refused(m) || m.Expect != "" {
				continue
			}
			file := filepath.Join(dir, strings.TrimPrefix(m.File, "torch/"))
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(filepath.Base(file), func(t *testing.T) { roundTrip(t, b) })
		}
	}
}

func roundTrip(t *testing.T, file []byte) {
	t.Helper()
	copied, bp, err := rewrite(file)
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, file, copied, bp.Dropped)
	again, _, err := rewrite(copied)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(copied, again) {
		t.Errorf("a copy of the copy differs from the copy")
	}
}

// checkSame compares what two files list. What was dropped, or changed its
// type, is reported in dropped.
func checkSame(t *testing.T, a, b []byte, dropped []checkpoint.Dropped) {
	t.Helper()
	x, err := indexOf(a, false)
	if err != nil {
		t.Fatal(err)
	}
	y, err := indexOf(b, true)
	if err != nil {
		t.Fatalf("Index of what was written: %v", err)
	}
	if len(y.Warnings) > 0 {
		t.Errorf("what was written is read with warnings: %v", y.Warnings)
	}
	if err := y.Validate([]int64{int64(len(b))}); err != nil {
		t.Fatalf("Validate: %v", err)
	}
	for _, c := range y.Checks {
		if !c.Advisory {
			t.Errorf("the sum of %s is demanded, torch checks none", c.Name)
		}
		if got := crc32.ChecksumIEEE(b[c.Range.Off:][:c.Range.Len]); uint64(got) != c.Want {
			t.Errorf("CRC of %s = %08x, want %08x", c.Name, got, c.Want)
		}
	}
	if len(x.Entries) != len(y.Entries) {
		t.Fatalf("%d tensors are listed, want %d", len(y.Entries), len(x.Entries))
	}
	changed := func(p checkpoint.Path) bool {
		return slices.ContainsFunc(dropped, func(d checkpoint.Dropped) bool {
			return len(d.Path) <= len(p) && d.Path.Equal(p[:len(d.Path)])
		})
	}
	for i := range x.Entries {
		e, f := &x.Entries[i], &y.Entries[i]
		if changed(e.Path) {
			continue
		}
		want, _ := gather(a, e)
		got, err := gather(b, f)
		if e.Data.Conjugate || e.Data.Negate {
			want = lazily(want, *e)
		}
		if err != nil || !f.Path.Equal(e.Path) || f.DType != e.DType || !slices.Equal(f.Shape, e.Shape) || !bytes.Equal(got, want) {
			t.Errorf("tensor %v %s %v became %v %s %v (%v), bytes equal: %v", e.Path, e.DType, e.Shape, f.Path, f.DType, f.Shape, err, bytes.Equal(got, want))
		}
	}
	leaves := map[string]checkpoint.Leaf{}
	for _, l := range y.Leaves {
		leaves[fmt.Sprint(l.Path)] = l
	}
	for _, l := range x.Leaves {
		if changed(l.Path) {
			continue
		}
		got := leaves[fmt.Sprint(l.Path)]
		if slices.ContainsFunc(dropped, func(d checkpoint.Dropped) bool {
			return len(d.Path) == len(l.Path)+1 && d.Path[:len(l.Path)].Equal(l.Path)
		}) {
			got.Value.Len = l.Value.Len
		}
		if l.Type == "ndarray_object" || strings.HasPrefix(l.Type, "numpy.") {
			got.Type = l.Type // written as the value of Python that is equal
		}
		if got.Type != l.Type || !reflect.DeepEqual(got.Value, l.Value) && !math.IsNaN(l.Value.Float) {
			t.Errorf("leaf %v %s %+v became %s %+v", l.Path, l.Type, l.Value, got.Type, got.Value)
		}
	}
}

func flat(tensors ...checkpoint.Tensor) checkpoint.Output {
	return checkpoint.Output{Tensors: tensors, Yield: func() {}}
}

func TestFlatTensorsMakeAStateDict(t *testing.T) {
	out := flat(
		checkpoint.Tensor{Name: "a.b", DType: dtype.F32, Shape: []int64{2, 3}},
		checkpoint.Tensor{Name: "empty", DType: dtype.I64, Shape: []int64{0, 5}},
		checkpoint.Tensor{Name: "scalar", DType: dtype.BF16, Shape: []int64{}},
		checkpoint.Tensor{Name: "u16", DType: dtype.U16, Shape: []int64{3}},
		checkpoint.Tensor{Name: "f8", DType: dtype.F8E4M3, Shape: []int64{4}},
		checkpoint.Tensor{Name: "not \xff utf-8", DType: dtype.U8, Shape: []int64{1}},
	)
	bp, err := Format{}.Blueprint(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	if err := bp.Validate(out); err != nil {
		t.Fatal(err)
	}
	b := render(bp, func(i int) []byte {
		n, _ := out.Tensors[i].DType.Bytes(out.Tensors[i].Shape)
		return bytes.Repeat([]byte{byte(i + 1)}, int(n))
	})
	x, err := indexOf(b, true)
	if err != nil {
		t.Fatal(err)
	}
	if x.Leaves[0].Type != "OrderedDict" || len(x.Leaves) != 1 {
		t.Errorf("leaves = %+v, want the OrderedDict alone", x.Leaves)
	}
	for i, want := range out.Tensors {
		e := x.Entries[i]
		if e.Name != want.Name || e.DType != want.DType || !slices.Equal(e.Shape, want.Shape) {
			t.Errorf("tensor %d = %q %s %v, want %q %s %v", i, e.Name, e.DType, e.Shape, want.Name, want.DType, want.Shape)
		}
		if got, err := gather(b, &e); err != nil || len(bytes.Trim(got, string(rune(i+1)))) > 0 {
			t.Errorf("tensor %d has bytes %x, %v", i, got, err)
		}
		for _, x := range e.Data.Extents {
			if x.Off%alignment != 0 {
				t.Errorf("tensor %d begins at %d, want a multiple of %d", i, x.Off, alignment)
			}
		}
	}
}

func TestWhatATorchFileCannotHold(t *testing.T) {
	tensor := func(n string, p checkpoint.Path, d dtype.Type) checkpoint.Tensor {
		return checkpoint.Tensor{Name: n, Path: p, DType: d, Shape: []int64{4}}
	}
	for _, c := range []struct {
		name string
		out  checkpoint.Output
		want string
	}{
		{"a type that torch has not", flat(tensor("a", nil, dtype.HiF8)), "torch has no type for hif8"},
		{"bits that torch cannot pack", flat(tensor("a", nil, dtype.F6E2M3)), "torch has no type for f6_e2m3"},
		{"integers without a scale", flat(tensor("a", nil, dtype.QI8)), "its scale is missing"},
		{"two tensors of one name", flat(tensor("a", nil, dtype.F32), tensor("a", nil, dtype.F32)), "two values would be written as `a`"},
		{"a tensor inside of a tensor", flat(tensor("a", nil, dtype.F32), tensor("a.b", checkpoint.Keys("a", "b"), dtype.F32)), "other values lie inside of it"},
		{"a path without end", flat(tensor("a", make(checkpoint.Path, maxDepth+1), dtype.F32)), "is nested more than"},
	} {
		_, err := Format{}.Blueprint(context.Background(), c.out)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.want)
		}
	}
}

// sparseFile is a file of which only the literal bytes exist; the payloads are
// zeros.
type sparseFile struct {
	bp   *checkpoint.Blueprint
	size int64
}

func (f *sparseFile) Size() int64 { return f.size }

func (f *sparseFile) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	at := int64(0)
	for _, s := range f.bp.Segments {
		if s.Len == 0 {
			lo, hi := max(off, at), min(off+int64(len(p)), at+s.Size())
			if lo < hi {
				copy(p[lo-off:hi-off], s.Literal[lo-at:hi-at])
			}
		}
		at += s.Size()
	}
	return len(p), nil
}

func (f *sparseFile) ReadRanges(_ context.Context, off []int64, dst [][]byte) error {
	for i := range off {
		if _, err := f.ReadAt(dst[i], off[i]); err != nil {
			return err
		}
	}
	return nil
}

func TestLargeFilesHaveZip64Fields(t *testing.T) {
	const gib = 1 << 30
	var out checkpoint.Output
	out.Yield = func() {}
	for i, n := range []int64{3 * gib, 1 * gib, 5 * gib, 8, 4*gib - 1, 0, 6 * gib} {
		out.Tensors = append(out.Tensors, checkpoint.Tensor{Name: fmt.Sprint("t", i), DType: dtype.U8, Shape: []int64{n}})
	}
	bp, err := Format{}.Blueprint(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	f := &sparseFile{bp: bp, size: bp.Size()}
	x, err := Format{}.Index(context.Background(), checkpoint.Input{File: f, Name: "large.pt", Strict: true, Yield: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Validate([]int64{f.size}); err != nil {
		t.Fatal(err)
	}
	at := int64(0)
	for _, s := range bp.Segments {
		if s.Len > 0 {
			if got := x.Entries[s.Tensor].Data.Extents[0]; got.Off != at || got.Len != s.Len {
				t.Errorf("tensor %d is at %d, %d bytes, want %d, %d", s.Tensor, got.Off, got.Len, at, s.Len)
			}
		}
		at += s.Size()
	}
	checkArithmetic(t, x, f, out)
}

// checkArithmetic finds the storages as torch 2.7 does where it is told to
// compute offsets: from the first one on, without looking.
func checkArithmetic(t *testing.T, x *checkpoint.Index, f storage.Source, out checkpoint.Output) {
	t.Helper()
	r := &reader{in: checkpoint.Input{File: f, Yield: func() {}}, index: &checkpoint.Index{}}
	a, err := r.openArchive(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	const limit = 0xffffffff
	first := a.byName[prefix+"data/0"]
	cursor, header := first.data, first.header
	for i := range out.Tensors {
		rec := a.byName[fmt.Sprintf("%sdata/%d", prefix, i)]
		if i > 0 {
			header = cursor
			start := cursor + 30 + int64(len(rec.name)) + 4
			if rec.usize >= limit || cursor >= limit {
				start += 4
				if rec.usize >= limit {
					start += 16
				}
				if cursor >= limit {
					start += 8
				}
			}
			cursor = (start + alignment - 1) / alignment * alignment
		}
		if cursor != rec.data || header != rec.header {
			t.Errorf("storage %d is computed to be at %d (header %d), it is at %d (%d)", i, cursor, header, rec.data, rec.header)
		}
		cursor += rec.usize
		switch {
		case rec.usize == 0:
		case header >= limit || rec.usize >= limit:
			cursor += 24
		default:
			cursor += 16
		}
	}
}
