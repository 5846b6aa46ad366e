//go:build unix

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slowly makes a run take long enough to be interrupted.
var slowly = []string{"-f", "job.toml", "--set", "run.workers=1", "--set", "run.io=buffered", "--set", "verify.sha256=true", "--set", "verify.mode=read-back"}

// begun starts a run and waits until its temporary files are there.
func begun(t *testing.T, dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c := prepared(dir, args...)
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(time.Millisecond) {
		if m, _ := filepath.Glob(filepath.Join(dir, "out", "rank_3", ".*.convert-tmp")); len(m) > 0 {
			return c, &errs
		}
	}
	_ = c.Process.Kill()
	t.Fatalf("%v makes no temporary files: %v, %s", args, c.Wait(), errs.String())
	return nil, nil
}

// ended waits for a run and gives its status, −1 where a signal has ended it.
func ended(t *testing.T, c *exec.Cmd) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case <-done:
		return c.ProcessState.ExitCode()
	case <-time.After(20 * time.Second):
		_ = c.Process.Kill()
		<-done
		t.Fatalf("%v has not ended 20 s after the signal", c.Args)
		return 0
	}
}

// signalled starts a run and sends it a signal as soon as it writes; again,
// where the machine was so busy that the run was done before the signal came.
func signalled(t *testing.T, signal os.Signal, dir string, args ...string) (status int, stderr string) {
	t.Helper()
	for range 5 {
		c, errs := begun(t, dir, args...)
		if err := c.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if status := ended(t, c); status != 0 {
			return status, errs.String()
		}
		if !slices.Contains(args, "run.on_exists=replace") {
			if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatal("every run was done before the signal came")
	return 0, ""
}

func TestRunsThatAreInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a checkpoint of 128 MiB is written several times")
	}
	dir := t.TempDir()
	must(t, dir, "generate", ".", "-q", "--size", "128 MiB", "--mesh", "dp=2,tp=2", "--to", "tp=4")

	for name, signal := range map[string]os.Signal{"SIGINT": os.Interrupt, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			check := unchanged(t, dir)
			if got, text := signalled(t, signal, dir, slowly...); got != 75 || text != "error: interrupted\nhint: run the same command again\n" {
				t.Errorf("exits with %d and says %q, want 75 and that it was interrupted", got, text)
			}
			check()
		})
	}
	t.Run("SIGTERM with --json", func(t *testing.T) {
		check := unchanged(t, dir)
		got, text := signalled(t, syscall.SIGTERM, dir, append([]string{"--json"}, slowly...)...)
		if got != 75 {
			t.Errorf("exits with %d, want 75", got)
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		var last struct {
			Type string
			Code int
			Name string `json:"code_name"`
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Type != "exit" || last.Code != 75 || last.Name != "interrupted" {
			t.Errorf("the last line is %q (%v)", lines[len(lines)-1], err)
		}
		check()
	})
	t.Run("a signal that ends it at once", func(t *testing.T) { killed(t, dir) })
	t.Run("another run", func(t *testing.T) { twoRuns(t, dir) })
	t.Run("progress", func(t *testing.T) { progress(t, dir) })
	t.Run("the old files stay whole", func(t *testing.T) { replaceKilled(t, dir) })
}

// A run that waits for its job ends at the first signal, too.
func TestInterruptedBeforeTheJob(t *testing.T) {
	c := prepared(t.TempDir(), "run", "-f", "-")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, strings.Repeat("# a job that does not end\n", 1<<13)); err != nil { // more than a pipe holds: the program reads
		t.Fatal(err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := ended(t, c); got != 75 || !strings.HasPrefix(errs.String(), "error: interrupted\n") {
		t.Errorf("exits with %d and says %q, want 75", got, errs.String())
	}
}

// killed: what a run that was killed has left goes with the next, and nothing
// else does.
func killed(t *testing.T, dir string) {
	defer os.RemoveAll(filepath.Join(dir, "out"))
	signalled(t, os.Kill, dir, slowly...)
	left := names(t, filepath.Join(dir, "out"))
	if text := strings.Join(left, " "); !strings.Contains(text, ".convert.lock") || strings.Count(text, ".convert-tmp") != 4 || strings.Contains(text, " rank_0/checkpoint_0.ckpt") {
		t.Errorf("a killed run leaves %v; want its lock, four temporary files, and no final name", left)
	}
	others := map[string]string{
		"out/rank_0/.checkpoint_0.ckpt.convert-tmp":                          "not a name that we give",
		"out/rank_0/.checkpoint_0.ckpt.AAAAAAAAAAAAAAAAAAAAAAAAAA.other-tmp": "another program's",
		"out/.keep": "hidden",
		"out/rank_1/.checkpoint_1.ckpt.aaaaaaaaaaaaaaaaaaaaaaaaaa.convert-tmp": "in small letters",
	}
	for name, text := range others {
		write(t, dir, name, text)
	}
	again := must(t, dir, "-f", "job.toml")
	again.wants(t, 0, "note: removed 4 temporary files that a killed run had left in `out`")
	for name, text := range others {
		if got := read(t, filepath.Join(dir, filepath.FromSlash(name))); string(got) != text {
			t.Errorf("%s is now %q", name, got)
		}
	}
	n := 0
	for _, name := range names(t, filepath.Join(dir, "out")) {
		if _, mine := others["out/"+name]; !mine && strings.HasPrefix(filepath.Base(name), ".") {
			t.Errorf("%s is left behind", name)
		}
		if strings.HasSuffix(name, ".ckpt") {
			n++
		}
	}
	if n != 4 {
		t.Errorf("%d files were written, want 4", n)
	}
}

// twoRuns: of two runs on one target the second ends, and does not disturb the
// first.
func twoRuns(t *testing.T, dir string) {
	defer os.RemoveAll(filepath.Join(dir, "out"))
	c, errs := begun(t, dir, slowly...)
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil { // so that it is not done too soon
		t.Fatal(err)
	}
	for range 2 {
		program(t, dir, "-f", "job.toml").wants(t, 75, "another run is writing to `out`", "hint: wait for it, or stop it")
	}
	program(t, dir, "-f", "job.toml", "--set", "run.on_exists=replace").wants(t, 75, "another run is writing to `out`")
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := ended(t, c); got != 0 {
		t.Errorf("the first run exits with %d: %s", got, errs.String())
	}
	if got := len(names(t, filepath.Join(dir, "out"))); got != 9 {
		t.Errorf("the target holds %v, want 4 folders, 4 files and a manifest", names(t, filepath.Join(dir, "out")))
	}
}

// replaceKilled: until the new files are whole, the old ones are there.
func replaceKilled(t *testing.T, dir string) {
	defer os.RemoveAll(filepath.Join(dir, "out"))
	must(t, dir, "-f", "job.toml")
	sums := func() (s string) {
		for r := range 4 {
			s += fmt.Sprintln(inspected(t, dir, fmt.Sprintf("out/rank_%d/checkpoint_%d.ckpt", r, r)).Tensors)
		}
		return s
	}
	before, manifest := sums(), read(t, filepath.Join(dir, "out/convert.manifest.json"))
	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		signalled(t, signal, dir, append(slowly, "--set", "run.on_exists=replace")...)
		if got := sums(); got != before {
			t.Errorf("after %v the old files are not what they were", signal)
		}
		if got := read(t, filepath.Join(dir, "out/convert.manifest.json")); !bytes.Equal(got, manifest) {
			t.Errorf("after %v the manifest is not what it was", signal)
		}
	}
	must(t, dir, "-f", "job.toml", "--set", "run.on_exists=replace")
	if got := names(t, filepath.Join(dir, "out")); len(got) != 9 {
		t.Errorf("the target holds %v, want 4 folders, 4 files and a manifest", got)
	}
}

// progress: a line that is redrawn, and taken away at the end, where a terminal
// is said to be; no escapes in a log; nothing where it is turned off.
func progress(t *testing.T, dir string) {
	for _, tt := range []struct {
		args       []string
		redrawn    bool
		noVariable bool
	}{
		{[]string{"--progress", "tty"}, true, false},
		{[]string{"--progress", "plain"}, false, false},
		{nil, false, true}, // a log, of runs over 30 s
		{[]string{"-q", "--progress", "tty"}, true, false}, // asked for
	} {
		c := prepared(dir, append(tt.args, slowly...)...)
		if tt.noVariable {
			c.Env = append(c.Env, "CONVERT_NO_PROGRESS=")
		}
		got := finished(t, c)
		got.wants(t, 0)
		if !tt.redrawn && got.errors != "" {
			t.Errorf("%v: standard error has %q", tt.args, got.errors)
		}
		lines := strings.Split(got.errors, "\r\x1b[K")
		if tt.redrawn && (len(lines) < 3 || lines[0] != "" || lines[len(lines)-1] != "" || !strings.Contains(lines[1], "%") || !strings.Contains(lines[1], " MiB")) {
			t.Errorf("%v: standard error has %q, want a line that is redrawn and taken away", tt.args, got.errors)
		}
		if strings.Contains(got.out, "\x1b") {
			t.Errorf("%v: standard output has escapes", tt.args)
		}
		if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
			t.Fatal(err)
		}
	}
}
