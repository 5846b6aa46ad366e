package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-e934e81e/convert/cli/command"
)

// goldenCase is a case.json: what was asked of MindSpore, and what is right.
type goldenCase struct {
	Expect    string   `json:"expect"`
	Tags      []string `json:"tags"`
	Leftovers string   `json:"leftovers"`
	Calls     []struct {
		API    string         `json:"api"`
		Args   []any          `json:"args"`
		Kwargs map[string]any `json:"kwargs"`
	} `json:"calls"`
}

// goldenRoots is where cases are found: the fixtures, and the shared folder
// beside the project with more of them.
func goldenRoots(t *testing.T) []string {
	t.Helper()
	roots := []string{"../fixtures/golden/mindspore"}
	if shared := "../../shared/golden/mindspore"; isDir(shared) {
		roots = append(roots, shared)
	} else {
		t.Log("../shared is not here: only the cases in fixtures are run")
	}
	return roots
}

func isDir(name string) bool {
	e, err := os.Stat(name)
	return err == nil && e.IsDir()
}

// convert runs the program and gives its status and standard error.
func convert(t *testing.T, args ...string) (status int, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	none := func() int { return 0 }
	status = command.Main(command.Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err, LookupEnv: os.LookupEnv, Now: time.Now,
		StdoutWidth: none, StderrWidth: none,
	}, command.Builtin())
	return status, err.String()
}

