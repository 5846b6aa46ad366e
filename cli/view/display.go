package view

import (
	"io"
	"sync"
	"time"
)

// ProgressMode is what `--progress` says.
type ProgressMode string

// The ways to show progress.
const (
	ProgressAuto  ProgressMode = "auto"  // a terminal gets a line that is redrawn, anything else a log
	ProgressTTY   ProgressMode = "tty"   // a line that is redrawn
	ProgressPlain ProgressMode = "plain" // a line each 30 seconds
	ProgressJSON  ProgressMode = "json"  // a line of JSON each second
	ProgressNone  ProgressMode = "none"
)

// Resolve decides what auto means. CONVERT_NO_PROGRESS turns progress off
// unless `--progress` asks for a way.
func (m ProgressMode) Resolve(terminal bool, env func(string) string) ProgressMode {
	switch {
	case m != ProgressAuto:
		return m
	case env("CONVERT_NO_PROGRESS") != "":
		return ProgressNone
	case terminal && env("TERM") != "dumb":
		return ProgressTTY
	}
	return ProgressPlain
}

func (m ProgressMode) every() time.Duration {
	switch m {
	case ProgressTTY:
		return 100 * time.Millisecond
	case ProgressJSON:
		return time.Second
	}
	return 30 * time.Second
}

// Display writes progress as it goes on. It is safe for concurrent use.
type Display struct {
	mu    sync.Mutex
	w     io.Writer
	mode  ProgressMode
	style func() Style // asked each time, for a terminal changes its width
	meter *Meter
	drawn time.Time
	shown bool // a line stands in the terminal
}

// NewDisplay begins to show progress; mode is resolved.
func NewDisplay(w io.Writer, mode ProgressMode, style func() Style, now time.Time) *Display {
	return &Display{w: w, mode: mode, style: style, meter: NewMeter(now), drawn: now}
}

// Update takes note of how far the run has got, and shows it if it is time.
func (d *Display) Update(now time.Time, p Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.meter.Update(now, p)
	d.draw(now)
}

// Tick shows the progress if it is time, although nothing has happened.
func (d *Display) Tick(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draw(now)
}

// draw does not report errors of writing: that a terminal is gone must not end
// a run.
func (d *Display) draw(now time.Time) {
	if d.mode == ProgressNone || now.Sub(d.drawn) < d.mode.every() || d.meter.last == (Progress{}) {
		return
	}
	d.drawn = now
	switch d.mode {
	case ProgressTTY:
		_, _ = io.WriteString(d.w, "\r\x1b[K"+d.meter.Line(now, d.style()))
		d.shown = true
	case ProgressJSON:
		_, _ = d.w.Write(append(d.meter.JSON(now), '\n'))
	default:
		_, _ = io.WriteString(d.w, d.meter.Log(now)+"\n")
	}
}

// Clear takes the line out of the terminal, so that something else can be
// written there. The next update draws it again.
func (d *Display) Clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shown {
		_, _ = io.WriteString(d.w, "\r\x1b[K")
		d.shown = false
	}
}
