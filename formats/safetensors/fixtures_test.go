package safetensors

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/conformance"
)

// root is the folder of the project.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the package")
	return ""
}

// shared is a path beside the project; the test is skipped where it is absent.
func shared(t testing.TB, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{root(t), "..", "shared"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skip("../shared is not here: ", err)
	}
	return path
}

func fixture(t testing.TB, elem ...string) string {
	return filepath.Join(append([]string{root(t), "fixtures", "safetensors"}, elem...)...)
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func index(data []byte, strict bool) (*checkpoint.Index, error) {
	return Format{}.Index(context.Background(), checkpoint.Input{File: conformance.Bytes("test", data), Strict: strict, Yield: func() {}})
}

// file puts a header text and n bytes of data together.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

// verdict is an entry of a manifest of files that the reference was run on.
type verdict struct {
	File    string
	Verdict string  `json:"rust_verdict"`
	Detail  string  `json:"rust_detail"`
	Message *string `json:"rust_message"`
}

// agree compares the verdict on a file, and what was read, with the
// reference's "name:dtype:shape:bytes".
func agree(data []byte, want verdict) error {
	x, err := index(data, false)
	if want.Verdict != "OK" {
		var fe *checkpoint.FormatError
		if !errors.As(err, &fe) {
			return fmt.Errorf("got %v, the reference refuses it: %s", err, want.Detail)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("got %v, the reference accepts it", err)
	}
	if err := x.Validate([]int64{int64(len(data))}); err != nil {
		return err
	}
	var list []string
	for _, e := range x.Entries {
		shape := strings.ReplaceAll(fmt.Sprint(e.Shape), " ", ", ")
		list = append(list, fmt.Sprintf("%s:%s:%s:%d", e.Name, e.DType.Safetensors(), shape, e.Data.RunBytes()))
	}
	slices.Sort(list)
	if got := strings.Join(list, " "); strings.ReplaceAll(got, "\x00", " ") != strings.ReplaceAll(want.Detail, "\x00", " ") {
		return fmt.Errorf("read %s, the reference %s", got, want.Detail)
	}
	return nil
}

func testManifest(t *testing.T, dir, manifest string) {
	var list []verdict
	if err := json.Unmarshal(read(t, manifest), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("the manifest is empty")
	}
	for _, v := range list {
		t.Run(filepath.Base(v.File), func(t *testing.T) {
			if err := agree(read(t, filepath.Join(dir, filepath.Base(v.File))), v); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAgreesWithTheReferenceOnEdges(t *testing.T) {
	testManifest(t, fixture(t, "edge"), fixture(t, "edge", "manifest.json"))
}

func TestAgreesWithTheReferenceOnItsOwnTests(t *testing.T) {
	dir := shared(t, "corpus", "dev", "safetensors_spec")
	testManifest(t, dir, filepath.Join(dir, "manifest.json"))
}

func TestAgreesWithTheReferenceOnHeaders(t *testing.T) {
	in := bufio.NewScanner(bytes.NewReader(read(t, fixture(t, "verdicts.txt"))))
	n := 0
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "#") {
			continue
		}
		f := strings.Split(in.Text(), "\t")
		size, err1 := strconv.Atoi(f[1])
		header, err2 := strconv.Unquote(f[2])
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		n++
		_, err := index(file(header, size), false)
		var fe *checkpoint.FormatError
		if accepted := err == nil; accepted != (f[0] == "accept") || !accepted && !errors.As(err, &fe) {
			t.Errorf("%.200q with %d bytes of data: got %v, the reference says %s", header, size, err, f[0])
		}
	}
	if n < 100 {
		t.Errorf("only %d verdicts were there", n)
	}
}

// corpusEntry is a real file, with what the reference reads of it where it is
// safetensors.
type corpusEntry struct {
	File     string
	Kind     string
	Tensors  json.RawMessage
	Metadata json.RawMessage
}

type corpusTensor struct {
	Name   string
	DType  string
	Shape  []int64
	Offset int64
	SHA256 string
}

func corpus(t *testing.T) []corpusEntry {
	var list []corpusEntry
	if err := json.Unmarshal(read(t, shared(t, "corpus", "dev", "manifest.json")), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestReadsRealFiles(t *testing.T) {
	n := 0
	for _, e := range corpus(t) {
		if e.Kind != "safetensors" {
			continue
		}
		n++
		t.Run(filepath.Base(e.File), func(t *testing.T) {
			data := read(t, shared(t, "corpus", "dev", e.File))
			if got := (Format{}).Probe(checkpoint.Sample{Head: data[:min(len(data), checkpoint.SampleSize)], Size: int64(len(data))}); got != checkpoint.Yes {
				t.Errorf("probe says %d", got)
			}
			x, err := index(data, false)
			if err != nil {
				t.Fatal(err)
			}
			var tensors []corpusTensor
			var metadata map[string]string
			if err := errors.Join(json.Unmarshal(e.Tensors, &tensors), json.Unmarshal(e.Metadata, &metadata)); err != nil {
				t.Fatal(err)
			}
			if len(x.Entries) != len(tensors) || len(x.Metadata) != len(metadata) {
				t.Fatalf("read %d tensors and %d metadata entries, want %d and %d", len(x.Entries), len(x.Metadata), len(tensors), len(metadata))
			}
			for _, want := range tensors {
				got := x.Find(want.Name)
				if got == nil {
					t.Errorf("tensor %q was not read", want.Name)
					continue
				}
				bytes, err := conformance.ReadTensor(t.Context(), conformance.Bytes("", data), got)
				sum := sha256.Sum256(bytes)
				if err != nil || got.DType.Safetensors() != want.DType || !slices.Equal(got.Shape, want.Shape) || hex.EncodeToString(sum[:]) != want.SHA256 ||
					got.Data.Extents[0].Off != want.Offset {
					t.Errorf("tensor %q: read %s %v %x, %v; want %+v", want.Name, got.DType, got.Shape, sum, err, want)
				}
			}
		})
	}
	if n == 0 {
		t.Error("no real files were there")
	}
}

func TestRefusesWhatIsNoSafetensors(t *testing.T) {
	for _, e := range corpus(t) {
		if strings.HasSuffix(e.File, ".safetensors") {
			continue
		}
		data := read(t, shared(t, "corpus", "dev", e.File))
		sample := checkpoint.Sample{Head: data[:min(len(data), checkpoint.SampleSize)], Size: int64(len(data)), Name: "model.safetensors"}
		if got := (Format{}).Probe(sample); got != checkpoint.No {
			t.Errorf("%s: probe says %d", e.File, got)
		}
		_, err := index(data, false)
		var fe *checkpoint.FormatError
		if !errors.As(err, &fe) {
			t.Errorf("%s: got %v, want a format error", e.File, err)
		} else if e.Kind == "lfs_pointer" && (!strings.Contains(fe.Msg, "Git LFS pointer") || !strings.Contains(fe.Hint, "git lfs pull")) {
			t.Errorf("%s: got %q and the hint %q, want it called what it is", e.File, fe.Msg, fe.Hint)
		}
	}
}

// rewrite lays out the tensors of an index again, as the writer would with
// exactly this metadata, and returns the header.
func rewrite(x *checkpoint.Index, metadata []checkpoint.KV) ([]byte, error) {
	out := outputOf(x)
	tensors, err := place(&out, func() error { return nil })
	if err != nil {
		return nil, err
	}
	return marshal(tensors, metadata, func() error { return nil })
}

func outputOf(x *checkpoint.Index) checkpoint.Output {
	out := checkpoint.Output{From: formatName, Leaves: x.Leaves, Metadata: x.Metadata, Yield: func() {}}
	for _, e := range x.Entries {
		out.Tensors = append(out.Tensors, checkpoint.Tensor{Name: e.Name, Path: e.Path, DType: e.DType, Shape: e.Shape, Note: e.Note, Seq: e.Seq})
	}
	return out
}

// Every file that the real library wrote has the header that is written here,
// byte by byte.
func TestWritesTheHeadersOfTheReference(t *testing.T) {
	dirs := []string{fixture(t, "sharded")}
	for _, gold := range []string{filepath.Join("fixtures", "golden"), filepath.Join("..", "shared", "golden", "mindspore")} {
		if dir := filepath.Join(root(t), gold); exists(dir) {
			dirs = append(dirs, dir)
		}
	}
	n := 0
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".safetensors" {
				return err
			}
			data := read(t, path)
			x, err := index(data, false)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return nil
			}
			n++
			slices.SortFunc(x.Metadata, func(a, b checkpoint.KV) int { return strings.Compare(a.Key, b.Key) })
			if got, err := rewrite(x, x.Metadata); err != nil || !bytes.HasPrefix(data, got) {
				t.Errorf("%s: wrote %.300q, %v; want %.300q", path, got, err, data)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 3 {
		t.Errorf("only %d files were there", n)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestReadsEveryElementType(t *testing.T) {
	x, err := index(read(t, fixture(t, "edge", "all_dtypes.safetensors")), true)
	if err != nil {
		t.Fatal(err)
	}
	var got []dtype.Type
	for _, e := range x.Entries {
		got = append(got, e.DType)
	}
	for _, want := range order {
		if !slices.Contains(got, want) {
			t.Errorf("%s was not read", want)
		}
	}
}
