package torch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
)

// pathOf reads a path as the manifests write it.
func pathOf(parts []any) checkpoint.Path {
	p := checkpoint.Path{}
	for _, x := range parts {
		switch x := x.(type) {
		case string:
			p = append(p, checkpoint.Part{Kind: checkpoint.KeyPart, Text: x})
		case json.Number:
			if v, err := x.Int64(); err == nil {
				p = append(p, checkpoint.Part{Kind: checkpoint.IndexPart, Index: v})
			} else {
				p = append(p, checkpoint.Part{Kind: checkpoint.OtherPart, Text: x.String()})
			}
		case nil:
			p = append(p, checkpoint.Part{Kind: checkpoint.OtherPart, Text: "None"})
		case map[string]any:
			for k, v := range x {
				switch k {
				case "attr":
					p = append(p, checkpoint.Part{Kind: checkpoint.AttrPart, Text: v.(string)})
				case "sparse":
					p = append(p, checkpoint.Part{Kind: checkpoint.SparsePart, Text: v.(string)})
				case "repr":
					p = append(p, checkpoint.Part{Kind: checkpoint.OtherPart, Text: v.(string)})
				case "bytes":
					p = append(p, checkpoint.Part{Kind: checkpoint.OtherPart, Text: "b'k'"})
				case "args": // the manifests give no index of its own to the list of arguments
					p = append(p, checkpoint.Part{Kind: checkpoint.StatePart, Text: "args"})
				}
			}
		}
	}
	return p
}

// dtypeOf reads a type as the manifests write it: torch's name, or numpy's.
func dtypeOf(s string) dtype.Type {
	if t, ok := dtype.FromTorch(s); ok {
		return t
	}
	return npTypes[strings.TrimLeft(s, "<>|")]
}

// checkFile compares an index with the manifest. Both list depth first, but
// attributes and keys in another order.
func checkFile(t *testing.T, m manifest, file []byte) {
	t.Helper()
	x, err := indexOf(file, false)
	if err != nil {
		t.Fatalf("Index: %v", err)
	}
	if err := x.Validate([]int64{int64(len(file))}); err != nil {
		t.Fatalf("Validate: %v", err)
	}
	want := 0
	for _, w := range m.Tensors {
		d := dtypeOf(w.DType)
		if d == dtype.Invalid && w.NDArray {
			continue // text and records of numpy are leaves
		}
		want++
		p := pathOf(w.Path)
		i := slices.IndexFunc(x.Entries, func(e checkpoint.Entry) bool { return e.Path.Equal(p) })
		if i < 0 {
			t.Errorf("tensor %v is not listed", w.Path)
			continue
		}
		e := &x.Entries[i]
		if e.Name != w.Name || e.DType != d || !slices.Equal(e.Shape, w.Shape) || e.Data.Conjugate != w.Conj {
			t.Errorf("tensor %v = %q %s %v, conj %v, want %q %s %v, %v", w.Path, e.Name, e.DType, e.Shape, e.Data.Conjugate, w.Name, d, w.Shape, w.Conj)
		}
		if e.Data.Conjugate || e.Data.Negate {
			continue // summed after the values were negated
		}
		got, err := gather(file, e)
		if err != nil || sum(got) != w.SHA256 {
			t.Errorf("tensor %v: bytes have sha256 %s, %v, want %s", w.Path, sum(got), err, w.SHA256)
		}
	}
	extra := 0
	for _, e := range x.Entries {
		if slices.ContainsFunc(e.Path, func(p checkpoint.Part) bool { return p.Kind == checkpoint.StatePart }) {
			extra++ // parameters of quantized tensors, which the manifests keep elsewhere
		}
	}
	if len(x.Entries)-extra != want {
		t.Errorf("%d tensors are listed, want %d", len(x.Entries)-extra, want)
	}
	checkLeaves(t, m, x)
}

func checkLeaves(t *testing.T, m manifest, x *checkpoint.Index) {
	t.Helper()
	for i := 1; i < len(x.Leaves); i++ {
		if x.Leaves[i].Seq <= x.Leaves[i-1].Seq {
			t.Fatalf("leaf %d has place %d after %d", i, x.Leaves[i].Seq, x.Leaves[i-1].Seq)
		}
	}
	byPath := map[string]checkpoint.Leaf{}
	for _, l := range x.Leaves {
		byPath[fmt.Sprint(l.Path)] = l
	}
	for _, w := range m.Leaves {
		p := pathOf(w.Path)
		l, ok := byPath[fmt.Sprint(p)]
		if w.Class == "builtins.xrange" {
			continue // a value here: range(0, 3)
		}
		if strings.Contains(fmt.Sprint(w.Path), "range map[args") {
			continue
		}
		if !ok {
			t.Errorf("leaf %v is not listed", w.Path)
			continue
		}
		if w.Class != "" && (l.Type != "object" || l.Value.Text != w.Class) {
			t.Errorf("leaf %v = %s %q, want an object of %s", w.Path, l.Type, l.Value.Text, w.Class)
		}
		if l.Type != w.Type && !(w.Type == "list" && l.Type == "tuple" && p[len(p)-1].Kind == checkpoint.StatePart) {
			t.Errorf("leaf %v is a %s, want a %s", w.Path, l.Type, w.Type)
		}
		if w.Len != nil && (l.Value.Kind != checkpoint.Sized || l.Value.Len != *w.Len) {
			t.Errorf("leaf %v has %d elements, want %d", w.Path, l.Value.Len, *w.Len)
		}
		if want, ok := textOfJSON(w.Value); ok && l.Value.Kind != checkpoint.Sized {
			if got := textOfValue(l.Value); got != want {
				t.Errorf("leaf %v = %s, want %s", w.Path, got, want)
			}
		}
	}
}

