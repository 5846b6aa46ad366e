package pickle

import (
	"strings"
	"unicode/utf8"
)

// Python writes its strings as UTF-8 in which surrogates may stand alone
// ("surrogatepass"). One of U+DC80 to U+DCFF stands for a byte that is no
// UTF-8, by Python's own convention ("surrogateescape"): that byte is what a
// node has, and Writer.Str turns it back.

// ValidText reports whether s is UTF-8 in which surrogates may stand alone.
func ValidText(s string) bool {
	for i := 0; i < len(s); {
		n := textRune(s[i:])
		if n == 0 {
			return false
		}
		i += n
	}
	return true
}

// textRune is the length of the first character of s, a surrogate included,
// and 0 where there is none.
func textRune(s string) int {
	if s[0] < utf8.RuneSelf {
		return 1
	}
	if r, n := utf8.DecodeRuneInString(s); r != utf8.RuneError || n > 1 {
		return n
	}
	if len(s) >= 3 && s[0] == 0xed && s[1] >= 0xa0 && s[1] <= 0xbf && s[2] >= 0x80 && s[2] <= 0xbf {
		return 3
	}
	return 0
}

// escapedByte is the byte that the surrogate at the beginning of s stands for.
func escapedByte(s string) (byte, bool) {
	if len(s) < 3 || s[0] != 0xed || s[1] != 0xb2 && s[1] != 0xb3 {
		return 0, false
	}
	return s[1]<<6 | s[2]&0x3f, true
}

// escape makes text of bytes.
func escape(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var out []byte
	for i := 0; i < len(s); {
		n := textRune(s[i:])
		if _, byteLike := escapedByte(s[i:]); n == 0 || byteLike {
			out = appendRune(out, 0xdc00|rune(s[i]))
			i++
			continue
		}
		out = append(out, s[i:i+n]...)
		i += n
	}
	return string(out)
}

// unescape is the inverse of escape. Text that escape would not make, such as
// surrogates that stand for the bytes of a whole character, is left alone.
func unescape(s string) string {
	if !strings.Contains(s, "\xed") {
		return s
	}
	var out []byte
	for i := 0; i < len(s); {
		if b, ok := escapedByte(s[i:]); ok {
			out = append(out, b)
			i += 3
			continue
		}
		n := max(textRune(s[i:]), 1)
		out = append(out, s[i:i+n]...)
		i += n
	}
	if t := string(out); escape(t) == s {
		return t
	}
	return s
}
