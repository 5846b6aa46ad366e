package command

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/job"
)

// maxJob is more than the job's own limit, so that the job reports it.
const maxJob = 17 << 20

// jobFlags are the flags of commands that read a job.
type jobFlags struct {
	file            string
	set             []string
	strict, perRank bool
}

func (f *jobFlags) add(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVarP(&f.file, "file", "f", "", "the `job.toml`, or - for standard input")
	fs.StringArrayVar(&f.set, "set", nil, "over what the job says, a `key=value` such as target.path=out (repeatable)")
	fs.BoolVar(&f.strict, "strict", false, "oddities in source files are errors")
	fs.BoolVar(&f.perRank, "per-rank", false, "convert each rank's file for itself, without resharding")
	_ = c.MarkFlagFilename("file", "toml") // only fails for a flag that does not exist
}

func (f *jobFlags) options(a *app, progress func(view.Progress)) Options {
	return Options{Strict: f.strict, PerRank: f.perRank, Verbose: a.verbose, Progress: progress}
}

// load reads the job and shows its warnings.
func (a *app) load(c *cobra.Command, f *jobFlags) (*job.Job, error) {
	if f.file == "" {
		return nil, diag.Errorf(diag.Usage, "no job is given").WithHint("`convert %s -f job.toml`", c.Name())
	}
	name, dir, text, err := a.awaitJob(c.Context(), f.file)
	if err != nil {
		return nil, err
	}
	var formats []string
	for _, x := range a.core.Formats {
		formats = append(formats, x.Describe().Name)
	}
	j, list := job.Parse(name, text, job.Options{Env: a.LookupEnv, Set: f.set, Dir: dir, Formats: formats})
	if j == nil {
		return nil, list
	}
	a.tell(list)
	return j, nil
}

// awaitJob reads the job. A terminal or a pipe may never give one: a signal ends
// the waiting, and the program with it.
func (a *app) awaitJob(ctx context.Context, path string) (name, dir string, text []byte, err error) {
	done := make(chan struct{})
	var n, d string
	var b []byte
	var failed error
	go func() {
		defer close(done)
		n, d, b, failed = a.readJob(path)
	}()
	select {
	case <-done:
		return n, d, b, failed
	case <-ctx.Done():
		return "", "", nil, ctx.Err()
	}
}

func (a *app) readJob(path string) (name, dir string, text []byte, err error) {
	if path == "-" {
		text, err = io.ReadAll(io.LimitReader(a.Stdin, maxJob))
		if err != nil {
			return "", "", nil, diag.Errorf(diag.Usage, "cannot read the job from standard input").Wrap(err)
		}
		return "<stdin>", "", text, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", "", nil, unreadable(path, err)
	}
	defer file.Close()
	if text, err = io.ReadAll(io.LimitReader(file, maxJob)); err != nil {
		return "", "", nil, unreadable(path, err)
	}
	return path, filepath.Dir(path), text, nil
}

// unreadable says why there is no job, and names the file once.
func unreadable(path string, err error) error {
	d := diag.Errorf(diag.Usage, "cannot read the job `%s`", path)
	if errors.Is(err, fs.ErrNotExist) {
		d.WithHint("`convert help job` says how a job is written")
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return d.Wrap(err)
}
