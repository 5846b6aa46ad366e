package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/checkpoint/memory"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/engine"
	"github.com/seed-e934e81e/convert/core/job"
	"github.com/seed-e934e81e/convert/core/pipeline"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/all"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
)

// put writes a file with `w`, a matrix of f32, and `step`.
func put(t *testing.T, fs *storage.Memory, name string, rows, columns int64) {
	t.Helper()
	var f checkpoint.Format = mindspore.Format{}
	if strings.HasSuffix(name, ".safetensors") {
		f = safetensors.Format{}
	}
	out := checkpoint.Output{Tensors: []checkpoint.Tensor{{Name: "w", DType: dtype.F32, Shape: []int64{rows, columns}}, {Name: "step", DType: dtype.I32, Shape: []int64{1}, Seq: 1}}}
	b, err := memory.File(f, out, [][]byte{make([]byte, 4*rows*columns), make([]byte, 4)})
	if err != nil {
		t.Fatal(err)
	}
	fs.Put(name, b)
}

func parse(t *testing.T, text string) *job.Job {
	t.Helper()
	j, ds := job.Parse("job.toml", []byte("version = 1\n"+text), job.Options{Env: func(string) (string, bool) { return "", false }})
	if j == nil || slices.ContainsFunc(ds, func(d *diag.Diagnostic) bool { return d.Severity == diag.Error }) {
		t.Fatalf("%s\n%v", text, ds)
	}
	return j
}

func env(fs storage.FS) pipeline.Env {
	return pipeline.Env{FS: fs, Formats: all.Formats(), Strategies: all.Strategies, Yield: func() {}}
}

