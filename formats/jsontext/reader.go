package jsontext

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Reader walks one text. The caller has made sure that the text is UTF-8.
//
// A container is read as
//
//	err := r.BeginObject()
//	for err == nil && r.More('}', &err) {
//		key, err = r.Key()
//		… read or Skip the value …
//	}
//
// Slices that are returned are valid until the next string is read.
type Reader struct {
	text  []byte
	pos   int
	depth int
	first bool // no element of the innermost container was read yet
	buf   []byte
}

// NewReader begins at the start of text, which is not copied.
func NewReader(text []byte) *Reader { return &Reader{text: text} }

// Pos is where the next byte is read.
func (r *Reader) Pos() int { return r.pos }

// Space skips whitespace.
func (r *Reader) Space() {
	for r.pos < len(r.text) {
		switch r.text[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// Peek tells the kind of the next value without reading it; Bad where none
// begins.
func (r *Reader) Peek() Kind {
	r.Space()
	if r.pos == len(r.text) {
		return Bad
	}
	switch c := r.text[r.pos]; {
	case c == '{':
		return Object
	case c == '[':
		return Array
	case c == '"':
		return String
	case c == '-' || isDigit(c):
		return Number
	case c == 't' || c == 'f':
		return Bool
	case c == 'n':
		return Null
	}
	return Bad
}

// Fail makes an error at off.
func (r *Reader) Fail(off int, format string, args ...any) error {
	return &Error{Off: off, Msg: fmt.Sprintf(format, args...)}
}

// Want makes the error that something else stands where want was expected.
func (r *Reader) Want(want string) error {
	r.Space()
	if r.pos >= len(r.text) {
		return r.Fail(r.pos, "ends where %s was expected", want)
	}
	if k := r.Peek(); k != Bad {
		return r.Fail(r.pos, "has %s where %s was expected", k, want)
	}
	c, _ := utf8.DecodeRune(r.text[r.pos:])
	return r.Fail(r.pos, "has %s where %s was expected", strconv.QuoteRune(c), want)
}

// BeginObject enters an object.
func (r *Reader) BeginObject() error { return r.begin('{', "an object") }

// BeginArray enters an array.
func (r *Reader) BeginArray() error { return r.begin('[', "an array") }

func (r *Reader) begin(open byte, what string) error {
	r.Space()
	if r.pos == len(r.text) || r.text[r.pos] != open {
		return r.Want(what)
	}
	if r.depth == MaxDepth {
		return r.Fail(r.pos, "nests deeper than %d", MaxDepth)
	}
	r.depth++
	r.pos++
	r.first = true
	return nil
}

// More reports whether the innermost container, which close ends, has another
// element, and reads what separates the elements or ends it.
func (r *Reader) More(end byte, err *error) bool {
	r.Space()
	first := r.first
	r.first = false
	switch {
	case r.pos < len(r.text) && r.text[r.pos] == end:
		r.pos++
		r.depth--
		return false
	case first:
		return true
	case r.pos < len(r.text) && r.text[r.pos] == ',':
		r.pos++
		return true
	}
	*err = r.Want("`,` or `" + string(end) + "`")
	return false
}

// Key reads a key and the colon after it.
func (r *Reader) Key() ([]byte, error) {
	r.Space()
	if r.pos == len(r.text) || r.text[r.pos] != '"' {
		return nil, r.Want("a key")
	}
	key, err := r.Str()
	if err != nil {
		return nil, err
	}
	r.Space()
	if r.pos == len(r.text) || r.text[r.pos] != ':' {
		return nil, r.Want("`:`")
	}
	r.pos++
	return key, nil
}

// End makes sure that nothing but whitespace follows.
func (r *Reader) End() error {
	if r.Space(); r.pos != len(r.text) {
		c, _ := utf8.DecodeRune(r.text[r.pos:])
		return r.Fail(r.pos, "goes on with %s after its end", strconv.QuoteRune(c))
	}
	return nil
}

// Null reads null.
func (r *Reader) Null() error { return r.word("null") }

// Boolean reads true or false.
func (r *Reader) Boolean() (bool, error) {
	if r.Space(); r.pos < len(r.text) && r.text[r.pos] == 't' {
		return true, r.word("true")
	}
	return false, r.word("false")
}

func (r *Reader) word(w string) error {
	r.Space()
	if len(r.text)-r.pos < len(w) || string(r.text[r.pos:r.pos+len(w)]) != w {
		return r.Want("`" + w + "`")
	}
	r.pos += len(w)
	return nil
}

// Skip reads any value and drops it. It calls itself at most MaxDepth deep.
func (r *Reader) Skip() (err error) {
	switch r.Peek() {
	case Null:
		return r.Null()
	case Bool:
		_, err = r.Boolean()
	case Number:
		_, err = r.Num()
	case String:
		_, err = r.Str()
	case Array:
		err = r.BeginArray()
		for err == nil && r.More(']', &err) {
			err = r.Skip()
		}
	case Object:
		err = r.BeginObject()
		for err == nil && r.More('}', &err) {
			if _, err = r.Key(); err == nil {
				err = r.Skip()
			}
		}
	default:
		err = r.Want("a value")
	}
	return err
}
