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
func python(t *testing.T, script string, args ...string) string {
	t.Helper()
	const bin = "/usr/bin/python3"
	if exec.Command(bin, "-c", "import torch").Run() != nil {
		t.Skip("python3-torch is not here: files are not compared with what torch itself reads")
	}
	out, err := exec.Command(bin, append([]string{"-c", script}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("python3: %v\n%s", err, out)
	}
	return string(out)
}

// writeFiles makes checkpoints with torch itself: <name>.pt, and <name>.plain
// where weights_only must load the copy too.
const writeFiles = `
import sys, os, collections
import torch
from torch import nn
d = sys.argv[1]
def save(name, obj, weights=False):
    torch.save(obj, os.path.join(d, name + ".pt"))
    if weights: open(os.path.join(d, name + ".weights"), "w").close()

torch.manual_seed(1)
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
net(torch.randn(2, 3, 6, 6)).sum().backward()
opt.step()
save("state_dict", net.state_dict(), True)
save("nested", {"net": net.state_dict(), "optimizer": opt.state_dict(), "epoch": 7, "best": 0.25, "done": False, "why": None})
every = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
         torch.uint8, torch.bool, torch.complex64, torch.complex128]
save("dtypes", {str(t): torch.randint(0, 2, (3, 5)).to(t) for t in every}, True)
base = torch.arange(24.)
save("views", {"t": base.view(4, 6).t(), "slice": base[5:9], "step": base[::3], "flip": base.view(2, 3, 4).permute(2, 0, 1),
     "expanded": torch.ones(1).expand(5), "tied": base, "tied2": base, "empty": torch.empty(0, 3), "scalar": torch.tensor(2.5)}, True)
save("list", [torch.ones(2), [torch.zeros(1), 3], {"x": torch.ones(1, dtype=torch.bfloat16)}], True)
save("tuple", (torch.ones(2), (1, 2), ()), True)
save("root", torch.arange(5), True)
save("parameter", {"p": nn.Parameter(torch.ones(2)), "q": nn.Parameter(torch.zeros(1), requires_grad=False)}, True)
save("sparse", {"coo": torch.eye(3).to_sparse()}, True)
save("keys", {0: torch.ones(1), -5: 1, "0": 2, (1, "a'\\\n", None, (2.5, True)): 3, None: 4, 1.5: torch.ones(2), b"\x00k'": 6, 1 << 70: 7, "": 8, "a.b": {"c": 9}, "a": {"b.c": 10}})
save("leaves", {"big": 1 << 300, "neg": -(1 << 63), "nan": float("nan"), "inf": float("-inf"), "bytes": bytes(range(256)), "none": b"",
     "bytearray": bytearray(b"ab"), "set": {1, 2, (3, 4)}, "frozen": frozenset(["x"]), "complex": complex(1, -2.5), "slice": slice(1, None, 2),
     "range": range(3, 9, 2), "size": torch.Size([2, 3]), "device": torch.device("cuda:1"), "cpu": torch.device("cpu"), "dtype": torch.float16,
     "layout": torch.strided, "dd": collections.defaultdict(list, {"a": [1]}), "counter": collections.Counter("abca"),
     "deque": collections.deque([1, 2]), "od": collections.OrderedDict(b=1, a=2), "str": "h\u00e9 \u4e2d \U0001f600 \ud800", "long": "x" * 70000,
     "ints": [0, 255, 256, 65535, 65536, -1, 2**31 - 1, 2**31, -2**31, -2**31 - 1, 2**63 - 1, 2**63, -2**63 - 1]})
save("quantized", {"t": torch.quantize_per_tensor(torch.randn(4, 3), 0.1, 10, torch.quint8),
     "c": torch.quantize_per_channel(torch.randn(3, 4), torch.tensor([.1, .2, .3]), torch.tensor([0, 1, 2]), 0, torch.qint8)})
class Empty: pass
big = {"layer.%04d.weight" % i: torch.full((i % 5, 3), float(i)) for i in range(700)}
save("many", big, True)
`

// compareFiles loads each file and its copy and compares them value by value.
const compareFiles = `
import sys, os, torch
d = sys.argv[1]
count = 0
def same(a, b, at):
    global count
    if type(a) is not type(b): raise SystemExit("%s: %s became %s" % (at, type(a), type(b)))
    if isinstance(a, torch.Tensor):
        count += 1
        if a.is_sparse: a, b = a.to_dense(), b.to_dense()
        if a.is_quantized:
            if a.qscheme() != b.qscheme() or not torch.equal(a.dequantize(), b.dequantize()): raise SystemExit("%s: quantized tensors differ" % at)
            a, b = a.int_repr(), b.int_repr()
        if a.dtype != b.dtype or a.shape != b.shape or a.requires_grad != b.requires_grad: raise SystemExit("%s: %s %s became %s %s" % (at, a.dtype, a.shape, b.dtype, b.shape))
        x, y = a.detach().contiguous().view(-1), b.detach().contiguous().view(-1)
        if x.numel() and bytes(x.view(torch.uint8).numpy()) != bytes(y.view(torch.uint8).numpy()): raise SystemExit("%s: bytes differ" % at)
        return
    if isinstance(a, dict):
        if [(type(k), k) for k in a] != [(type(k), k) for k in b]: raise SystemExit("%s: keys %s became %s" % (at, list(a), list(b)))
        for k in a: same(a[k], b[k], at + "." + str(k))
        same(getattr(a, "__dict__", None), getattr(b, "__dict__", None), at + ".__dict__") if type(a).__name__ == "OrderedDict" else None
        if getattr(a, "default_factory", 0) != getattr(b, "default_factory", 0): raise SystemExit("%s: other default" % at)
        return
    if isinstance(a, (list, tuple)):
        if len(a) != len(b): raise SystemExit("%s: %d elements became %d" % (at, len(a), len(b)))
        for i, (x, y) in enumerate(zip(a, b)): same(x, y, "%s[%d]" % (at, i))
        return
    if a != b and not (a != a and b != b): raise SystemExit("%s: %r became %r" % (at, a, b))
for f in sorted(os.listdir(d)):
    if not f.endswith(".pt"): continue
    a = torch.load(os.path.join(d, f))
    same(a, torch.load(os.path.join(d, f + ".copy")), f)
    if os.path.exists(os.path.join(d, f[:-3] + ".weights")):
        same(a, torch.load(os.path.join(d, f + ".copy"), weights_only=True), f + " weights_only")
print(count)
`

func TestTorchReadsWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	python(t, writeFiles, dir)
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
	t.Logf("%d files; torch compared tensors: %s", len(files), python(t, compareFiles, dir))
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
	got := python(t, `
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
