package job

import (
	"strings"

	"github.com/BurntSushi/toml"
)

// The TOML decoder gives positions for errors of syntax only, and in arrays of
// tables always that of the last element. This index finds every key and value
// in the text itself. It takes for granted that the decoder accepts the text
// and only has to agree with it where things stand.

// Bounds of what is handed to the decoder, whose work grows with the square
// of the depth.
const (
	maxText  = 16 << 20
	maxDepth = 32 // tables and lists within each other
)

// span is a run of bytes in the text; the zero span is nowhere.
type span struct{ off, end int }

// place is where a key and its value stand, and what the value holds.
type place struct {
	key    span // of a list's item: the value
	value  span // of a table: its header, or the braces
	fields map[string]*place
	items  []*place
	tables bool // items are [[tables]]
}

func (p *place) field(key string) *place {
	if p.fields == nil {
		p.fields = map[string]*place{}
	}
	f := p.fields[key]
	if f == nil {
		f = &place{}
		p.fields[key] = f
	}
	return f
}

// fault is why and where an index ends early.
type fault struct {
	off  int
	deep bool // the text is nested too deep; otherwise it is no TOML
}

type scanner struct {
	s     string
	i     int
	fault *fault
}

// index finds the places in a text. Where it does not understand the text it
// returns what it has and the fault.
func index(text string) (*place, *fault) {
	root := &place{}
	c := &scanner{s: text}
	if strings.HasPrefix(text, "\xef\xbb\xbf") {
		c.i = 3
	}
	table := root
	for c.fault == nil {
		c.blank(true)
		switch {
		case c.i == len(c.s):
			return root, nil
		case c.s[c.i] == '[':
			table = c.header(root)
		default:
			c.pair(table, 1)
		}
	}
	return root, c.fault
}

func (c *scanner) fail() {
	if c.fault == nil {
		c.fault = &fault{off: min(c.i, len(c.s))}
	}
}

func (c *scanner) peek() byte {
	if c.i < len(c.s) {
		return c.s[c.i]
	}
	return 0
}

func (c *scanner) take(b byte) bool {
	if c.i < len(c.s) && c.s[c.i] == b {
		c.i++
		return true
	}
	return false
}

// blank passes over white space, and with lines set over line ends and
// comments too.
func (c *scanner) blank(lines bool) {
	for c.i < len(c.s) {
		switch b := c.s[c.i]; {
		case b == ' ' || b == '\t':
			c.i++
		case lines && (b == '\n' || b == '\r'):
			c.i++
		case lines && b == '#':
			if n := strings.IndexByte(c.s[c.i:], '\n'); n >= 0 {
				c.i += n
			} else {
				c.i = len(c.s)
			}
		default:
			return
		}
	}
}

// header reads `[a.b]` or `[[a.b]]` and returns its table.
func (c *scanner) header(root *place) *place {
	at := c.i
	c.i++
	list := c.take('[')
	c.blank(false)
	keys, spans := c.keys(1)
	if !c.take(']') || list && !c.take(']') {
		c.fail()
		return root
	}
	p := root
	for i, k := range keys {
		p = last(p).field(k)
		if p.key == (span{}) {
			p.key, p.value = spans[i], spans[i]
		}
	}
	whole := span{at, c.i}
	if !list {
		p = last(p)
		p.key, p.value = whole, whole
		return p
	}
	if !p.tables {
		p.tables, p.key, p.value = true, whole, whole
	}
	item := &place{key: whole, value: whole}
	p.items = append(p.items, item)
	return item
}

// last is the table that a key means inside of a list of tables: the newest.
func last(p *place) *place {
	if p.tables {
		return p.items[len(p.items)-1]
	}
	return p
}

// pair reads `key = value` into a table.
func (c *scanner) pair(table *place, depth int) {
	keys, spans := c.keys(depth)
	c.blank(false)
	if !c.take('=') {
		c.fail()
		return
	}
	p := table
	for i, k := range keys {
		p = p.field(k)
		if p.key == (span{}) {
			p.key, p.value = spans[i], spans[i]
		}
	}
	c.blank(false)
	c.value(p, depth+len(keys))
}

