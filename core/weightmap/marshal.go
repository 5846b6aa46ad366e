package weightmap

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Marshal writes an index as huggingface_hub does, which is Python's
// json.dumps with an indent of 2: the weights in the order given, which is by
// shard and then by tensor, everything but ASCII escaped. Names are UTF-8, each
// once.
func Marshal(weights []Weight, total int64) []byte {
	b := []byte("{\n  \"metadata\": {\n    \"total_size\": ")
	b = strconv.AppendInt(b, total, 10)
	b = append(b, "\n  },\n  \"weight_map\": {"...)
	for i, w := range weights {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, "\n    "...)
		b = appendASCII(b, w.Name)
		b = append(b, ": "...)
		b = appendASCII(b, w.File)
	}
	if len(weights) > 0 {
		b = append(b, "\n  "...)
	}
	return append(b, "}\n}"...)
}

// appendASCII appends a JSON string in Python's form.
func appendASCII(b []byte, s string) []byte {
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\b':
			b = append(b, '\\', 'b')
		case c == '\f':
			b = append(b, '\\', 'f')
		case c >= ' ' && c < 0x7f:
			b = append(b, byte(c))
		case c < 0x10000:
			b = appendHex(b, c)
		case c <= utf8.MaxRune:
			hi, lo := utf16.EncodeRune(c)
			b = appendHex(appendHex(b, hi), lo)
		}
	}
	return append(b, '"')
}

func appendHex(b []byte, c rune) []byte {
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', hex[c>>12&15], hex[c>>8&15], hex[c>>4&15], hex[c&15])
}
