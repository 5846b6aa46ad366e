package torch

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
)

// python runs a script with torch where the machine has it.
func python(t *testing.T, args ...string) string {
	t.Helper()
	const bin = "/usr/bin/python3"
	if exec.Command(bin, "-c", "import torch").Run() != nil {
		t.Skip("python3-torch is not here: files are not compared with what torch itself reads")
	}
	out, err := exec.Command(bin, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("python3: %v\n%s", err, out)
	}
	return string(out)
}

func TestTorchReadsWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	python(t, fixture("make.py"), dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.pt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("torch wrote no files: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		copied, bp, err := rewrite(b)
		if err != nil {
			t.Fatalf("%s: %v", filepath.Base(f), err)
		}
		if len(bp.Dropped) > 0 {
			t.Errorf("%s: dropped %+v", filepath.Base(f), bp.Dropped)
		}
		if err := os.WriteFile(f+".copy", copied, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d files; torch compared tensors: %s", len(files), python(t, fixture("compare.py"), dir))
}

func TestTorchReadsTensorsOfOtherFormats(t *testing.T) {
	out := flat(
		checkpoint.Tensor{Name: "backbone.weight", DType: dtype.BF16, Shape: []int64{2, 3}},
		checkpoint.Tensor{Name: "empty", DType: dtype.F32, Shape: []int64{0}},
		checkpoint.Tensor{Name: "step", DType: dtype.I64, Shape: []int64{}},
		checkpoint.Tensor{Name: "not \xff utf-8", DType: dtype.Bool, Shape: []int64{2}},
	)
	bp, err := Format{}.Blueprint(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	b := render(bp, func(i int) []byte {
		n, _ := out.Tensors[i].DType.Bytes(out.Tensors[i].Shape)
		return bytes.Repeat([]byte{1}, int(n))
	})
	file := filepath.Join(t.TempDir(), "model.pt")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	got := python(t, "-c", `
import sys, torch, zipfile
for w in (False, True):
    d = torch.load(sys.argv[1], weights_only=w)
    print(type(d).__name__, [(ascii(k), str(v.dtype), list(v.shape), bytes(v.contiguous().view(-1).view(torch.uint8).numpy() if v.numel() else b"").hex()) for k, v in d.items()])
print(zipfile.ZipFile(sys.argv[1]).testzip())
`, file)
	dict := `OrderedDict [("'backbone.weight'", 'torch.bfloat16', [2, 3], '010101010101010101010101'), ("'empty'", 'torch.float32', [0], ''), ` +
		`("'step'", 'torch.int64', [], '0101010101010101'), ("'not \\udcff utf-8'", 'torch.bool', [2], '0101')]`
	if want := dict + "\n" + dict + "\nNone\n"; got != want {
		t.Errorf("torch reads\n%swant\n%s", got, want)
	}
}