// keys reads a key with its dots.
func (c *scanner) keys(depth int) (keys []string, spans []span) {
	for c.fault == nil {
		at := c.i
		k, ok := c.key()
		if !ok {
			c.fail()
			break
		}
		keys, spans = append(keys, k), append(spans, span{at, c.i})
		if depth+len(keys) > maxDepth {
			c.fault = &fault{off: at, deep: true}
			break
		}
		c.blank(false)
		if !c.take('.') {
			break
		}
		c.blank(false)
	}
	return keys, spans
}

func (c *scanner) key() (string, bool) {
	at := c.i
	switch c.peek() {
	case '\'':
		if !c.text('\'') {
			return "", false
		}
		return c.s[at+1 : c.i-1], true
	case '"':
		if !c.text('"') {
			return "", false
		}
		return unquote(c.s[at:c.i])
	}
	for c.i < len(c.s) && bare(c.s[c.i]) {
		c.i++
	}
	return c.s[at:c.i], c.i > at
}

func bare(b byte) bool {
	return b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '_' || b == '-'
}

// unquote leaves escapes in a key to the decoder.
func unquote(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s[1 : len(s)-1], true
	}
	var v struct{ K string }
	_, err := toml.Decode("K = "+s, &v)
	return v.K, err == nil
}

// value reads any value.
func (c *scanner) value(p *place, depth int) {
	at := c.i
	if depth > maxDepth {
		c.fault = &fault{off: at, deep: true}
		return
	}
	switch c.peek() {
	case '"', '\'':
		c.string()
	case '[':
		c.list(p, depth)
	case '{':
		c.inline(p, depth)
	default:
		c.atom()
	}
	p.value = span{at, c.i}
}

func (c *scanner) string() {
	q := c.s[c.i : c.i+1]
	triple := q + q + q
	if !strings.HasPrefix(c.s[c.i:], triple) {
		if !c.text(q[0]) {
			c.fail()
		}
		return
	}
	for c.i += 3; c.i < len(c.s); c.i++ {
		if q == `"` && c.s[c.i] == '\\' {
			c.i++
			continue
		}
		if strings.HasPrefix(c.s[c.i:], triple) {
			c.i += 3
			for n := 0; n < 2 && c.take(q[0]); n++ { // up to two quotes may stand before the end
			}
			return
		}
	}
	c.fail()
}

// text passes over a string in one line.
func (c *scanner) text(quote byte) bool {
	for c.i++; c.i < len(c.s); c.i++ {
		switch b := c.s[c.i]; {
		case b == quote:
			c.i++
			return true
		case b == '\n':
			return false
		case b == '\\' && quote == '"':
			c.i++
		}
	}
	return false
}

func (c *scanner) list(p *place, depth int) {
	c.i++
	for c.fault == nil {
		c.blank(true)
		if c.take(']') {
			return
		}
		at := c.i
		item := &place{}
		c.value(item, depth+1)
		item.key = item.value
		p.items = append(p.items, item)
		c.blank(true)
		if !c.take(',') && c.peek() != ']' || c.i == at {
			c.fail()
		}
	}
}

func (c *scanner) inline(p *place, depth int) {
	c.i++
	for c.fault == nil {
		c.blank(true)
		if c.take('}') {
			return
		}
		c.pair(p, depth+1)
		c.blank(true)
		if !c.take(',') && c.peek() != '}' {
			c.fail()
		}
	}
}

// atom passes over a number, a boolean or a time. A time may hold a space.
func (c *scanner) atom() {
	at := c.i
	if n := strings.IndexAny(c.s[at:], ",]}#\r\n"); n >= 0 {
		c.i = at + n
	} else {
		c.i = len(c.s)
	}
	c.i = at + len(strings.TrimRight(c.s[at:c.i], " \t"))
	if c.i == at {
		c.fail()
	}
}
