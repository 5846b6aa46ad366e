package jsontext

import (
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

func isDigit(c byte) bool { return c-'0' < 10 }

// Str reads a string and undoes its escapes. The result is valid until the
// next string is read, and may alias the text.
func (r *Reader) Str() ([]byte, error) {
	r.Space()
	if r.pos == len(r.text) || r.text[r.pos] != '"' {
		return nil, r.Want("a string")
	}
	begin := r.pos + 1
	for i := begin; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == '"':
			r.pos = i + 1
			return r.text[begin:i], nil
		case c == '\\':
			r.buf = append(r.buf[:0], r.text[begin:i]...)
			r.pos = i
			return r.escaped()
		case c < ' ':
			return nil, r.Fail(i, "has the control character %#02x in a string, which must be escaped", c)
		}
	}
	return nil, r.Fail(len(r.text), "ends within a string")
}

// escaped goes on with a string at its first backslash.
func (r *Reader) escaped() ([]byte, error) {
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; {
		case c == '"':
			r.pos++
			return r.buf, nil
		case c == '\\':
			if err := r.escape(); err != nil {
				return nil, err
			}
		case c < ' ':
			return nil, r.Fail(r.pos, "has the control character %#02x in a string, which must be escaped", c)
		default:
			r.buf = append(r.buf, c)
			r.pos++
		}
	}
	return nil, r.Fail(len(r.text), "ends within a string")
}

// escape undoes one escape.
func (r *Reader) escape() error {
	at := r.pos
	if at+1 == len(r.text) {
		return r.Fail(at, "ends within a string")
	}
	c := r.text[at+1]
	r.pos += 2
	switch c {
	case '"', '\\', '/':
		r.buf = append(r.buf, c)
	case 'b':
		r.buf = append(r.buf, '\b')
	case 'f':
		r.buf = append(r.buf, '\f')
	case 'n':
		r.buf = append(r.buf, '\n')
	case 'r':
		r.buf = append(r.buf, '\r')
	case 't':
		r.buf = append(r.buf, '\t')
	case 'u':
		u, ok := r.hex4()
		if ok && utf16.IsSurrogate(u) {
			low := rune(0)
			if r.pos+1 < len(r.text) && r.text[r.pos] == '\\' && r.text[r.pos+1] == 'u' {
				r.pos += 2
				low, ok = r.hex4()
			}
			if u = utf16.DecodeRune(u, low); ok && u == utf8.RuneError {
				return r.Fail(at, "has half a surrogate pair in a string")
			}
		}
		if !ok {
			return r.Fail(at, "has a `\\u` without four hexadecimal digits in a string")
		}
		r.buf = utf8.AppendRune(r.buf, u)
	default:
		return r.Fail(at, "has an unknown escape in a string")
	}
	return nil
}

func (r *Reader) hex4() (rune, bool) {
	if len(r.text)-r.pos < 4 {
		return 0, false
	}
	var u rune
	for _, c := range r.text[r.pos : r.pos+4] {
		switch {
		case isDigit(c):
			u = u<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			u = u<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	r.pos += 4
	return u, true
}

// Num reads a number and returns its text. A number beyond float64 is an
// error, as it is for serde_json.
func (r *Reader) Num() ([]byte, error) {
	r.Space()
	begin, i := r.pos, r.pos
	digits := func() bool {
		from := i
		for i < len(r.text) && isDigit(r.text[i]) {
			i++
		}
		return i > from
	}
	if i < len(r.text) && r.text[i] == '-' {
		i++
	}
	zero := i < len(r.text) && r.text[i] == '0'
	whole := i
	ok := digits()
	if !ok && begin == whole {
		return nil, r.Want("a number")
	}
	ok = ok && (!zero || i == whole+1)
	long := i-whole > 300
	if ok && i < len(r.text) && r.text[i] == '.' {
		i++
		ok = digits()
	}
	if ok && i < len(r.text) && r.text[i]|0x20 == 'e' {
		if i++; i < len(r.text) && (r.text[i] == '+' || r.text[i] == '-') {
			i++
		}
		ok, long = digits(), true
	}
	if !ok {
		return nil, r.Fail(begin, "has a number that is not well formed")
	}
	if long {
		if f, _ := strconv.ParseFloat(string(r.text[begin:i]), 64); math.IsInf(f, 0) {
			return nil, r.Fail(begin, "has a number beyond the range of float64")
		}
	}
	r.pos = i
	return r.text[begin:i], nil
}

// Uint reads a whole number of 64 bits without a sign. `4.0`, `16e0` and `-0`
// are none. Short numbers in a list, of which headers are full, are read
// without a second look.
func (r *Reader) Uint() (uint64, error) {
	r.Space()
	begin, n := r.pos, uint64(0)
	i := begin
	for i < len(r.text) && isDigit(r.text[i]) && i-begin < 19 {
		n = n*10 + uint64(r.text[i]-'0')
		i++
	}
	if i > begin && i < len(r.text) && (r.text[i] == ',' || r.text[i] == ']') && (r.text[begin] != '0' || i == begin+1) {
		r.pos = i
		return n, nil
	}
	text, err := r.Num()
	if err != nil {
		return 0, err
	}
	n = 0
	for _, c := range text {
		d := uint64(c - '0')
		if !isDigit(c) || n > (math.MaxUint64-d)/10 {
			return 0, r.Fail(begin, "has %s where a whole number of 64 bits was expected", clip(text))
		}
		n = n*10 + d
	}
	return n, nil
}

func clip(text []byte) string {
	if len(text) > 40 {
		return "`" + string(text[:40]) + "…`"
	}
	return "`" + string(text) + "`"
}
