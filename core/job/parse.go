package job

import (
	"errors"
	"regexp"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/seed-e934e81e/convert/core/diag"
)

// Options is what a job depends on beside its text.
type Options struct {
	Env     func(name string) (string, bool) // looks up `${NAME}`; nil: nothing is set
	Set     []string                         // "target.path=out", in the order given; the last one wins
	Dir     string                           // the folder that relative paths begin at
	Formats []string                         // names that `format` may have; nil: any
}

// Parse reads the text of a job file called name. The list holds errors, and
// then the job is nil, or warnings. All diagnostics are of class Usage and
// have a place in the text, or the `--set` that they are about.
func Parse(name string, text []byte, o Options) (*Job, diag.List) {
	d := &decoder{at: newPlaces(name, string(text)), options: o, near: map[string]bool{}}
	root := d.read(string(text))
	if root == nil {
		return nil, d.list
	}
	for _, s := range o.Set {
		d.set(root, s)
	}
	d.at.note(root)
	j := defaults()
	j.Name, j.Text, j.places = name, text, d.at
	d.job(root, &j)
	d.sort()
	if d.errors > 0 {
		return nil, d.list
	}
	return &j, d.list
}

// read decodes the text, or returns nil and leaves the reason in the list.
func (d *decoder) read(text string) *node {
	if len(text) > maxText {
		d.fail(diag.Subject{File: d.at.file}, "the job has %d bytes, at most %d are read", len(text), maxText)
		return nil
	}
	places, fault := index(text)
	given := text
	if fault != nil {
		if fault.deep {
			d.fail(d.at.span(span{fault.off, fault.off + 1}), "nested too deep: at most %d tables and lists lie in each other", maxDepth)
			return nil
		}
		// The decoder may see no more than the index did: its work has no bound
		// that the depth does not give it.
		if n := strings.IndexByte(text[fault.off:], '\n'); n >= 0 {
			given = text[:fault.off+n+1]
		}
	}
	var v map[string]any
	_, err := toml.Decode(given, &v)
	switch {
	case err != nil:
		d.syntax(err)
		return nil
	case fault != nil:
		d.fail(d.at.span(span{fault.off, fault.off + 1}), "this is no TOML")
		return nil
	}
	return build("", "", v, places, nil)
}

var quoted = regexp.MustCompile(`'([^']+)'`)

// syntax gives a decoder's error the form of all others.
func (d *decoder) syntax(err error) {
	var pe toml.ParseError
	if !errors.As(err, &pe) {
		d.fail(diag.Subject{File: d.at.file}, "the job is no TOML: %v", err)
		return
	}
	off := pe.Position.Start
	if strings.HasPrefix(d.at.text, "\xef\xbb\xbf") {
		off += 3
	}
	off = min(max(off, 0), len(d.at.text))
	msg := strings.TrimSuffix(quoted.ReplaceAllString(pe.Message, "`$1`"), ".")
	if msg != "" {
		msg = strings.ToLower(msg[:1]) + msg[1:]
	}
	e := d.fail(d.at.span(span{off, off + max(pe.Position.Len, 1)}), "the job is no TOML: %s", msg)
	switch {
	case strings.HasPrefix(msg, "expected value but found"):
		e.WithHint("text is written in quotes: `path = \"out\"`")
	case strings.HasPrefix(msg, "invalid escape"):
		e.WithHint("in single quotes a backslash is a character like any other: `'C:\\models'`")
	}
}

// sort puts the diagnostics in the order of the text, those without a line
// last.
func (d *decoder) sort() {
	sort.SliceStable(d.list, func(i, j int) bool {
		a, b := d.list[i].Subject, d.list[j].Subject
		switch {
		case a.Line == 0 || b.Line == 0:
			return a.Line != 0
		case a.Line != b.Line:
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
}
