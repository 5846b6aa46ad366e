package cli_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// call is what one run of the program, in a process of its own, leaves behind.
type call struct {
	status      int
	out, errors string
	state       *os.ProcessState
}

// prepared is a run of the program in a folder. TestMain has put it into
// the search path.
func prepared(dir string, args ...string) *exec.Cmd {
	c := exec.Command("convert", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "CONVERT_NO_PROGRESS=1", "GOTRACEBACK=single")
	return c
}

// program runs the program in a folder. That it panics is always a failure.
func program(t *testing.T, dir string, args ...string) call {
	t.Helper()
	return finished(t, prepared(dir, args...))
}

func finished(t *testing.T, c *exec.Cmd) call {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", c.Args, err)
	}
	if strings.Contains(errs.String(), "goroutine ") {
		t.Fatalf("%v panics: %s", c.Args, errs.String())
	}
	return call{c.ProcessState.ExitCode(), out.String(), errs.String(), c.ProcessState}
}

// wants reports what is not as it should be: the status, and the words that
// standard error must have.
func (c call) wants(t *testing.T, status int, words ...string) {
	t.Helper()
	if c.status != status {
		t.Errorf("exits with %d, want %d\n%s", c.status, status, c.errors)
	}
	for _, w := range words {
		if !strings.Contains(c.errors, w) {
			t.Errorf("standard error has no %q:\n%s", w, c.errors)
		}
	}
	if status != 0 && c.out != "" {
		t.Errorf("a call that fails writes to standard output: %q", c.out)
	}
}

// must runs the program and expects that it succeeds.
func must(t *testing.T, dir string, args ...string) call {
	t.Helper()
	c := program(t, dir, args...)
	if c.status != 0 {
		t.Fatalf("%v: status %d: %s", args, c.status, c.errors)
	}
	return c
}

// names is every name below a folder, hidden ones too, with its size; folders
// end in a slash.
func names(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		if e.IsDir() {
			rel += "/"
		}
		out = append(out, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// unchanged takes note of what is below a folder and reports, when it is
// called, what has come or gone.
func unchanged(t *testing.T, dir string) func() {
	t.Helper()
	before := names(t, dir)
	return func() {
		t.Helper()
		after := names(t, dir)
		for _, n := range after {
			if !slices.Contains(before, n) {
				t.Errorf("%s is left behind", n)
			}
		}
		for _, n := range before {
			if !slices.Contains(after, n) {
				t.Errorf("%s is gone", n)
			}
		}
	}
}

// write puts text into a file below a folder and gives its name.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

// read gives the bytes of a file.
func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// copyTree copies a folder.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// tiny generates a checkpoint of four ranks of a few hundred KiB, and a job
// that converts it to another cut.
func tiny(t *testing.T, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, dir, append([]string{
		"generate", ".", "-q", "--layers", "1", "--hidden", "32", "--ffn", "64", "--vocab", "128", "--mesh", "dp=2,tp=2", "--to", "tp=4",
	}, more...)...)
	return dir
}

// rankFile is the generated file of a rank.
func rankFile(t *testing.T, dir string, rank string) string {
	t.Helper()
	m, err := filepath.Glob(filepath.Join(dir, "src", "rank_"+rank, "*"))
	if err != nil || len(m) != 1 {
		t.Fatalf("rank %s has files %v (%v)", rank, m, err)
	}
	return m[0]
}

// sharedFolder is a folder of the material that lies beside the project.
func sharedFolder(t *testing.T, elem ...string) string {
	t.Helper()
	p := filepath.Join(append([]string{"..", "..", "shared"}, elem...)...)
	if _, err := os.Stat(p); err != nil {
		t.Skip("../shared is not here: ", err)
	}
	p, err := filepath.Abs(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