// textOfJSON writes a value of the manifests as text; false for the forms that
// are not compared.
func textOfJSON(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".e") {
			return fmt.Sprint(f), true
		}
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	case []any:
		s := fmt.Sprint(v)
		return strings.ReplaceAll(s, " ", ", "), true
	case map[string]any:
		if h, ok := v["hex"]; ok {
			return h.(string), true
		}
		if h, ok := v["sha256"]; ok {
			return h.(string), true
		}
	}
	return "", false
}

func textOfValue(v checkpoint.Value) string {
	switch v.Kind {
	case checkpoint.Boolean:
		return fmt.Sprint(v.Bool)
	case checkpoint.Integer:
		if v.Big != "" {
			return v.Big
		}
		return fmt.Sprint(v.Int)
	case checkpoint.Float:
		s := fmt.Sprint(v.Float)
		return map[string]string{"NaN": "nan", "+Inf": "inf", "-Inf": "-inf"}[s] + strings.Trim(map[bool]string{true: s}[s != "NaN" && s != "+Inf" && s != "-Inf"], " ")
	case checkpoint.Bytes:
		return fmt.Sprintf("%x", v.Text)
	}
	if len(v.Text) > 1000 {
		return sum([]byte(v.Text))
	}
	return v.Text
}

func TestIndexOfRealFiles(t *testing.T) {
	dir := shared(t, "corpus", "dev")
	files, tensors := 0, 0
	for _, m := range manifests(t, filepath.Join(dir, "manifest.json")) {
		if m.Kind != "torch_zip" {
			continue
		}
		files++
		tensors += len(m.Tensors)
		t.Run(filepath.Base(m.File), func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(dir, m.File))
			if err != nil {
				t.Fatal(err)
			}
			checkFile(t, m, b)
		})
	}
	t.Logf("%d files, %d tensors", files, tensors)
}

// refused reports whether torch refuses a file, or should have.
func refused(m manifest) bool {
	return m.Error != "" && !strings.Contains(m.Error, "not tried") || strings.Contains(m.Expect, "refuse")
}

func TestIndexOfGoldenFiles(t *testing.T) {
	dir := shared(t, "golden", "torch", "torch")
	checkGolden(t, dir, manifests(t, filepath.Join(dir, "manifest.json")))
}

func TestIndexOfFixtures(t *testing.T) {
	checkGolden(t, fixture(), manifests(t, fixture("expect.json")))
}

func checkGolden(t *testing.T, dir string, list []manifest) {
	for _, m := range list {
		t.Run(filepath.Base(m.File), func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(dir, filepath.Base(m.File)))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case m.Kind == "torch_zip" && !refused(m) && m.Expect == "":
				checkFile(t, m, b)
			case m.Kind == "torch_zip" && !refused(m):
				if _, err := indexOf(b, false); err != nil {
					t.Errorf("Index: %v", err)
				}
			default:
				_, err = indexOf(b, false)
				if fe := (*checkpoint.FormatError)(nil); !errors.As(err, &fe) {
					t.Fatalf("Index = %v, want a FormatError", err)
				}
			}
		})
	}
}

func TestForeignAndHostileFilesAreRefused(t *testing.T) {
	dir := shared(t, "corpus", "dev")
	read := []string{
		// Whole and harmless, for all that it lies among the hostile.
		"hostile/picklescan__bcdadbfe__new_pytorch_model.bin",
	}
	for _, m := range manifests(t, filepath.Join(dir, "manifest.json")) {
		if m.Kind == "torch_zip" || slices.Contains(read, m.File) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, m.File))
		if err != nil {
			t.Fatal(err)
		}
		_, err = indexOf(b, false)
		if fe := (*checkpoint.FormatError)(nil); !errors.As(err, &fe) {
			t.Errorf("%s: %v, want a FormatError", m.File, err)
		}
		if match := (Format{}).Probe(sampleOf(m.File, b)); m.Kind == "torch_legacy" && match != checkpoint.Yes {
			t.Errorf("%s: Probe = %d, want Yes, so that the refusal says what it is", m.File, match)
		}
	}
}
