package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/job"
)

const text = "version = 1\n[source]\npath = \"in\"\n[target]\npath = \"out\"\n"

// session is what one call leaves behind.
type session struct {
	status      int
	out, errors string
}

// try runs the program with a core, a job file in place of "JOB".
func try(t *testing.T, c Core, args ...string) session {
	t.Helper()
	name := filepath.Join(t.TempDir(), "job.toml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, a := range args {
		if a == "JOB" {
			args[i] = name
		}
	}
	var out, errs bytes.Buffer
	none := func() int { return 0 }
	status := Main(Env{
		Args: args, Stdin: strings.NewReader(text), Stdout: &out, Stderr: &errs, Now: time.Now, StdoutWidth: none, StderrWidth: none,
		LookupEnv: func(string) (string, bool) { return "", false },
	}, c)
	return session{status, out.String(), errs.String()}
}

// runs is a core of which a run ends in a certain way.
func runs(f func(ctx context.Context, j *job.Job, o Options) (*Report, error)) Core {
	return Core{Run: f}
}

func fails(err error) Core {
	return runs(func(context.Context, *job.Job, Options) (*Report, error) { return nil, err })
}

var fine = &Report{
	Document: map[string]string{"schema": "convert/run/v1", "name": "<a>"},
	Text:     func(w io.Writer, _ view.Style) error { _, err := fmt.Fprintln(w, "converted"); return err },
	Warnings: diag.List{diag.Warnf("slow")},
}

func TestStatus(t *testing.T) {
	damaged := diag.Errorf(diag.Damaged, "damaged")
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"a plain error", errors.New("x"), 1},
		{"failed", diag.Errorf(diag.Failed, "x"), 1},
		{"usage", diag.Errorf(diag.Usage, "x"), 2},
		{"differs", diag.Errorf(diag.Differs, "x"), 4},
		{"damaged", damaged, 5},
		{"stale", diag.Errorf(diag.Stale, "x"), 6},
		{"plugin", diag.Errorf(diag.Plugin, "x"), 7},
		{"interrupted", diag.Errorf(diag.Interrupted, "x"), 75},
		{"wrapped", fmt.Errorf("reading: %w", damaged), 5},
		{"a list: the first error counts", diag.List{diag.Warnf("w"), damaged, diag.Errorf(diag.Usage, "x")}, 5},
		{"a list without errors", diag.List{diag.Warnf("w")}, 1},
		{"cancelled, but by nobody's signal", context.Canceled, 1},
	} {
		if got := try(t, fails(tt.err), "-f", "JOB"); got.status != tt.want || got.out != "" || got.errors == "" {
			t.Errorf("%s: exits with %d (%q on stdout, %q on stderr), want %d", tt.name, got.status, got.out, got.errors, tt.want)
		}
	}
}

func TestReports(t *testing.T) {
	ok := runs(func(context.Context, *job.Job, Options) (*Report, error) { return fine, nil })
	for _, tt := range []struct {
		args        []string
		out, errors string
	}{
		{[]string{"-f", "JOB"}, "converted\n", "warning: slow\n"},
		{[]string{"run", "-f", "JOB"}, "converted\n", "warning: slow\n"},
		{[]string{"run", "-f", "-"}, "converted\n", "warning: slow\n"},
		{[]string{"-q", "-f", "JOB"}, "converted\n", ""},
		{[]string{"-f", "JOB", "--json"}, "{\n  \"name\": \"<a>\",\n  \"schema\": \"convert/run/v1\"\n}\n", "warning: slow\n"},
		{[]string{"--json", "run", "-f", "JOB"}, "{\n  \"name\": \"<a>\",\n  \"schema\": \"convert/run/v1\"\n}\n", "warning: slow\n"},
	} {
		if got := try(t, ok, tt.args...); got.status != 0 || got.out != tt.out || got.errors != tt.errors {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want 0, %q, %q", tt.args, got.status, got.out, got.errors, tt.out, tt.errors)
		}
	}
}

func TestOptionsReachTheCore(t *testing.T) {
	var got Options
	var path job.Path
	c := runs(func(_ context.Context, j *job.Job, o Options) (*Report, error) {
		got, path = o, j.Target.Path
		return fine, nil
	})
	try(t, c, "-v", "-f", "JOB", "--strict", "--per-rank", "--set", "target.path=/a,b", "--set", "run.workers=1")
	if !got.Strict || !got.PerRank || !got.Verbose || got.Progress == nil || path.Full != "/a,b" {
		t.Errorf("the core gets %+v and target %v", got, path)
	}
}

