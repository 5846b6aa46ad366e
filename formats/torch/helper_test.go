package torch

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
)

// memory is a file in memory that counts its reads.
type memory struct {
	b     []byte
	reads int
}

func (m *memory) Size() int64 { return int64(len(m.b)) }

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	m.reads++
	return bytes.NewReader(m.b).ReadAt(p, off)
}

func (m *memory) ReadRanges(_ context.Context, off []int64, dst [][]byte) error {
	m.reads++
	for i, o := range off {
		if o < 0 || o > m.Size() || int64(len(dst[i])) > m.Size()-o {
			return io.ErrUnexpectedEOF
		}
		copy(dst[i], m.b[o:])
	}
	return nil
}

func indexOf(b []byte, strict bool) (*checkpoint.Index, error) {
	in := checkpoint.Input{File: &memory{b: b}, Name: "f.pt", Strict: strict, Yield: func() {}}
	return Format{}.Index(context.Background(), in)
}

// gather is the naive reader: the row-major little-endian bytes of a tensor.
func gather(file []byte, e *checkpoint.Entry) ([]byte, error) {
	d := &e.Data
	run := d.Inline
	if run == nil {
		for _, x := range d.Extents {
			run = append(run, file[x.Off:][:x.Len]...)
		}
	}
	if d.Codec == checkpoint.Deflate {
		var err error
		if run, err = io.ReadAll(flate.NewReader(bytes.NewReader(run))); err != nil {
			return nil, err
		}
		if int64(len(run)) != d.Decoded {
			return nil, fmt.Errorf("inflates to %d bytes, want %d", len(run), d.Decoded)
		}
	}
	size := e.DType.Size()
	if size == 0 {
		n, _ := e.DType.Bytes(e.Shape)
		return run[:n], nil
	}
	strides := d.Strides
	if n, _ := e.DType.Bytes(e.Shape); strides == nil && !d.BigEndian {
		return run[d.Offset*size:][:n], nil
	}
	if strides == nil {
		strides = box.Strides(e.Shape)
	}
	var out []byte
	var walk func(dim int, at int64)
	walk = func(dim int, at int64) {
		if dim == len(e.Shape) {
			x := len(out)
			out = append(out, run[at*size:][:size]...)
			if u := int(e.DType.Unit()); d.BigEndian {
				for ; x < len(out); x += u {
					slices.Reverse(out[x : x+u])
				}
			}
			return
		}
		for i := range e.Shape[dim] {
			walk(dim+1, at+i*strides[dim])
		}
	}
	walk(0, d.Offset)
	return out, nil
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// fixture is a file of fixtures/torch, or the folder.
func fixture(name ...string) string {
	return filepath.Join(append([]string{"..", "..", "fixtures", "torch"}, name...)...)
}

// shared is a folder of the material that lies beside the project.
func shared(t testing.TB, parts ...string) string {
	p := filepath.Join(append([]string{"..", "..", "..", "shared"}, parts...)...)
	if _, err := os.Stat(p); err != nil {
		t.Skipf("../shared is not here: %v", err)
	}
	return p
}

func sampleOf(name string, b []byte) checkpoint.Sample {
	n := min(len(b), checkpoint.SampleSize)
	return checkpoint.Sample{Head: b[:n], Tail: b[len(b)-n:], Size: int64(len(b)), Name: name}
}

// manifest is what the material's manifest.json says of a file.
type manifest struct {
	File, Kind, Error, Expect string
	PickleError               string `json:"pickle_error"`
	Tensors                   []struct {
		Name    string
		Path    []any
		DType   string
		Shape   []int64
		SHA256  string
		NBytes  int64
		Conj    bool
		NDArray bool
	}
	Leaves []struct {
		Path  []any
		Type  string
		Value any
		Len   *int
		Class string
	}
}

func manifests(t testing.TB, file string) []manifest {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []manifest
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}
