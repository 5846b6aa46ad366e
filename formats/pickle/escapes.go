package pickle

import "unicode/utf8"

// unquote reads the argument of STRING: a string literal of Python 2 between
// equal quotes.
func unquote(b []byte) (string, bool) {
	if len(b) < 2 || b[0] != b[len(b)-1] || b[0] != '\'' && b[0] != '"' {
		return "", false
	}
	b = b[1 : len(b)-1]
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out = append(out, b[i])
			continue
		}
		if i++; i == len(b) {
			return "", false
		}
		switch c := b[i]; c {
		case '\\', '\'', '"':
			out = append(out, c)
		case 'a':
			out = append(out, '\a')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'v':
			out = append(out, '\v')
		case 'x':
			v, ok := hex(b[i+1:], 2)
			if !ok {
				return "", false
			}
			out = append(out, byte(v))
			i += 2
		case '0', '1', '2', '3', '4', '5', '6', '7':
			v := 0
			n := 0
			for ; n < 3 && i+n < len(b) && b[i+n] >= '0' && b[i+n] <= '7'; n++ {
				v = v*8 + int(b[i+n]-'0')
			}
			out = append(out, byte(v))
			i += n - 1
		default:
			out = append(out, '\\', c)
		}
	}
	return string(out), true
}

// rawUnicode reads the argument of UNICODE: latin-1 with \u and \U escapes.
func rawUnicode(b []byte) (string, bool) {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		width := 0
		if b[i] == '\\' && i+1 < len(b) {
			switch b[i+1] {
			case 'u':
				width = 4
			case 'U':
				width = 8
			}
		}
		if width == 0 {
			out = utf8.AppendRune(out, rune(b[i]))
			continue
		}
		v, ok := hex(b[i+2:], width)
		if !ok || v > utf8.MaxRune {
			return "", false
		}
		out = appendRune(out, rune(v))
		i += 1 + width
	}
	return string(out), true
}

// appendRune is utf8.AppendRune, but writes surrogates as Python does.
func appendRune(out []byte, r rune) []byte {
	if r >= 0xd800 && r <= 0xdfff {
		return append(out, 0xed, byte(0x80|r>>6&0x3f), byte(0x80|r&0x3f))
	}
	return utf8.AppendRune(out, r)
}

func hex(b []byte, n int) (uint32, bool) {
	if len(b) < n {
		return 0, false
	}
	var v uint32
	for _, c := range b[:n] {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint32(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint32(c-'a'+10)
		case c >= 'A' && c <= 'F':
			v = v<<4 | uint32(c-'A'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