// jobOf writes the job that asks for what a call asked of MindSpore.
func jobOf(t *testing.T, dir, src, from, to, out, prefix, more string) string {
	t.Helper()
	abs := func(name string) string {
		p, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version = 1\n[source]\npath = %q\n", abs(src))
	if from != "" {
		fmt.Fprintf(&b, "strategy = %q\n", abs(from))
	}
	fmt.Fprintf(&b, "[target]\npath = %q\nprefix = %q\n", out, prefix)
	if to != "" {
		fmt.Fprintf(&b, "strategy = %q\n", abs(to))
	}
	b.WriteString(more)
	name := filepath.Join(t.TempDir(), "job.toml")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// sameTree compares every checkpoint file of two trees byte for byte; rename
// gives the name in got of a file in want, "" for a file that is not compared.
func sameTree(t *testing.T, got, want string, rename func(string) string) {
	t.Helper()
	n := 0
	seen := map[string]bool{"convert.manifest.json": true}
	err := filepath.WalkDir(want, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(want, p)
		if err != nil {
			return err
		}
		name := rename(filepath.ToSlash(rel))
		if name == "" {
			return nil
		}
		seen[name] = true
		n++
		w, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		g, err := os.ReadFile(filepath.Join(got, name))
		if err != nil {
			t.Errorf("%s is not there: %v", name, err)
			return nil
		}
		if !bytes.Equal(g, w) {
			t.Errorf("%s differs from what is right: %d bytes, want %d", name, len(g), len(w))
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Fatalf("%d files compared, error %v", n, err)
	}
	err = filepath.WalkDir(got, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if rel, _ := filepath.Rel(got, p); !seen[filepath.ToSlash(rel)] {
			t.Errorf("%s is in the target and should not be", rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func same(name string) string { return name }

// TestGoldenTransforms runs every case of MindSpore's transform_checkpoints,
// by MindSpore's own code or proved right where that is wrong or refuses.
func TestGoldenTransforms(t *testing.T) {
	count := 0
	for _, root := range goldenRoots(t) {
		dirs, err := filepath.Glob(filepath.Join(root, "[0-9]*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			c := readCase(t, dir)
			for _, call := range c.Calls {
				if call.API == "transform_checkpoints" && !slices.Contains(c.Tags, "stage") {
					count++
					t.Run(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(dir))))+"/"+filepath.Base(dir), func(t *testing.T) {
						transform(t, dir, c, call.Args, call.Kwargs)
					})
				}
			}
		}
	}
	if count < 20 {
		t.Errorf("only %d cases were run", count)
	}
}

func readCase(t *testing.T, dir string) goldenCase {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c goldenCase
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return c
}

func transform(t *testing.T, dir string, c goldenCase, args []any, kwargs map[string]any) {
	more := ""
	if f := text(kwargs["output_format"]); f != "" {
		more += fmt.Sprintf("format = %q\n", f)
	}
	rename := same
	if c.Leftovers != "" {
		more += fmt.Sprintf("leftovers = %q\nmissing = \"skip\"\n", c.Leftovers)
		// MindSpore took the call for its by-stage mode and named the files so.
		rename = func(n string) string { return strings.Replace(n, "_part0.ckpt", ".ckpt", 1) }
	}
	out := filepath.Join(t.TempDir(), "out")
	if slices.Contains(c.Tags, "latest") {
		latest(t, dir, args, out)
		return
	}
	from, to := text(args[3]), text(args[4])
	status, stderr := convert(t, "-f", jobOf(t, dir, text(args[0]), from, to, out, text(args[2]), more))
	if c.Expect == "error" {
		if status == 0 || stderr == "" {
			t.Fatalf("status %d, want an error", status)
		}
		if isDir(out) {
			t.Errorf("a failed job left %s", out)
		}
		return
	}
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	sameTree(t, out, filepath.Join(dir, "expected"), rename)
	stageFolders(t, dir, args, from, to, more)
}

// stageFolders runs the job again with the folders of stages in the place of
// the merged strategies.
func stageFolders(t *testing.T, dir string, args []any, from, to, more string) {
	f, g := strings.Replace(from, "_merged.ckpt", "", 1), strings.Replace(to, "_merged.ckpt", "", 1)
	if f == from && g == to {
		return
	}
	out := filepath.Join(t.TempDir(), "out")
	status, stderr := convert(t, "-f", jobOf(t, dir, text(args[0]), f, g, out, text(args[2]), more))
	if status != 0 {
		t.Fatalf("with folders of stages: status %d: %s", status, stderr)
	}
	sameTree(t, out, filepath.Join(dir, "expected"), same)
}

// latest: several checkpoints in each rank folder. The default takes the
// numerically newest, "mindspore" the one that MindSpore takes.
func latest(t *testing.T, dir string, args []any, out string) {
	job := jobOf(t, dir, text(args[0]), text(args[3]), text(args[4]), out, text(args[2]), "")
	if status, stderr := convert(t, "-f", job); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	sameTree(t, out, filepath.Join(dir, "by_number"), same)
	again := out + "2"
	if status, stderr := convert(t, "-f", job, "--set", "source.select=mindspore", "--set", "target.path="+again); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	sameTree(t, again, filepath.Join(dir, "expected"), same)
}

// TestGoldenByRank runs transform_checkpoint_by_rank: target.ranks with one
// rank.
func TestGoldenByRank(t *testing.T) {
	dir := "../fixtures/golden/mindspore/02_tutorial_by_rank"
	c := readCase(t, dir)
	for _, call := range c.Calls {
		rank := int(call.Args[0].(float64))
		save := text(call.Args[2])
		out := filepath.Join(t.TempDir(), "out")
		prefix := strings.TrimSuffix(filepath.Base(save), fmt.Sprintf("%d.ckpt", rank))
		job := jobOf(t, dir, "src", text(call.Args[3]), text(call.Args[4]), out, prefix, fmt.Sprintf("ranks = [%d]\n", rank))
		if status, stderr := convert(t, "-f", job); status != 0 {
			t.Fatalf("rank %d: status %d: %s", rank, status, stderr)
		}
		want := fmt.Sprintf("rank_%d/", rank)
		sameTree(t, out, filepath.Join(dir, "expected"), func(n string) string {
			if strings.HasPrefix(n, want) {
				return n
			}
			return ""
		})
	}
}

// TestGoldenBadCRC: a trailer that does not agree is found, unless the job
// says to ignore it.
func TestGoldenBadCRC(t *testing.T) {
	dir := "../fixtures/golden/mindspore/16_crc_bad"
	out := filepath.Join(t.TempDir(), "out.ckpt")
	job := filepath.Join(t.TempDir(), "job.toml")
	src, err := filepath.Abs(dir + "/src/rank_0/net_rank_0-1_10.ckpt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(job, fmt.Appendf(nil, "version = 1\n[source]\npath = %q\n[target]\npath = %q\n", src, out), 0o600); err != nil {
		t.Fatal(err)
	}
	status, stderr := convert(t, "-f", job)
	if status != 5 || !strings.Contains(stderr, "crc_num") {
		t.Errorf("status %d, stderr %q; want 5 and the name of the checksum", status, stderr)
	}
	if _, err := os.Stat(out); err == nil {
		t.Errorf("a refused source left an output")
	}
	if status, stderr := convert(t, "-f", job, "--set", "source.crc=ignore"); status != 0 {
		t.Errorf("ignored: status %d: %s", status, stderr)
	}
}
