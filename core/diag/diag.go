// Package diag holds what a user should read as data: an error, a warning or
// a note, with a place and a hint. Core and formats make diagnostics and never
// print them; the command line draws them.
package diag

import (
	"errors"
	"fmt"
	"strings"
)

// Severity says how bad it is.
type Severity uint8

// The severities.
const (
	Error Severity = iota
	Warning
	Note
)

func (s Severity) String() string {
	return [...]string{"error", "warning", "note"}[s]
}

// Code is the class of a diagnostic; the exit status follows from it.
type Code string

// The codes.
const (
	Failed      Code = "failed"      // anything else: exit 1
	Usage       Code = "usage"       // bad invocation or job file, nothing was touched: exit 2
	Damaged     Code = "damaged"     // the source is damaged or hostile: exit 5
	Differs     Code = "differs"     // contents differ: exit 4
	Stale       Code = "stale"       // the plan no longer fits the sources: exit 6
	Plugin      Code = "plugin"      // a plugin failed: exit 7
	Interrupted Code = "interrupted" // interrupted or transient, run again: exit 75
)

// Subject is what a diagnostic is about. Zero fields are unknown.
type Subject struct {
	File   string // a path, relative to the checkpoint's root where there is one
	Line   int    // 1-based; of a text file
	Column int    // 1-based
	Source string // the text of that line, for the caret
	Width  int    // characters to underline
	Rank   int    // meaningful if HasRank
	Tensor string
	Offset int64 // in bytes; meaningful if HasOffset

	HasRank, HasOffset bool
}

// Diagnostic is one thing that a user should read. It is an error.
type Diagnostic struct {
	Severity Severity
	Code     Code
	Summary  string // lower case, no full stop, literals in backticks
	Hint     string // what to do
	Subject  Subject
	Err      error // the cause, for errors.Is and errors.As
}

// Error gives the diagnostic in one line, the place first.
func (d *Diagnostic) Error() string {
	var b strings.Builder
	if s := d.Subject.String(); s != "" {
		b.WriteString(s)
		b.WriteString(": ")
	}
	b.WriteString(d.Summary)
	if d.Err != nil {
		b.WriteString(": ")
		b.WriteString(d.Err.Error())
	}
	return b.String()
}

func (d *Diagnostic) Unwrap() error { return d.Err }

// String names the place: file, line, rank and byte, as far as they are known.
func (s Subject) String() string {
	var parts []string
	switch {
	case s.File != "" && s.Line > 0 && s.Column > 0:
		parts = append(parts, fmt.Sprintf("%s:%d:%d", s.File, s.Line, s.Column))
	case s.File != "" && s.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d", s.File, s.Line))
	case s.File != "":
		parts = append(parts, s.File)
	}
	if s.HasRank {
		parts = append(parts, fmt.Sprintf("rank %d", s.Rank))
	}
	if s.HasOffset {
		parts = append(parts, fmt.Sprintf("at byte %d", s.Offset))
	}
	return strings.Join(parts, " ")
}

// Errorf makes an error of class c.
func Errorf(c Code, format string, args ...any) *Diagnostic {
	return &Diagnostic{Severity: Error, Code: c, Summary: fmt.Sprintf(format, args...)}
}

// Warnf makes a warning.
func Warnf(format string, args ...any) *Diagnostic {
	return &Diagnostic{Severity: Warning, Summary: fmt.Sprintf(format, args...)}
}

// WithHint sets the hint and returns d.
func (d *Diagnostic) WithHint(format string, args ...any) *Diagnostic {
	d.Hint = fmt.Sprintf(format, args...)
	return d
}

// InFile sets the file and returns d.
func (d *Diagnostic) InFile(path string) *Diagnostic {
	d.Subject.File = path
	return d
}

// OfRank sets the rank and returns d.
func (d *Diagnostic) OfRank(r int) *Diagnostic {
	d.Subject.Rank, d.Subject.HasRank = r, true
	return d
}

// OfTensor sets the tensor and returns d.
func (d *Diagnostic) OfTensor(name string) *Diagnostic {
	d.Subject.Tensor = name
	return d
}

// AtByte sets the offset and returns d.
func (d *Diagnostic) AtByte(off int64) *Diagnostic {
	d.Subject.Offset, d.Subject.HasOffset = off, true
	return d
}

// Wrap sets the cause and returns d.
func (d *Diagnostic) Wrap(err error) *Diagnostic {
	d.Err = err
	return d
}

// List is several diagnostics; as an error it is the first one and a count.
type List []*Diagnostic

func (l List) Error() string {
	switch len(l) {
	case 0:
		return "no errors"
	case 1:
		return l[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", l[0].Error(), len(l)-1)
}

// Unwrap gives the diagnostics to errors.As.
func (l List) Unwrap() []error {
	out := make([]error, len(l))
	for i, d := range l {
		out[i] = d
	}
	return out
}

// Err returns l as an error, and nil where it is empty.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// From returns the diagnostics that err holds, or one of class Failed made
// from its text.
func From(err error) List {
	if err == nil {
		return nil
	}
	var l List
	if errors.As(err, &l) {
		return l
	}
	var d *Diagnostic
	if errors.As(err, &d) {
		return List{d}
	}
	return List{Errorf(Failed, "%v", err).Wrap(nil)}
}
