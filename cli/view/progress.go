package view

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// Progress is how far a run has got.
type Progress struct {
	Done, Total      int64 // bytes
	FilesDone, Files int
	File, Tensor     string // what is worked on, if that is known
}

// Meter follows a run and tells its speed.
type Meter struct {
	start time.Time
	from  []sample // within the horizon, oldest first
	last  Progress
}

type sample struct {
	at   time.Time
	done int64
}

// horizon is the time over which the speed is taken: long enough to be steady,
// short enough to show that a disk has stalled.
const horizon = 10 * time.Second

// NewMeter begins at a time.
func NewMeter(now time.Time) *Meter {
	return &Meter{start: now, from: []sample{{at: now}}}
}

// Update tells the meter how far the run has got. Times do not go back.
func (m *Meter) Update(now time.Time, p Progress) {
	m.last = p
	m.from = append(m.from, sample{now, p.Done})
	cut := 0
	for cut+2 < len(m.from) && now.Sub(m.from[cut+1].at) >= horizon {
		cut++
	}
	m.from = m.from[cut:]
	if len(m.from) > 256 { // the oldest and the newest count; what lies between is thinned out
		kept := m.from[:1]
		for i := 2; i < len(m.from); i += 2 {
			kept = append(kept, m.from[i])
		}
		if newest := m.from[len(m.from)-1]; kept[len(kept)-1] != newest {
			kept = append(kept, newest)
		}
		m.from = kept
	}
}

// Rate is the speed in bytes per second at a time, 0 where it is not known.
func (m *Meter) Rate(now time.Time) float64 {
	first, last := m.from[0], m.from[len(m.from)-1]
	seconds := now.Sub(first.at).Seconds()
	if seconds <= 0 || last.done <= first.done {
		return 0
	}
	return float64(last.done-first.done) / seconds
}

// ETA is the time that is left; false where it is not known.
func (m *Meter) ETA(now time.Time) (time.Duration, bool) {
	rate := m.Rate(now)
	left := float64(m.last.Total - m.last.Done)
	if rate <= 0 || left < 0 || left/rate > float64(1000*time.Hour/time.Second) {
		return 0, false
	}
	return time.Duration(math.Ceil(left/rate)) * time.Second, true
}

// Percent is how much is done, rounded down: 100 means all.
func (p Progress) Percent() int {
	switch {
	case p.Total <= 0 || p.Done >= p.Total:
		return 100
	case p.Done <= 0:
		return 0
	}
	return int(float64(p.Done) / float64(p.Total) * 100)
}

// Line draws progress in one line of a terminal: as much of it as fits, the
// most wanted first.
//
//	0:08  38%  [=======>            ]   9.5 / 25.1 GiB   1.2 GiB/s   eta 0:13   files 6/16
func (m *Meter) Line(now time.Time, s Style) string {
	p := m.last
	width := s.Width
	if width <= 0 {
		width = 80
	}
	room := width - 1 // a line that touches the edge wraps
	head := fmt.Sprintf("%s  %3d%%", Clock(now.Sub(m.start)), p.Percent())
	tail := ""
	for _, x := range m.facts(now) {
		if Width(head)+Width(tail)+3+Width(x) > room {
			return Cut(head+tail, max(room, 1))
		}
		tail += "   " + x
	}
	room -= Width(head) + Width(tail)
	if n := min(room-2, 24); n >= 12 {
		head += "  " + s.paint(blue, bar(p, n))
		room -= n + 2
	}
	if p.File != "" && room >= 16 {
		tail += "   " + s.paint(faint, cutLeft(Clean(p.File), room-3))
	}
	return head + tail
}

// facts are what a line says, the most wanted first.
func (m *Meter) facts(now time.Time) []string {
	p := m.last
	out := []string{BytesOf(p.Done, p.Total)}
	if r := m.Rate(now); r > 0 {
		out = append(out, Rate(r))
	}
	if eta, ok := m.ETA(now); ok {
		out = append(out, "eta "+Clock(eta))
	}
	if p.Files > 0 {
		out = append(out, fmt.Sprintf("files %d/%d", p.FilesDone, p.Files))
	}
	return out
}

func bar(p Progress, width int) string {
	inner := width - 2
	full := int(int64(inner) * int64(p.Percent()) / 100)
	body := strings.Repeat("=", full)
	if full < inner {
		body += ">" + strings.Repeat(" ", inner-full-1)
	}
	return "[" + body + "]"
}

// Log draws progress as a line of a log.
//
//	12:04:31 progress 38% 9.5/25.1GiB 1.2GiB/s eta=13s files=6/16
func (m *Meter) Log(now time.Time) string {
	p := m.last
	squeeze := strings.NewReplacer(" ", "")
	line := fmt.Sprintf("%s progress %d%% %s", now.Format("15:04:05"), p.Percent(), squeeze.Replace(BytesOf(p.Done, p.Total)))
	if r := m.Rate(now); r > 0 {
		line += " " + squeeze.Replace(Rate(r))
	}
	if eta, ok := m.ETA(now); ok {
		line += fmt.Sprintf(" eta=%ds", int64(eta/time.Second))
	}
	if p.Files > 0 {
		line += fmt.Sprintf(" files=%d/%d", p.FilesDone, p.Files)
	}
	return line
}

// JSON gives progress as one line of JSON, without the line end.
func (m *Meter) JSON(now time.Time) []byte {
	p := m.last
	v := struct {
		Type      string   `json:"type"`
		Elapsed   float64  `json:"elapsed_s"`
		Done      int64    `json:"done"`
		Total     int64    `json:"total"`
		FilesDone int      `json:"files_done"`
		Files     int      `json:"files"`
		Rate      int64    `json:"bytes_per_s"`
		ETA       *float64 `json:"eta_s,omitempty"`
		File      string   `json:"file,omitempty"`
		Tensor    string   `json:"tensor,omitempty"`
	}{
		"progress", math.Round(now.Sub(m.start).Seconds()*1000) / 1000, p.Done, p.Total, p.FilesDone, p.Files,
		int64(min(m.Rate(now), 1<<62)), nil, Clean(p.File), Clean(p.Tensor),
	}
	if eta, ok := m.ETA(now); ok {
		s := eta.Seconds()
		v.ETA = &s
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("internal error: progress is always JSON: " + err.Error())
	}
	return b
}
