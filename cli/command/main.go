package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/diag"
)

// app is one run of the program.
type app struct {
	Env
	core     Core
	root     *cobra.Command
	commands []*cobra.Command // in the order of the help

	json, quiet, verbose bool
	color                view.ColorMode
	progress             view.ProgressMode
}

// Main runs the program and returns its exit status.
func Main(e Env, c Core) int {
	ctx, stop := interruptible()
	defer stop()
	a := &app{Env: e, core: c, color: view.ColorAuto, progress: view.ProgressAuto}
	a.build()
	a.root.SetArgs(e.Args)
	return a.finish(ctx, a.root.ExecuteContext(ctx))
}

// interruptible is a context that the first SIGINT or SIGTERM cancels, so that
// a command can leave things in order; the second ends the program at once.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-signals:
				if n > 0 {
					os.Exit(status(diag.Interrupted))
				}
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}

// status is the exit status of a class of errors.
func status(c diag.Code) int {
	switch c {
	case diag.Usage:
		return 2
	case diag.Differs:
		return 4
	case diag.Damaged:
		return 5
	case diag.Stale:
		return 6
	case diag.Plugin:
		return 7
	case diag.Interrupted:
		return 75
	}
	return 1
}

// finish shows why a command has failed, if it has, and gives the status.
func (a *app) finish(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	list := diag.From(err)
	first := leading(list)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) && first.Code != diag.Interrupted {
		first = diag.Errorf(diag.Interrupted, "interrupted").WithHint("run the same command again")
		list = diag.List{first}
	}
	a.tell(list)
	if a.json || slices.Contains(a.Args, "--json") { // a flag before it may have been wrong
		a.exitLine(first)
	}
	return status(first.Code)
}

// leading is the diagnostic that decides the exit status: the first error.
func leading(list diag.List) *diag.Diagnostic {
	for _, d := range list {
		if d.Severity == diag.Error {
			return d
		}
	}
	return diag.Errorf(diag.Failed, "failed")
}

// exitLine ends standard error with what a script wants to know.
func (a *app) exitLine(d *diag.Diagnostic) {
	subject := map[string]any{}
	s := d.Subject
	for k, v := range map[string]string{"file": s.File, "tensor": s.Tensor} {
		if v != "" {
			subject[k] = view.Clean(v)
		}
	}
	for k, v := range map[string]int{"line": s.Line, "column": s.Column} {
		if v > 0 {
			subject[k] = v
		}
	}
	if s.HasRank {
		subject["rank"] = s.Rank
	}
	if s.HasOffset {
		subject["offset"] = s.Offset
	}
	code := d.Code
	if code == "" {
		code = diag.Failed
	}
	message := d.Summary
	if d.Err != nil {
		message += ": " + d.Err.Error()
	}
	line := struct {
		Type    string         `json:"type"`
		Code    int            `json:"code"`
		Name    diag.Code      `json:"code_name"`
		Message string         `json:"message"`
		Hint    string         `json:"hint,omitempty"`
		Subject map[string]any `json:"subject,omitempty"`
	}{"exit", status(code), code, message, view.Hint(d), subject}
	e := json.NewEncoder(a.Stderr)
	e.SetEscapeHTML(false)
	_ = e.Encode(line) // there is nowhere left to report to
}

// mostShown is how many diagnostics are shown without -v. A slip in a job that
// a program has written can come back thousands of times.
const mostShown = 20

// tell writes diagnostics to standard error; -q leaves errors only.
func (a *app) tell(list diag.List) {
	var shown diag.List
	for _, d := range list {
		if !a.quiet || d.Severity == diag.Error {
			shown = append(shown, d)
		}
	}
	more := ""
	if !a.verbose && len(shown) > mostShown+1 {
		more = "\n" + view.More(len(shown)-mostShown, "-v") + "\n"
		shown = shown[:mostShown]
	}
	// There is nowhere left to report to.
	_ = view.Diagnostics(a.Stderr, a.stderrStyle(), shown)
	_, _ = io.WriteString(a.Stderr, more)
}

func (a *app) getenv(name string) string {
	v, _ := a.LookupEnv(name)
	return v
}

func (a *app) stderrStyle() view.Style {
	w := a.StderrWidth()
	return view.Style{Color: view.Color(a.color, w > 0, a.getenv), Width: w}
}

func (a *app) stdoutStyle() view.Style {
	w := a.StdoutWidth()
	return view.Style{Color: view.Color(a.color, w > 0, a.getenv), Width: w}
}

// report calls the core, shows progress meanwhile and then the result.
func (a *app) report(ctx context.Context, f func(context.Context, func(view.Progress)) (*Report, error)) error {
	var r *Report
	err := a.watch(func(progress func(view.Progress)) (err error) {
		r, err = f(ctx, progress)
		return err
	})
	if err != nil {
		return err
	}
	a.tell(r.Warnings)
	if r.Done && a.quiet && !a.json {
		return nil
	}
	return a.print(r.Document, r.Text)
}

// print writes a result as JSON or as text.
func (a *app) print(document any, text func(io.Writer, view.Style) error) error {
	w := bufio.NewWriter(a.Stdout)
	var err error
	if a.json {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(document)
	} else {
		err = text(w, a.stdoutStyle())
	}
	if e := w.Flush(); err == nil {
		err = e
	}
	if err != nil {
		return diag.Errorf(diag.Failed, "cannot write to standard output").Wrap(err)
	}
	return nil
}

// watch shows progress while f runs.
func (a *app) watch(f func(func(view.Progress)) error) error {
	mode := a.progress.Resolve(a.StderrWidth() > 0, a.getenv)
	if a.quiet && a.progress == view.ProgressAuto {
		mode = view.ProgressNone
	}
	d := view.NewDisplay(a.Stderr, mode, a.stderrStyle, a.Now())
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				d.Tick(a.Now())
			case <-done:
				return
			}
		}
	}()
	err := f(func(p view.Progress) { d.Update(a.Now(), p) })
	close(done)
	<-stopped
	d.Clear()
	return err
}
