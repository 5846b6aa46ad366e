package job

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-e934e81e/convert/core/diag"
)

// node is a value of the job with its place: what the decoder says joined with
// what the index says.
type node struct {
	path    string // "target.layout[2].shard"
	value   any    // string, int64, float64, bool, time.Time; nil for tables and lists
	kind    kind
	keys    []*node  // of a table, in the order of the text
	items   []*node  // of a list
	name    string   // the key, without what is around it
	place   *place   // never nil
	setting *setting // the `--set` that gives it, if one does
}

type kind uint8

const (
	scalar kind = iota
	table
	list
)

// setting is one `--set`.
type setting struct {
	text string // what follows --set
	raw  string // what follows the equals sign
}

func (n *node) field(name string) *node {
	for _, k := range n.keys {
		if k.name == name {
			return k
		}
	}
	return nil
}

// build joins a decoded value with its place.
func build(path, name string, v any, p *place, f *setting) *node {
	if p == nil {
		p = &place{}
	}
	n := &node{path: path, name: name, place: p, setting: f}
	switch v := v.(type) {
	case map[string]any:
		n.kind = table
		for k, x := range v {
			n.keys = append(n.keys, build(join(path, k), k, x, p.fields[k], f))
		}
		sort.Slice(n.keys, func(i, j int) bool {
			a, b := n.keys[i], n.keys[j]
			if a.place.key.off != b.place.key.off {
				return a.place.key.off < b.place.key.off
			}
			return a.name < b.name
		})
	case []any:
		n.kind = list
		for i, x := range v {
			n.items = append(n.items, build(fmt.Sprintf("%s[%d]", path, i), "", x, item(p, i), f))
		}
	case []map[string]any:
		n.kind = list
		for i, x := range v {
			n.items = append(n.items, build(fmt.Sprintf("%s[%d]", path, i), "", x, item(p, i), f))
		}
	default:
		n.value = v
	}
	return n
}

func item(p *place, i int) *place {
	if i < len(p.items) {
		return p.items[i]
	}
	return nil
}

// join writes a key below a path, in quotes where dots would mislead.
func join(path, key string) string {
	for i := range len(key) {
		if !bare(key[i]) {
			key = strconv.Quote(key)
			break
		}
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// places finds keys in the text of a job.
type places struct {
	file   string
	text   string
	starts []int // where each line begins
	byKey  map[string]diag.Subject
}

func newPlaces(file, text string) *places {
	s := &places{file: file, text: text, starts: []int{0}, byKey: map[string]diag.Subject{}}
	for i := range len(text) {
		if text[i] == '\n' {
			s.starts = append(s.starts, i+1)
		}
	}
	return s
}

// note remembers where all of a tree stands.
func (s *places) note(n *node) {
	if n.path != "" {
		s.byKey[n.path] = s.value(n)
	}
	for _, k := range n.keys {
		s.note(k)
	}
	for _, x := range n.items {
		s.note(x)
	}
}

func (s *places) of(key string) diag.Subject {
	for key != "" {
		if at, ok := s.byKey[key]; ok {
			return at
		}
		cut := strings.LastIndexAny(key, ".[")
		if cut < 0 {
			break
		}
		key = key[:cut]
	}
	return diag.Subject{File: s.file}
}

// value is the place of a node's value.
func (s *places) value(n *node) diag.Subject { return s.subject(n, n.place.value) }

// key is the place of a node's key.
func (s *places) key(n *node) diag.Subject { return s.subject(n, n.place.key) }

func (s *places) subject(n *node, at span) diag.Subject {
	if n.setting != nil {
		return diag.Subject{File: "--set " + n.setting.text}
	}
	if at.end == 0 {
		return diag.Subject{File: s.file}
	}
	return s.span(at)
}

// span gives a run of bytes as line, column and width in characters; what goes
// on in further lines is not underlined.
func (s *places) span(at span) diag.Subject {
	line := sort.SearchInts(s.starts, at.off+1) - 1
	start := s.starts[line]
	end := len(s.text)
	if line+1 < len(s.starts) {
		end = s.starts[line+1] - 1
	}
	source := strings.TrimSuffix(s.text[start:end], "\r")
	stop := min(max(at.end, at.off), start+len(source))
	out := diag.Subject{
		File:   s.file,
		Line:   line + 1,
		Column: utf8.RuneCountInString(s.text[start:at.off]) + 1,
		Source: source,
		Width:  1,
	}
	if stop > at.off {
		out.Width = utf8.RuneCountInString(s.text[at.off:stop])
	}
	if line == 0 {
		const bom = "\ufeff"
		if strings.HasPrefix(source, bom) {
			out.Source, out.Column = source[len(bom):], max(out.Column-1, 1)
		}
	}
	return out
}
