package cli_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/manifest"
)

// Rank folders of one cut become safetensors files of another cut, one file
// for torch, and rank folders of the first cut again: every tensor of every
// rank has its bits again, and its digest does not change on the way.
func TestRoundTripsOverFormats(t *testing.T) {
	count := 0
	roots := goldenRoots(t)
	dirs, err := filepath.Glob(filepath.Join(roots[len(roots)-1], "[0-9]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		c := readCase(t, dir)
		if strings.Contains(dir, "33_accu_grads") {
			continue // its files do not hold what their own strategy says; what is written does
		}
		for _, call := range c.Calls {
			if call.API != "transform_checkpoints" || slices.Contains(c.Tags, "stage") || c.Expect == "error" || c.Leftovers != "" {
				continue
			}
			if from, to := text(call.Args[3]), text(call.Args[4]); from != "" && to != "" {
				count++
				t.Run(filepath.Base(dir), func(t *testing.T) { roundTrip(t, dir, text(call.Args[0]), from, to) })
			}
		}
	}
	if count < 12 {
		t.Errorf("only %d cases went round", count)
	}
}

func roundTrip(t *testing.T, dir, src, from, to string) {
	out := t.TempDir()
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := filepath.Join(out, "a"), filepath.Join(out, "b.pt"), filepath.Join(out, "c")
	from, to = filepath.Join(abs, from), filepath.Join(abs, to)
	step := func(source, sourceStrategy, target, targetStrategy, format string) {
		t.Helper()
		job := "version = 1\n[source]\n" + fmt.Sprintf("path = %q\n", source)
		if sourceStrategy != "" {
			job += fmt.Sprintf("strategy = %q\n", sourceStrategy)
		}
		job += fmt.Sprintf("[target]\npath = %q\nformat = %q\n", target, format)
		if targetStrategy != "" {
			job += fmt.Sprintf("strategy = %q\n", targetStrategy)
		}
		if status, stderr := convert(t, "-f", write(t, out, "job.toml", job)); status != 0 {
			t.Fatalf("to %s: status %d: %s", format, status, stderr)
		}
	}
	step(filepath.Join(abs, src), from, a, to, "safetensors")
	step(a, to, b, "", "torch")
	step(b, "", c, from, "mindspore")

	first := digests(t, filepath.Join(a, "convert.manifest.json"))
	for _, name := range []string{b + ".manifest.json", filepath.Join(c, "convert.manifest.json")} {
		got := digests(t, name)
		if len(got) != len(first) {
			t.Errorf("%s has %d tensors, the first manifest %d", filepath.Base(name), len(got), len(first))
		}
		for tensor, d := range first {
			if got[tensor] != d || d == "" {
				t.Errorf("`%s` has digest %q, and %q at first", tensor, got[tensor], d)
			}
		}
	}
	sameRanks(t, inspectionOf(t, output(t, "inspect", c, "--json", "--sha256")), inspectionOf(t, output(t, "inspect", filepath.Join(abs, src), "--json", "--sha256")))
}

// digests are the digests of a manifest by tensor.
func digests(t *testing.T, name string) map[string]string {
	t.Helper()
	m, err := manifest.Parse(read(t, name))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, x := range m.Tensors {
		out[x.Name] = x.DType + " " + fmt.Sprint(x.Shape) + " " + x.CRC64
	}
	return out
}

// sameRanks compares what every rank holds, not the order.
func sameRanks(t *testing.T, got, want *inspection) {
	t.Helper()
	of := func(x *inspection) map[string]string {
		m := map[string]string{}
		for i := range x.Tensors {
			r := 0
			if x.Tensors[i].Rank != nil {
				r = *x.Tensors[i].Rank
			}
			m[fmt.Sprintf("rank %d `%s`", r, x.Tensors[i].Name)] = x.Tensors[i].String()
		}
		return m
	}
	g, w := of(got), of(want)
	if len(g) != len(w) || len(w) == 0 {
		t.Errorf("%d tensors in all ranks, want %d", len(g), len(w))
	}
	for k, v := range w {
		if g[k] != v {
			t.Errorf("%s is %s, want %s", k, g[k], v)
		}
	}
}

// A full checkpoint is split into files with an index, in either format that
// has one, read again by its folder, and made whole.
func TestSplitFilesRoundTrip(t *testing.T) {
	dir := tiny(t)
	write(t, dir, "full.toml", "version = 1\n[source]\npath = \"src\"\nstrategy = \"src_strategy.ckpt\"\n[target]\npath = \"full\"\n")
	must(t, dir, "-f", "full.toml")
	want := inspected(t, dir, "full")
	from := "full"
	for _, format := range []string{"safetensors", "torch"} {
		job := fmt.Sprintf("version = 1\n[source]\npath = %q\n[target]\npath = %q\nformat = %q\nmax_file_size = \"40 KiB\"\n", from, format, format)
		must(t, dir, "-f", write(t, dir, format+".toml", job))
		files := names(t, filepath.Join(dir, format))
		if len(files) < 5 || !slices.ContainsFunc(files, func(n string) bool { return strings.HasSuffix(n, ".index.json") }) {
			t.Errorf("%s: the target holds %v, want several files and their index", format, files)
		}
		sameTensors(t, format, inspected(t, dir, format), want)
		from = format
	}
	write(t, dir, "whole.toml", "version = 1\n[source]\npath = \"torch\"\n[target]\npath = \"whole.ckpt\"\nformat = \"mindspore\"\n")
	must(t, dir, "-f", "whole.toml")
	sameTensors(t, "whole", inspected(t, dir, "whole.ckpt"), want)

	// An index that names a file which is not there, or a tensor which is
	// elsewhere.
	missing := filepath.Join(dir, "safetensors", "model-00002-of-")
	m, err := filepath.Glob(missing + "*")
	if err != nil || len(m) != 1 {
		t.Fatalf("%v %v", m, err)
	}
	copyTree(t, filepath.Join(dir, "safetensors"), filepath.Join(dir, "cut"))
	second := filepath.Join(dir, "cut", filepath.Base(m[0]))
	cut(t, second, 100)
	program(t, dir, "inspect", "cut").wants(t, 5, "--> "+filepath.Base(second))
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	program(t, dir, "inspect", "cut").wants(t, 5, filepath.Base(second), "the index names", "copy")
}

// What stands in a file cannot steer the terminal that shows it.
func TestNamesCannotSteerTheTerminal(t *testing.T) {
	dir := t.TempDir()
	name := `\u001b[31m\u202e`
	header := fmt.Sprintf(`{"__metadata__":{"format":"pt"},"%s.a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"%s.b":{"dtype":"C64","shape":[1],"data_offsets":[4,12]},"../../x":{"dtype":"U8","shape":[2],"data_offsets":[12,14]}}`, name, name)
	header += strings.Repeat(" ", -len(header)&7)
	write(t, dir, "m.safetensors", string(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+strings.Repeat("\x01", 14)...)))
	write(t, dir, "job.toml", "version = 1\n[source]\npath = \"m.safetensors\"\n[target]\npath = \"out\"\nformat = \"torch\"\n[[map]]\nmatch = '.*\\.b'\nto = 'x\u202ey'\n")
	for _, args := range [][]string{
		{"inspect", "m.safetensors"},
		{"inspect", "m.safetensors", "--json"},
		{"inspect", "m.safetensors", "--strict"},
		{"plan", "-f", "job.toml", "--all"},
		{"plan", "-f", "job.toml", "--json"},
		{"-f", "job.toml", "-v", "--color=never"},
		{"-f", "job.toml", "--set", "target.dtype=bf16", "--set", "target.path=\x1b[2Jout"},
		{"-f", "job.toml", "--set", "source.path=\x1b[2J"},
		{"plan", "-f", "job.toml", "--set", "target.strategy=m.safetensors"},
	} {
		c := program(t, dir, args...)
		for what, text := range map[string]string{"standard output": c.out, "standard error": c.errors} {
			steering := "\x1b\u202e"
			if slices.Contains(args, "--json") {
				steering = "\x1b" // JSON escapes controls, and is for programs
			}
			if strings.ContainsAny(text, steering) {
				t.Errorf("%q: %s has a control character: %q", args, what, text)
			}
		}
	}
	// A name is never a path.
	for _, n := range names(t, filepath.Dir(dir)) {
		if strings.HasSuffix(n, "/x") || n == "x" {
			t.Errorf("%s was written", n)
		}
	}
}
