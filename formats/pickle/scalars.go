package pickle

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

func (m *machine) number(op byte) error {
	switch op {
	case opBinInt:
		v, err := m.uint(4)
		if err != nil {
			return err
		}
		return m.make(Node{Kind: Int, Int: int64(int32(v))})
	case opBinInt1, opBinInt2:
		v, err := m.uint(int(op-opBinInt1)/2 + 1)
		if err != nil {
			return err
		}
		return m.make(Node{Kind: Int, Int: int64(v)})
	case opBinFloat:
		b, err := m.take(8)
		if err != nil {
			return err
		}
		return m.make(Node{Kind: Float, Int: int64(binary.BigEndian.Uint64(b))})
	}
	width := 1
	if op == opLong4 {
		width = 4
	}
	n, err := m.length(width)
	if err != nil {
		return err
	}
	b, err := m.take(n)
	if err != nil {
		return err
	}
	return m.make(longNode(b))
}

// longNode makes an Int of little-endian two's complement bytes.
func longNode(b []byte) Node {
	for len(b) > 8 && (b[len(b)-1] == 0 && b[len(b)-2] < 0x80 || b[len(b)-1] == 0xff && b[len(b)-2] >= 0x80) {
		b = b[:len(b)-1] // the sign, repeated
	}
	if len(b) > 8 {
		return Node{Kind: Int, Text: decimal(b), Obj: &Obj{}}
	}
	var w [8]byte
	if len(b) > 0 && b[len(b)-1] >= 0x80 {
		for i := range w {
			w[i] = 0xff
		}
	}
	copy(w[:], b)
	return Node{Kind: Int, Int: int64(binary.LittleEndian.Uint64(w[:]))}
}

// maxLong is the number of bytes up to which decimal writes an integer: the
// work is quadratic, and longer ones are no data of any checkpoint.
const maxLong = 255

// decimal writes an integer of little-endian two's complement bytes, and
// returns "" for one of more than maxLong bytes.
func decimal(b []byte) string {
	if len(b) > maxLong {
		return ""
	}
	negative := len(b) > 0 && b[len(b)-1] >= 0x80
	words := make([]uint64, (len(b)+7)/8)
	for i, x := range b {
		words[i/8] |= uint64(x) << (i % 8 * 8)
	}
	if negative {
		if r := len(b) % 8; r != 0 {
			words[len(words)-1] |= ^uint64(0) << (r * 8)
		}
		carry := uint64(1)
		for i := range words {
			words[i], carry = bits.Add64(^words[i], 0, carry)
		}
	}
	const chunk = 1_000_000_000_000_000_000 // 18 digits
	var out []byte                          // least significant digit first
	for len(words) > 0 {
		rest := uint64(0)
		for i := len(words) - 1; i >= 0; i-- {
			words[i], rest = bits.Div64(rest, words[i], chunk)
		}
		for len(words) > 0 && words[len(words)-1] == 0 {
			words = words[:len(words)-1]
		}
		for i := 0; i < 18 && (rest > 0 || len(words) > 0); i++ {
			out = append(out, byte('0'+rest%10))
			rest /= 10
		}
	}
	if negative {
		out = append(out, '-')
	}
	slices.Reverse(out)
	return string(out)
}

// text runs the opcodes whose argument is a line.
func (m *machine) text(op byte) error {
	line, err := m.line()
	if err != nil {
		return err
	}
	switch op {
	case opInt, opLong:
		return m.intLine(op, string(line))
	case opFloat:
		v, err := strconv.ParseFloat(string(line), 64)
		if err != nil && !math.IsInf(v, 0) {
			return m.bad("`%.40s` is no float", line)
		}
		return m.make(Node{Kind: Float, Int: int64(math.Float64bits(v))})
	case opString:
		s, ok := unquote(line)
		if !ok {
			return m.bad("the string is not quoted as Python does")
		}
		return m.make(oldString(s))
	case opUnicode:
		s, ok := rawUnicode(line)
		if !ok {
			return m.bad("the text has a broken \\u escape")
		}
		return m.make(Node{Kind: Str, Text: s})
	case opPersID:
		id := &Node{Kind: Str, At: uint32(m.at), Text: string(line)}
		return m.make(Node{Kind: PersID, Items: []*Node{id}})
	}
	i, err := strconv.ParseUint(string(line), 10, 32)
	if err != nil {
		return m.bad("`%.40s` is no place in the memo", line)
	}
	if op == opGet {
		return m.get(i)
	}
	return m.put(i)
}

// intLine reads the argument of INT and LONG. INT spells the booleans 00 and 01.
func (m *machine) intLine(op byte, s string) error {
	switch {
	case op == opInt && s == "00":
		return m.push(nodeFalse)
	case op == opInt && s == "01":
		return m.push(nodeTrue)
	case op == opLong && len(s) > 0 && s[len(s)-1] == 'L':
		s = s[:len(s)-1]
	}
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return m.make(Node{Kind: Int, Int: v})
	}
	digits := s
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > MaxDigits {
		return m.bad("`%.40s` is no integer", s)
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return m.bad("`%.40s` is no integer", s)
		}
	}
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	if s[0] == '-' {
		digits = "-" + digits
	}
	n := Node{Kind: Int, Text: digits, Obj: &Obj{}}
	if v, err := strconv.ParseInt(digits, 10, 64); err == nil {
		n = Node{Kind: Int, Int: v}
	}
	return m.make(n)
}

// bytes runs the opcodes whose argument is a length and as many bytes.
func (m *machine) bytes(op byte) error {
	width := 1
	switch op {
	case opBinString, opBinUnicode, opBinBytes:
		width = 4
	case opBinUnicode8, opBinBytes8, opByteArray8:
		width = 8
	}
	n, err := m.length(width)
	if err != nil {
		return err
	}
	b, err := m.take(n)
	if err != nil {
		return err
	}
	s := string(b)
	switch op {
	case opBinString, opShortBinString:
		return m.make(oldString(s))
	case opBinBytes, opShortBinBytes, opBinBytes8:
		return m.make(Node{Kind: Bytes, Text: s})
	case opByteArray8:
		return m.make(Node{Kind: ByteArray, Text: s})
	}
	if !ValidText(s) {
		return m.bad("the text is not UTF-8")
	}
	return m.make(Node{Kind: Str, Text: unescape(s)})
}

// oldString makes a node of a string of Python 2, which may be text or bytes:
// text where it is UTF-8.
func oldString(s string) Node {
	if utf8.ValidString(s) {
		return Node{Kind: Str, Text: s, Int: 1}
	}
	return Node{Kind: Bytes, Text: s}
}
