// Package command is the command line: one file for each command. A command
// reads its flags and its job, calls the core, and has package view draw what
// comes back. Data goes to standard output and everything else to standard
// error; the exit status follows from the class of the first error.
package command

import (
	"context"
	"io"
	"time"

	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/job"
	"github.com/seed-e934e81e/convert/core/seeded"
)

// Env is the surroundings of the program.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	LookupEnv      func(string) (string, bool)
	Now            func() time.Time

	// Columns of the terminal behind a stream, 0 where it is none.
	StdoutWidth, StderrWidth func() int
}

// Core is what the commands call. It takes no flags apart and draws nothing.
type Core struct {
	Formats []checkpoint.Format

	Run     func(ctx context.Context, j *job.Job, o Options) (*Report, error)
	Plan    func(ctx context.Context, j *job.Job, o PlanOptions) (*Report, error)
	Inspect func(ctx context.Context, path string, o InspectOptions) (*Report, error)

	// Generate writes a checkpoint of random weights to try things with. Where
	// it is nil the program has no such command.
	Generate func(ctx context.Context, path string, o GenerateOptions) (*Report, error)
}

// Options are of all commands that work on a checkpoint.
type Options struct {
	Strict   bool                // oddities are errors
	PerRank  bool                // ranks are checkpoints of their own
	Verbose  bool                // the text is to hold more
	Progress func(view.Progress) // never nil; safe for concurrent use
}

// PlanOptions are the options of plan.
type PlanOptions struct {
	Options
	All bool    // lists are shown whole
	By  view.By // what the text is broken down by
}

// InspectOptions are the options of inspect.
type InspectOptions struct {
	Options
	Match  *job.Glob // names to list; nil for all
	SHA256 bool      // sums of the tensors' bytes
}

// GenerateOptions are the options of generate.
type GenerateOptions struct {
	Options
	seeded.Project
	Words struct{ Format, DType, Mesh, To string } // as the user wrote them
	Opt   int                                      // optimizer shard of the source
	ToOpt int                                      // and of the target
	Size  int64                                    // about how many bytes; 0 takes the model's layers
}

// Report is the result of a command, ready to be shown.
type Report struct {
	Done     bool                                  // the text only tells what was done; -q leaves it out
	Document any                                   // for --json; has "schema" first
	Text     func(w io.Writer, s view.Style) error // for people
	Warnings diag.List
}
