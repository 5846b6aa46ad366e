package cli_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// python runs a script with the Python that has PyTorch.
func python(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	c := exec.Command("/usr/bin/python3", args...)
	c.Stdin = strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// importTorch tells once whether there is PyTorch: importing it takes seconds.
var importTorch = sync.OnceValue(func() error { return exec.Command("/usr/bin/python3", "-c", "import torch").Run() })

func needsTorch(t *testing.T) {
	t.Helper()
	if err := importTorch(); err != nil {
		t.Skip("python3-torch is not here: files are not compared with what torch itself reads")
	}
}

// convertFile converts one file, both named below dir.
func convertFile(t *testing.T, dir, from, to, format string, more ...string) {
	t.Helper()
	job := write(t, dir, "file.toml", fmt.Sprintf("version = 1\n[source]\npath = %q\n[target]\npath = %q\nformat = %q\n", from, to, format))
	must(t, dir, append([]string{"-f", job, "-q"}, more...)...)
}

// What torch has written is, converted, the same when torch loads it: types
// of containers, keys, leaves, and every bit of the tensors. Where torch
// takes a file without executing anything, it takes ours so, too.
func TestTorchLoadsWhatWasConverted(t *testing.T) {
	needsTorch(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "torch"), 0o755); err != nil {
		t.Fatal(err)
	}
	const both = "import runpy, sys\nfor f in sys.argv[2:]: runpy.run_path(f)"
	python(t, "", "-c", both, filepath.Join(dir, "torch"), "../fixtures/torch/make.py", "testdata/torch/more.py")
	files, err := filepath.Glob(filepath.Join(dir, "torch", "*.pt"))
	if err != nil || len(files) < 18 {
		t.Fatalf("%d files (%v)", len(files), err)
	}
	// What safetensors cannot hold, or not tell.
	notThrough := map[string]string{
		"dtypes":    "c128",
		"quantized": "no element type",
		"sparse":    "sparse tensors are written as their parts, such as `coo.indices`",
		"parameter": "",
		"leaves":    "",
	}
	nested := []string{"list", "tuple", "root", "keys", "shared", "nested", "ints"} // whose labels check.py does not make
	var lines []string
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".pt")
		from := "torch/" + name + ".pt"
		if big := "torch/" + name + ".big"; isFile(filepath.Join(dir, big)) {
			from = big
		}
		convertFile(t, dir, from, "out/"+name+".pt", "torch")
		rename(t, filepath.Join(dir, "out", name+".pt"), f+".copy")

		if why, no := notThrough[name]; no {
			if why != "" {
				job := write(t, dir, "file.toml", fmt.Sprintf("version = 1\n[source]\npath = %q\n[target]\npath = \"no.safetensors\"\nformat = \"safetensors\"\n", from))
				if c := program(t, dir, "-f", job); !strings.Contains(c.errors, why) {
					t.Errorf("%s: %s", name, c.errors)
				}
			}
			continue
		}
		convertFile(t, dir, from, "out/"+name+".safetensors", "safetensors")
		convertFile(t, dir, "out/"+name+".safetensors", "out/"+name+".pt", "torch", "--set", "run.on_exists=replace")
		rename(t, filepath.Join(dir, "out", name+".pt"), filepath.Join(dir, "torch", name+".through.pt.copy"))
		for _, end := range []string{".pt", ".weights"} {
			if b, err := os.ReadFile(filepath.Join(dir, "torch", name+end)); err == nil {
				write(t, dir, "torch/"+name+".through"+end, string(b))
			}
		}
		if !slices.Contains(nested, name) {
			lines = append(lines, fmt.Sprintf("safetensors %s %s", f, filepath.Join(dir, "out", name+".safetensors")))
		}
	}
	if n, err := strconv.Atoi(python(t, "", "../fixtures/torch/compare.py", filepath.Join(dir, "torch"))); err != nil || n < 3000 {
		t.Errorf("%d tensors were compared (%v)", n, err)
	}
	compareAll(t, append(lines, fromOthers(t)...))
}

