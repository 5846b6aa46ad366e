package mindspore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
)

// file is a source in memory.
type file []byte

func (f file) ReadAt(b []byte, off int64) (int, error) { return bytes.NewReader(f).ReadAt(b, off) }

func (f file) Size() int64 { return int64(len(f)) }

func (f file) ReadRanges(_ context.Context, off []int64, dst [][]byte) error {
	for i := range off {
		if _, err := f.ReadAt(dst[i], off[i]); err != nil {
			return err
		}
	}
	return nil
}

func noYield() {}

func index(b []byte) (*checkpoint.Index, error) {
	return Format{}.Index(context.Background(), checkpoint.Input{File: file(b), Name: "x.ckpt", Yield: noYield})
}

func indexStrict(b []byte) (*checkpoint.Index, error) {
	return Format{}.Index(context.Background(), checkpoint.Input{File: file(b), Name: "x.ckpt", Strict: true, Yield: noYield})
}

// mustIndex indexes b and checks what the engine would check.
func mustIndex(t *testing.T, b []byte) *checkpoint.Index {
	t.Helper()
	x, err := index(b)
	if err != nil {
		t.Fatalf("Index = %v", err)
	}
	if err := x.Validate([]int64{int64(len(b))}); err != nil {
		t.Fatalf("Validate = %v", err)
	}
	return x
}

// rec is one record as MindSpore writes it.
func rec(tag, kind string, dims []int64, content []byte) []byte {
	return append(appendHeader(nil, tag, dims, kind, int64(len(content))), content...)
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func seq(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func withTrailer(b []byte) []byte {
	sum := make([]byte, 10)
	binary.BigEndian.PutUint32(sum[6:], crc32.ChecksumIEEE(b))
	return cat(b, []byte("crc_num"), sum)
}

// content reads a tensor's row-major bytes through its extents.
func content(t *testing.T, b []byte, e *checkpoint.Entry) []byte {
	t.Helper()
	var run []byte
	for _, x := range e.Data.Extents {
		run = append(run, b[x.Off:x.Off+x.Len]...)
	}
	if e.Data.Strides == nil && e.Data.Offset == 0 {
		return run
	}
	size := e.DType.Size()
	var out []byte
	var walk func(dim int, at int64)
	walk = func(dim int, at int64) {
		if dim == len(e.Shape) {
			out = append(out, run[at*size:(at+1)*size]...)
			return
		}
		for i := range e.Shape[dim] {
			walk(dim+1, at+i*e.Data.Strides[dim])
		}
	}
	walk(0, e.Data.Offset)
	return out
}

// output asks for the file that x was made of.
func output(x *checkpoint.Index) checkpoint.Output {
	out := checkpoint.Output{Leaves: x.Leaves, Metadata: x.Metadata, Trailer: len(x.Checks) > 0, Yield: noYield}
	for _, e := range x.Entries {
		out.Tensors = append(out.Tensors, checkpoint.Tensor{Name: e.Name, Path: e.Path, DType: e.DType, Shape: e.Shape, Note: e.Note, Seq: e.Seq})
	}
	return out
}

// assemble makes the file that a blueprint describes.
func assemble(t *testing.T, bp *checkpoint.Blueprint, out checkpoint.Output, payload func(i int) []byte) []byte {
	t.Helper()
	if err := bp.Validate(out); err != nil {
		t.Fatalf("Validate = %v", err)
	}
	var b []byte
	for _, s := range bp.Segments {
		if s.Len == 0 {
			b = append(b, s.Literal...)
			continue
		}
		b = append(b, payload(s.Tensor)[s.Off:s.Off+s.Len]...)
	}
	for _, h := range bp.Holes {
		sum := crc32.ChecksumIEEE(b[h.Over.Off : h.Over.Off+h.Over.Len])
		binary.BigEndian.PutUint32(b[h.At+6:], sum)
	}
	return b
}

// rewrite indexes b and writes it again.
func rewrite(t *testing.T, b []byte, slice int64) []byte {
	t.Helper()
	x := mustIndex(t, b)
	out := output(x)
	bp, err := blueprint(context.Background(), out, slice)
	if err != nil {
		t.Fatalf("Blueprint = %v", err)
	}
	return assemble(t, bp, out, func(i int) []byte { return content(t, b, &x.Entries[i]) })
}

// describe writes what an index says of tensors and leaves, to be compared.
func describe(x *checkpoint.Index) string {
	var s string
	for _, e := range x.Entries {
		s += fmt.Sprintf("%d %s %v %v %v\n", e.Seq, e.Name, e.DType, e.Shape, e.Note)
	}
	for _, l := range x.Leaves {
		s += fmt.Sprintf("%d %s %s %q\n", l.Seq, l.Path.Label(), l.Type, l.Value.Text)
	}
	return s
}

func formatError(err error) *checkpoint.FormatError {
	var fe *checkpoint.FormatError
	errors.As(err, &fe)
	return fe
}

func diagnostic(err error) *diag.Diagnostic {
	var d *diag.Diagnostic
	errors.As(err, &d)
	return d
}

// root is the project's folder.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the package")
		}
		dir = up
	}
}

// shared is a folder of test data that is not in the repository.
func shared(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(root(t), "..", "shared", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("../shared is not here: %v", err)
	}
	return dir
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
