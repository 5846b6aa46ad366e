package torch

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
)

// holds: a file is refused with a FormatError, or its index fits the file and
// can be written again.
func holds(t *testing.T, file []byte) {
	t.Helper()
	x, err := indexOf(file, false)
	if fe := (*checkpoint.FormatError)(nil); err != nil {
		if !errors.As(err, &fe) || fe.Off < 0 {
			t.Errorf("hostile bytes must give a FormatError, got %T: %v", err, err)
		}
		return
	}
	if err := x.Validate([]int64{int64(len(file))}); err != nil {
		t.Errorf("Validate: %v", err)
	}
	out := outputOf(x)
	bp, err := Format{}.Blueprint(context.Background(), out)
	if d := (*diag.Diagnostic)(nil); err != nil {
		if !errors.As(err, &d) {
			t.Errorf("Blueprint of what was read: %T %v", err, err)
		}
		return
	}
	if err := bp.Validate(out); err != nil {
		t.Errorf("Validate of the blueprint: %v", err)
	}
}

// FuzzIndex damages whole files.
func FuzzIndex(f *testing.F) {
	for _, name := range []string{"views.pt", "sparse.pt", "keys.pt", "numpy.zip.pt", "zip_data_deflated.pt", "quantized.zip.pt", "zip_conj_neg_meta.pt"} {
		b, err := os.ReadFile(fixture(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(holds)
}

// FuzzTree puts any pickle into a file that is else in order.
func FuzzTree(f *testing.F) {
	for _, p := range []string{one, "}" + str("a") + one + "s", "]q\x00h\x00a", global("my", "C") + ")\x81}" + str("a") + one + "sb"} {
		f.Add([]byte(p + "."))
	}
	for _, name := range []string{"views.pt", "sparse.pt", "keys.pt", "leaves.pt", "numpy.zip.pt", "quantized.zip.pt", "whole_module.zip.pt"} {
		b, err := os.ReadFile(fixture(name))
		if err != nil {
			f.Fatal(err)
		}
		r := &reader{in: checkpoint.Input{File: &memory{b: b}, Yield: func() {}}, index: &checkpoint.Index{}}
		if r.archive, err = r.openArchive(context.Background()); err != nil {
			f.Fatal(err)
		}
		texts, err := r.contents(context.Background(), maxText, &r.archive.recs[0])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(texts[0])
	}
	f.Fuzz(func(t *testing.T, p []byte) { holds(t, fileOf(string(p))) })
}