func TestProgressIsShown(t *testing.T) {
	c := runs(func(_ context.Context, _ *job.Job, o Options) (*Report, error) {
		o.Progress(view.Progress{Done: 1, Total: 2})
		time.Sleep(1100 * time.Millisecond)
		o.Progress(view.Progress{Done: 2, Total: 2})
		return &Report{Text: fine.Text}, nil
	})
	got := try(t, c, "-f", "JOB", "--progress", "json")
	var line map[string]any
	if err := json.Unmarshal([]byte(strings.SplitN(got.errors, "\n", 2)[0]), &line); err != nil || line["type"] != "progress" {
		t.Errorf("stderr is %q (%v), want lines of progress", got.errors, err)
	}
	if got := try(t, c, "-f", "JOB", "--progress", "none"); got.errors != "" {
		t.Errorf("with --progress none stderr is %q", got.errors)
	}
}

func TestFailureInJSON(t *testing.T) {
	d := diag.Errorf(diag.Damaged, "data ends").InFile("a.ckpt").OfRank(0).AtByte(0).OfTensor("w").WithHint("copy it again")
	got := try(t, fails(d), "-f", "JOB", "--json")
	lines := strings.Split(strings.TrimSpace(got.errors), "\n")
	want := `{"type":"exit","code":5,"code_name":"damaged","message":"data ends","hint":"copy it again","subject":{"file":"a.ckpt","offset":0,"rank":0,"tensor":"w"}}`
	if last := lines[len(lines)-1]; last != want || got.out != "" {
		t.Errorf("stderr ends in %s, want %s", last, want)
	}
}

func TestOutputThatCannotBeWritten(t *testing.T) {
	var errs bytes.Buffer
	none := func() int { return 0 }
	status := Main(Env{
		Args: []string{"version"}, Stdout: broken{}, Stderr: &errs, Now: time.Now, StdoutWidth: none, StderrWidth: none,
		LookupEnv: func(string) (string, bool) { return "", false },
	}, Core{})
	if status != 1 || !strings.Contains(errs.String(), "cannot write to standard output: no room") {
		t.Errorf("status %d, stderr %q; want 1 and the reason", status, errs.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestHelpFitsATerminal(t *testing.T) {
	for _, args := range [][]string{
		{"help"},
		{"help", "job"},
		{"help", "layout"},
		{"help", "mapping"},
		{"help", "exit-codes"},
		{"help", "json"},
		{"help", "memory"},
		{"help", "troubleshooting"},
		{"help", "inspect"},
	} {
		got := try(t, Core{}, args...)
		if got.status != 0 || len(got.out) < 200 {
			t.Errorf("%v: status %d, %d bytes", args, got.status, len(got.out))
		}
		for line := range strings.Lines(got.out) {
			if view.Width(line) > 100 {
				t.Errorf("%v: the line %q is too long", args, line)
			}
		}
	}
}

// A signal cancels the context; what the core then reports as cancelled exits
// with 75.
func TestInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot interrupt itself here")
	}
	c := runs(func(ctx context.Context, _ *job.Job, _ Options) (*Report, error) {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return nil, err
		}
		if err := self.Signal(os.Interrupt); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, fmt.Errorf("copying: %w", ctx.Err())
	})
	got := try(t, c, "-f", "JOB")
	if got.status != 75 || !strings.HasPrefix(got.errors, "error: interrupted\n") {
		t.Errorf("status %d, stderr %q; want 75 and why", got.status, got.errors)
	}
}

const stuck = "CONVERT_TEST_STUCK"

// The second signal ends even a core that does not listen.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	if os.Getenv(stuck) != "" {
		c := runs(func(ctx context.Context, _ *job.Job, _ Options) (*Report, error) {
			fmt.Println("ready")
			<-ctx.Done()
			fmt.Println("cancelled")
			time.Sleep(time.Minute)
			return nil, errors.New("nobody has ended this")
		})
		os.Exit(try(t, c, "-f", "JOB").status)
	}
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted here")
	}
	p := exec.Command(os.Args[0], "-test.run=^TestSecondSignalEndsAtOnce$")
	p.Env = append(os.Environ(), stuck+"=1", "TMPDIR="+t.TempDir()) // it ends without taking its folder away
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	for _, word := range []string{"ready", "cancelled"} {
		n, err := out.Read(buf)
		if err != nil || !strings.Contains(string(buf[:n]), word) {
			t.Fatalf("the program says %q (%v), want %q", buf[:n], err, word)
		}
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	err = p.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 75 {
		t.Errorf("the program ends with %v, want status 75", err)
	}
}

func TestManyDiagnosticsAreCut(t *testing.T) {
	var list diag.List
	for i := range 100 {
		list = append(list, diag.Errorf(diag.Usage, "error %d", i))
	}
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"-f", "JOB"}, 20}, {[]string{"-f", "JOB", "-v"}, 100},
	} {
		got := try(t, fails(list), tt.args...)
		if n := strings.Count(got.errors, "error: "); n != tt.want || got.status != 2 {
			t.Errorf("%v: %d errors are shown, want %d", tt.args, n, tt.want)
		}
		if more := strings.HasSuffix(got.errors, "\n… and 80 more (`-v`)\n"); more != (tt.want == 20) {
			t.Errorf("%v: stderr ends in %q", tt.args, got.errors[len(got.errors)-40:])
		}
	}
}