// Outputs have the names that specs/job.md gives them, and there is nothing
// else.
func TestNamesOfOutputs(t *testing.T) {
	const twoRanks = "[source]\npath = 'two'\nmesh = { axes = ['tp'], shape = [2] }\n[[source.layout]]\nmatch = 'w'\nshard = ['tp', 'none']\n[[source.layout]]\nmatch = '*'\nshard = 'replicate'\n"
	const wide = "mesh = { axes = ['tp'], shape = [3] }\n[[target.layout]]\nmatch = 'w'\nshard = ['none', 'tp']\n[[target.layout]]\nmatch = '*'\nshard = 'replicate'\n"
	cases := []struct {
		name string
		job  string
		want []string
	}{
		{"rank folders", twoRanks + "[target]\npath = 'out'\n" + wide, []string{"convert.manifest.json", "rank_0/checkpoint_0.ckpt", "rank_1/checkpoint_1.ckpt", "rank_2/checkpoint_2.ckpt"}},
		{"rank folders of another format", twoRanks + "[target]\npath = 'out'\nformat = 'safetensors'\nprefix = 'x'\n" + wide, []string{"convert.manifest.json", "rank_0/x0.safetensors", "rank_1/x1.safetensors", "rank_2/x2.safetensors"}},
		{"some ranks", twoRanks + "[target]\npath = 'out'\nranks = [1]\n" + wide, []string{"convert.manifest.json", "rank_1/checkpoint_1.ckpt"}},
		{"a full checkpoint", twoRanks + "[target]\npath = 'out'\n", []string{"convert.manifest.json", "model.ckpt"}},
		{"a full checkpoint with a prefix", twoRanks + "[target]\npath = 'out'\nprefix = 'full_'\n", []string{"convert.manifest.json", "rank_0/full_0.ckpt"}},
		{"a file", twoRanks + "[target]\npath = 'out/all.ckpt'\n", []string{"all.ckpt", "all.ckpt.manifest.json"}},
		{"a file of another format", twoRanks + "[target]\npath = 'out/all.safetensors'\nformat = 'safetensors'\n", []string{"all.safetensors", "all.safetensors.manifest.json"}},
		{"torch", twoRanks + "[target]\npath = 'out'\nformat = 'torch'\n", []string{"convert.manifest.json", "model.pt"}},
		{
			"split", twoRanks + "[target]\npath = 'out'\nformat = 'safetensors'\nmax_file_size = '98'\n",
			[]string{"convert.manifest.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"},
		},
		{"from a file", "[source]\npath = 'one/a.ckpt'\n[target]\npath = 'out'\nformat = 'safetensors'\n", []string{"convert.manifest.json", "model.safetensors"}},
		{"rank by rank", "[source]\npath = 'two'\n[target]\npath = 'out'\nformat = 'safetensors'\nranks = [1]\n", []string{"convert.manifest.json", "rank_1/checkpoint_1.safetensors"}},
	}
	for _, c := range cases {
		fs := storage.NewMemory()
		put(t, fs, "two/rank_0/a.ckpt", 2, 6)
		put(t, fs, "two/rank_1/a.ckpt", 2, 6)
		put(t, fs, "one/a.ckpt", 4, 6)
		before := fs.Names()
		r, err := pipeline.Make(context.Background(), parse(t, c.job), env(fs))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		r.Options.Now = time.Now
		if _, err := engine.Run(context.Background(), r.Plan, r.Options); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, n := range fs.Names() {
			if !slices.Contains(before, n) {
				got = append(got, strings.TrimPrefix(n, "out/"))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the files are %v, want %v", c.name, got, c.want)
		}
	}
}

// A mistake is shown at its place in the job.
func TestPlaceOfMistakes(t *testing.T) {
	cases := []struct {
		name string
		job  string
		line int // of the mistake
		want string
	}{
		{"no source", "[source]\npath = 'none'\n[target]\npath = 'out'", 3, "none"},
		{"no such format", "[source]\npath = 'one'\n[target]\npath = 'out'\nformat = 'gguf'", 6, "gguf"},
		{"a trailer that the format does not have", "[source]\npath = 'one'\n[target]\npath = 'out'\nformat = 'safetensors'\ncrc = true", 7, "target.crc"},
		{"a path of another format", "[source]\npath = 'one'\n[target]\npath = 'out/a.safetensors'", 5, ".safetensors"},
		{"a layout that does not fit", "[source]\npath = 'one'\n[target]\npath = 'out'\nmesh = { axes = ['tp'], shape = [5] }\n[[target.layout]]\nmatch = 'w'\nshard = ['tp', 'none']\n[[target.layout]]\nmatch = '*'\nshard = 'replicate'", 6, "`w`"},
	}
	for _, c := range cases {
		fs := storage.NewMemory()
		put(t, fs, "one/a.ckpt", 4, 6)
		_, err := pipeline.Make(context.Background(), parse(t, c.job), env(fs))
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		d := diag.From(err)[0]
		if d.Code != diag.Usage || d.Subject.File != "job.toml" || d.Subject.Line != c.line || !strings.Contains(d.Error(), c.want) {
			t.Errorf("%s: the error is %v (class %s, line %d), want line %d and %q", c.name, d, d.Code, d.Subject.Line, c.line, c.want)
		}
	}
}

// An interruption stays one, whenever it comes.
func TestInterrupted(t *testing.T) {
	fs := storage.NewMemory()
	put(t, fs, "one/a.ckpt", 4, 6)
	j := parse(t, "[source]\npath = 'one'\n[target]\npath = 'out'")
	e := env(fs)
	for stop := range 40 {
		ctx, cancel := context.WithCancel(context.Background())
		n := 0
		fs.Fail = func(storage.Op, string, int64) error {
			if n++; n > stop {
				cancel()
			}
			return nil
		}
		e.Yield = func() {
			if n++; n > stop {
				cancel()
			}
		}
		_, err := pipeline.Make(ctx, j, e)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted after %d operations, the error is %v", stop, err)
		}
	}
}

// The same job has the same plan, wherever it lies and with any settings.
func TestDigestOfJob(t *testing.T) {
	digest := func(root, settings string) string {
		fs := storage.NewMemory()
		put(t, fs, path.Join(root, "one/a.ckpt"), 4, 6)
		text := fmt.Sprintf("[source]\npath = '%s'\n[target]\npath = '%s'\n%s", path.Join(root, "one"), path.Join(root, "out"), settings)
		r, err := pipeline.Make(context.Background(), parse(t, text), env(fs))
		if err != nil {
			t.Fatal(err)
		}
		return r.Plan.Digest
	}
	want := digest("/data", "")
	for _, c := range [][2]string{{"/mnt/other/place", ""}, {"/data", "[run]\nworkers = 1\nmemory = '1 GiB'\nio = 'buffered'"}, {"/data", "[verify]\nmode = 'read-back'\nsha256 = true\nreplicas = 'all'"}} {
		if got := digest(c[0], c[1]); got != want {
			t.Errorf("at %s with %q the digest is %s, want %s", c[0], c[1], got, want)
		}
	}
	if digest("/data", "dtype = 'f16'") == want {
		t.Errorf("a cast does not change the digest")
	}
}
