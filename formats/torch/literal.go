package torch

import (
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

// writeScalar writes the value of a leaf that holds no others. It is false
// where the value does not fit its type; then what was written is worthless.
func writeScalar(w *pickle.Writer, l *checkpoint.Leaf) bool {
	v := l.Value
	switch v.Kind {
	case checkpoint.None:
		w.None()
	case checkpoint.Boolean:
		w.Bool(v.Bool)
	case checkpoint.Integer:
		if v.Big != "" {
			return w.BigInt(v.Big)
		}
		w.Int(v.Int)
	case checkpoint.Float:
		w.Float(v.Float)
	case checkpoint.Bytes:
		if l.Type == "bytearray" {
			w.Global("builtins", "bytearray")
			w.Bytes(v.Text)
			w.Tuple1()
			w.Reduce()
			return true
		}
		w.Bytes(v.Text)
	case checkpoint.Text:
		return writeText(w, l.Type, v.Text)
	default:
		return false
	}
	return true
}

// writeText writes a string, or what of torch and Python is listed as one.
func writeText(w *pickle.Writer, typ, s string) bool {
	switch typ {
	case "torch.Size":
		size, ok := parseInts(s)
		w.Global("torch", "Size")
		w.Mark()
		for _, n := range size {
			w.Int(n)
		}
		w.Tuple()
		w.Tuple1()
		w.Reduce()
		return ok
	case "device":
		name, index, indexed := strings.Cut(s, ":")
		w.Global("torch", "device")
		w.Str(name)
		if indexed {
			i, err := strconv.ParseInt(index, 10, 16)
			if err != nil {
				return false
			}
			w.Int(i)
			w.Tuple2()
		} else {
			w.Tuple1()
		}
		w.Reduce()
		return true
	case "dtype", "qscheme":
		name := strings.TrimPrefix(s, "torch.")
		_, ok := dtype.FromTorch(name)
		w.Global("torch", name)
		return ok || packed[name] != dtype.Invalid || known["torch."+name]
	case "layout":
		w.Global("torch.serialization", "_get_layout")
		w.Str(s)
		w.Tuple1()
		w.Reduce()
		return strings.HasPrefix(s, "torch.")
	case "complex", "numpy.complex64", "numpy.complex128":
		c, err := strconv.ParseComplex(strings.Replace(s, "j", "i", 1), 128)
		w.Global("builtins", "complex")
		w.Float(real(c))
		w.Float(imag(c))
		w.Tuple2()
		w.Reduce()
		return err == nil
	case "slice", "range":
		args, ok := strings.CutPrefix(s, typ)
		w.Global("builtins", typ)
		ok = ok && writeLiteral(w, args)
		w.Reduce()
		return ok
	}
	w.Str(s)
	return true
}

// parseInts reads "[1, 2]" and "[1 2]".
func parseInts(s string) ([]int64, bool) {
	if len(s) < 2 || s[0] != '[' || s[len(s)-1] != ']' {
		return nil, false
	}
	out := []int64{}
	for _, f := range strings.FieldsFunc(s[1:len(s)-1], func(c rune) bool { return c == ',' || c == ' ' }) {
		v, err := strconv.ParseInt(f, 10, 64)
		if err != nil || v < 0 {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}

// writeLiteral writes a value that is given in Python's notation, as repr
// makes it: None, a boolean, a number, a string, bytes, or a tuple of these. It
// is false for anything else.
func writeLiteral(w *pickle.Writer, s string) bool {
	rest, ok := literal(w, s, 0)
	return ok && rest == ""
}

// literal writes the value at the beginning of s and returns the rest.
func literal(w *pickle.Writer, s string, depth int) (rest string, ok bool) {
	switch {
	case s == "" || depth > 16:
		return s, false
	case s[0] == '(':
		return tupleLiteral(w, s[1:], depth+1)
	case s[0] == '\'':
		text, rest, ok := stringLiteral(s[1:])
		w.Str(text)
		return rest, ok
	case strings.HasPrefix(s, "b'"):
		text, rest, ok := stringLiteral(s[2:])
		w.Bytes(text)
		return rest, ok
	}
	end := strings.IndexAny(s, ",)")
	if end < 0 {
		end = len(s)
	}
	return s[end:], wordLiteral(w, s[:end])
}

func wordLiteral(w *pickle.Writer, word string) bool {
	switch word {
	case "None":
		w.None()
		return true
	case "True", "False":
		w.Bool(word == "True")
		return true
	}
	if strings.Trim(word, "0123456789-") == "" {
		return w.BigInt(word)
	}
	f, err := strconv.ParseFloat(word, 64)
	w.Float(f)
	return err == nil
}

func tupleLiteral(w *pickle.Writer, s string, depth int) (rest string, ok bool) {
	w.Mark()
	for {
		if rest, end := strings.CutPrefix(s, ")"); end {
			w.Tuple()
			return rest, true
		}
		if s, ok = literal(w, s, depth); !ok {
			return s, false
		}
		if after, more := strings.CutPrefix(s, ","); more {
			s = strings.TrimPrefix(after, " ")
		} else if !strings.HasPrefix(s, ")") {
			return s, false
		}
	}
}

// stringLiteral reads up to the closing quote and undoes the escapes.
func stringLiteral(s string) (text, rest string, ok bool) {
	var out []byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\'':
			return string(out), s[i+1:], true
		case c != '\\':
			out = append(out, c)
		case i+1 == len(s):
			return "", s, false
		default:
			i++
			switch s[i] {
			case 'n':
				out = append(out, '\n')
			case 'r':
				out = append(out, '\r')
			case 'x':
				if i+2 >= len(s) {
					return "", s, false
				}
				v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
				if err != nil {
					return "", s, false
				}
				out = append(out, byte(v))
				i += 2
			default:
				out = append(out, s[i])
			}
		}
	}
	return "", s, false
}