// compareAll has check.py compare pairs of files.
func compareAll(t *testing.T, lines []string) {
	t.Helper()
	said := strings.Split(python(t, strings.Join(lines, "\n")+"\n", "testdata/torch/check.py"), "\n")
	if len(said) != len(lines) || len(lines) == 0 {
		t.Fatalf("%d pairs were compared, want %d: %v", len(said), len(lines), said)
	}
	for i, s := range said {
		if s != "ok" {
			t.Errorf("%s: %s", lines[i], s)
		}
	}
}

func isFile(name string) bool { e, err := os.Stat(name); return err == nil && e.Mode().IsRegular() }

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// fromOthers converts MindSpore's rank folders and safetensors files to files
// for torch, and lists what is to be compared.
func fromOthers(t *testing.T) (lines []string) {
	t.Helper()
	dir := t.TempDir()
	pair := func(kind, want, got string) {
		lines = append(lines, fmt.Sprintf("%s %s %s", kind, want, got))
	}
	cases := fixtureFolder(t, "golden/mindspore")
	to := func(c, format string) string {
		out := filepath.Join(dir, c+"."+format)
		from := filepath.Join(cases, c)
		must(t, ".", "-q", "-f", jobOf(t, from, "src", "src_strategy.ckpt", "", out, "x", fmt.Sprintf("format = %q\n", format)))
		return filepath.Join(out, "rank_0", "x0")
	}
	want, err := filepath.Glob(filepath.Join(cases, "04_4_to_full/expected/rank_0/*.ckpt"))
	if err != nil || len(want) != 1 {
		t.Fatalf("%v %v", want, err)
	}
	pair("mindspore", want[0], to("04_4_to_full", "torch")+".pt")
	for _, c := range []string{"14_slices", "05_tp4dp2_to_tp2dp4", "22_moe_experts"} { // other tests hold these .ckpt against MindSpore's
		pair("mindspore", to(c, "mindspore")+".ckpt", to(c, "torch")+".pt")
	}
	hub := fixtureFolder(t, "safetensors/sharded")
	convertFile(t, dir, hub, "hub.pt", "torch")
	convertFile(t, dir, hub, "hub.safetensors", "safetensors")
	pair("from-safetensors", filepath.Join(dir, "hub.safetensors"), filepath.Join(dir, "hub.pt"))
	return lines
}

func fixtureFolder(t *testing.T, name string) string {
	t.Helper()
	p, err := filepath.Abs(filepath.Join("../fixtures", name))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A file beyond 4 GiB has 64-bit records of zip, which torch reads.
func TestTorchLoadsBeyond4GiB(t *testing.T) {
	if os.Getenv("CONVERT_LONG") == "" {
		t.Skip("4 GiB are written and read only where CONVERT_LONG is set")
	}
	needsTorch(t)
	dir := t.TempDir()
	const big = 1<<32 + 1<<20
	header := fmt.Sprintf(`{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]},"z":{"dtype":"F32","shape":[2],"data_offsets":[%d,%d]}}`, big, big, big, big+8)
	header += strings.Repeat(" ", -len(header)&7)
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	source := write(t, dir, "big.safetensors", string(b))
	f, err := os.OpenFile(source, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(len(b)) + big + 8); err != nil {
		t.Fatal(err)
	}
	for at, p := range map[int64][]byte{0: {1}, 1 << 32: {2}, big - 1: {3}, big: {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}} {
		if _, err := f.WriteAt(p, int64(len(b))+at); err != nil {
			t.Fatal(err)
		}
	}
	convertFile(t, dir, "big.safetensors", "big.pt", "torch")
	got := python(t, "", "-c", `
import sys, torch
x = torch.load(sys.argv[1])
a, z = x["a"], x["z"]
print(a.shape[0], a[0].item(), a[1 << 32].item(), a[-1].item(), sum(int(p.sum()) for p in a.split(1 << 26)), z.tolist())`, filepath.Join(dir, "big.pt"))
	if want := fmt.Sprintf("%d 1 2 3 6 [1.0, 2.0]", int64(big)); got != want {
		t.Errorf("torch reads %s, want %s", got, want)
	}
}
