package view

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 4, 23, 0, time.UTC)

func after(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

const gib = 1 << 30

func run() (*Meter, time.Time) {
	m := NewMeter(noon)
	for s := 1; s <= 8; s++ {
		m.Update(after(float64(s)), Progress{Done: int64(s) * 12 * gib / 10, Total: 251 * gib / 10, FilesDone: s, Files: 16, File: "rank_5/llama2.ckpt", Tensor: "w"})
	}
	return m, after(8)
}

func TestMeter(t *testing.T) {
	m, now := run()
	if got := Rate(m.Rate(now)); got != "1.2 GiB/s" {
		t.Errorf("the rate is %s, want 1.2 GiB/s", got)
	}
	if eta, ok := m.ETA(now); !ok || eta != 13*time.Second {
		t.Errorf("the eta is %v, %v; want 13 s", eta, ok)
	}
	if got := Rate(m.Rate(after(16))); got != "614.4 MiB/s" {
		t.Errorf("8 s after it has stalled the rate is %s, want half", got)
	}
}

func TestMeterForgetsWhatIsLongAgo(t *testing.T) {
	m := NewMeter(noon)
	m.Update(after(1), Progress{Done: 100 * gib, Total: 1000 * gib})
	for s := 2; s <= 100; s++ {
		m.Update(after(float64(s)), Progress{Done: 100*gib + int64(s)*1024, Total: 1000 * gib})
	}
	if got := Rate(m.Rate(after(100))); got != "1.0 KiB/s" {
		t.Errorf("the rate is %s, want that of the last seconds, 1.0 KiB/s", got)
	}
	if _, ok := m.ETA(after(100)); ok {
		t.Error("an eta of decades is shown")
	}
}

func TestMeterKeepsFewSamples(t *testing.T) {
	m := NewMeter(noon)
	for i := 1; i <= 100000; i++ {
		m.Update(after(float64(i)/1e5), Progress{Done: int64(i), Total: 1e6})
	}
	if len(m.from) > 300 {
		t.Errorf("%d samples are kept", len(m.from))
	}
	if got := m.Rate(after(1)); got < 99000 || got > 101000 {
		t.Errorf("the rate is %.0f, want 100000", got)
	}
}

func TestLine(t *testing.T) {
	m, now := run()
	for _, tt := range []struct {
		width int
		want  string
	}{
		{120, "0:08   38%  [========>             ]   9.6 / 25.1 GiB   1.2 GiB/s   eta 0:13   files 8/16   rank_5/llama2.ckpt"},
		{90, "0:08   38%  [========>             ]   9.6 / 25.1 GiB   1.2 GiB/s   eta 0:13   files 8/16"},
		{60, "0:08   38%   9.6 / 25.1 GiB   1.2 GiB/s   eta 0:13"},
		{12, "0:08   38%"},
	} {
		got := m.Line(now, Style{Width: tt.width})
		if got != tt.want {
			t.Errorf("in %d columns: %q, want %q", tt.width, got, tt.want)
		}
	}
	for width := 1; width < 200; width++ {
		if got := visible(m.Line(now, Style{Width: width, Color: true})); got >= max(width, 2) {
			t.Errorf("in %d columns the line takes %d; one that touches the edge wraps", width, got)
		}
	}
}

func TestLog(t *testing.T) {
	m, now := run()
	if got, want := m.Log(now), "12:04:31 progress 38% 9.6/25.1GiB 1.2GiB/s eta=13s files=8/16"; got != want {
		t.Errorf("Log = %q, want %q", got, want)
	}
}

func TestJSON(t *testing.T) {
	m, now := run()
	var got map[string]any
	if err := json.Unmarshal(m.JSON(now), &got); err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]any{"type": "progress", "elapsed_s": 8.0, "files": 16.0, "files_done": 8.0, "eta_s": 13.0, "file": "rank_5/llama2.ckpt"} {
		if got[k] != want {
			t.Errorf("%s is %v, want %v", k, got[k], want)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, tt := range []struct {
		p    Progress
		want int
	}{
		{Progress{}, 100},
		{Progress{Total: 3}, 0},
		{Progress{Done: 2, Total: 3}, 66},
		{Progress{Done: 999999, Total: 1000000}, 99},
		{Progress{Done: 3, Total: 3}, 100},
		{Progress{Done: 1 << 61, Total: 1 << 62}, 50},
	} {
		if got := tt.p.Percent(); got != tt.want {
			t.Errorf("%+v is %d%%, want %d%%", tt.p, got, tt.want)
		}
	}
}

func TestDisplay(t *testing.T) {
	for _, tt := range []struct {
		mode  ProgressMode
		lines int // in 61 s with an update each tenth of a second
	}{
		{ProgressTTY, 610}, {ProgressPlain, 2}, {ProgressJSON, 61}, {ProgressNone, 0},
	} {
		var b strings.Builder
		d := NewDisplay(&b, tt.mode, func() Style { return Style{Width: 80} }, noon)
		for i := 1; i <= 610; i++ {
			d.Update(noon.Add(time.Duration(i)*100*time.Millisecond), Progress{Done: int64(i), Total: 1000})
		}
		sep := "\n"
		if tt.mode == ProgressTTY {
			sep = "\r\x1b[K"
		}
		if got := strings.Count(b.String(), sep); got != tt.lines {
			t.Errorf("%s writes %d lines in 61 s, want %d", tt.mode, got, tt.lines)
		}
		before := b.Len()
		d.Clear()
		d.Clear()
		if got, want := b.String()[before:] != "", tt.mode == ProgressTTY; got != want {
			t.Errorf("%s: clearing writes %q", tt.mode, b.String()[before:])
		}
	}
}

func TestDisplayTicks(t *testing.T) {
	var b strings.Builder
	d := NewDisplay(&b, ProgressPlain, func() Style { return Style{} }, noon)
	d.Tick(after(40))
	if b.Len() > 0 {
		t.Errorf("before anything has happened %q is shown", b.String())
	}
	d.Update(after(1), Progress{Done: 1, Total: 2})
	d.Tick(after(31))
	if !strings.HasPrefix(b.String(), "12:04:54 progress 50%") {
		t.Errorf("a run that stalls shows %q", b.String())
	}
}

func TestResolve(t *testing.T) {
	for _, tt := range []struct {
		mode     ProgressMode
		terminal bool
		off      string
		want     ProgressMode
	}{
		{ProgressAuto, true, "", ProgressTTY},
		{ProgressAuto, false, "", ProgressPlain},
		{ProgressAuto, true, "1", ProgressNone},
		{ProgressJSON, true, "1", ProgressJSON},
		{ProgressNone, true, "", ProgressNone},
	} {
		env := func(n string) string { return map[string]string{"CONVERT_NO_PROGRESS": tt.off, "TERM": "xterm"}[n] }
		if got := tt.mode.Resolve(tt.terminal, env); got != tt.want {
			t.Errorf("%s (terminal %v, off %q) is %s, want %s", tt.mode, tt.terminal, tt.off, got, tt.want)
		}
	}
}

// visible is the width of a line that may hold colours.
func visible(s string) int {
	for {
		i := strings.Index(s, "\x1b[")
		if i < 0 {
			return Width(s)
		}
		j := strings.IndexByte(s[i:], 'm')
		if j < 0 {
			return Width(s)
		}
		s = s[:i] + s[i+j+1:]
	}
}
