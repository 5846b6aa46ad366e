package torch

import (
	"math"
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

// keyPart is the step of a path for a key of a dict.
func keyPart(key *pickle.Node) checkpoint.Part {
	if key.Kind == pickle.Str {
		return checkpoint.Part{Kind: checkpoint.KeyPart, Text: key.Text}
	}
	if v, ok := key.IsInt(); ok {
		return checkpoint.Part{Kind: checkpoint.IndexPart, Index: v}
	}
	return checkpoint.Part{Kind: checkpoint.OtherPart, Text: repr(key)}
}

// dictKey is equal for keys that Python takes for the same. Only scalars can
// be compared; others are the same where they are one node.
type dictKey struct {
	kind pickle.Kind
	num  int64
	text string
	node *pickle.Node
}

func keyOf(n *pickle.Node) dictKey {
	switch n.Kind {
	case pickle.None:
		return dictKey{kind: pickle.None}
	case pickle.Bool:
		return dictKey{kind: pickle.Int, num: n.Int}
	case pickle.Int:
		return dictKey{kind: pickle.Int, num: n.Int, text: n.Text}
	case pickle.Float:
		if f := n.FloatValue(); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return dictKey{kind: pickle.Int, num: int64(f)}
		}
		return dictKey{kind: pickle.Float, num: n.Int}
	case pickle.Str, pickle.Bytes:
		return dictKey{kind: n.Kind, text: n.Text}
	}
	if s, ok := bytesOf(n); ok {
		return dictKey{kind: pickle.Bytes, text: s}
	}
	return dictKey{kind: n.Kind, node: n}
}

// lastWins gives the pairs as a dict has them in the end: a key that was set
// twice stands at its first place with its last value.
func lastWins(pairs []*pickle.Node) []*pickle.Node {
	at := make(map[dictKey]int, len(pairs)/2)
	out := make([]*pickle.Node, 0, len(pairs))
	for i := 0; i+1 < len(pairs); i += 2 {
		k := keyOf(pairs[i])
		if j, ok := at[k]; ok {
			out[j+1] = pairs[i+1]
			continue
		}
		at[k] = len(out)
		out = append(out, pairs[i], pairs[i+1])
	}
	return out
}

// maxRepr bounds what repr writes of a value that holds others.
const maxRepr = 400

// repr writes a value in Python's notation, for keys and for messages.
func repr(n *pickle.Node) string {
	var b strings.Builder
	writeRepr(&b, n, 0)
	if b.Len() > maxRepr && n.Kind != pickle.Str && n.Kind != pickle.Bytes {
		// Two long keys must not become one.
		return b.String()[:maxRepr] + "…#" + strconv.FormatUint(uint64(n.At), 10)
	}
	return b.String()
}

func writeRepr(b *strings.Builder, n *pickle.Node, depth int) {
	if b.Len() > maxRepr || depth > 8 {
		b.WriteString("…")
		return
	}
	switch n.Kind {
	case pickle.None:
		b.WriteString("None")
	case pickle.Bool:
		b.WriteString([...]string{"False", "True"}[n.Int&1])
	case pickle.Int:
		switch {
		case !n.Big():
			b.WriteString(strconv.FormatInt(n.Int, 10))
		case n.Text != "":
			b.WriteString(n.Text)
		default:
			b.WriteString("<int>")
		}
	case pickle.Float:
		b.WriteString(pyFloat(n.FloatValue()))
	case pickle.Str:
		b.WriteString(quote(n.Text))
	case pickle.Bytes:
		b.WriteString("b" + quoteBytes(n.Text))
	case pickle.Tuple:
		b.WriteByte('(')
		for i, x := range n.Items {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, x, depth+1)
		}
		if len(n.Items) == 1 {
			b.WriteByte(',')
		}
		b.WriteByte(')')
	case pickle.Global:
		b.WriteString("<" + fullName(n) + ">")
	default:
		if s, ok := bytesOf(n); ok {
			b.WriteString("b" + quoteBytes(s))
			return
		}
		b.WriteString("<" + n.Kind.String() + ">")
	}
}

// pyFloat writes a float as Python's repr does.
func pyFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	i := strings.IndexByte(s, 'e')
	if exp, _ := strconv.Atoi(s[i+1:]); exp < -4 || exp >= 16 {
		return s
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote writes text as a string literal; only what would end the literal or
// the line is escaped.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`).Replace(s) + "'"
}

func quoteBytes(s string) string {
	const digits = "0123456789abcdef"
	out := []byte{'\''}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\\' || c == '\'':
			out = append(out, '\\', c)
		case c < ' ' || c > '~':
			out = append(out, '\\', 'x', digits[c>>4], digits[c&15])
		default:
			out = append(out, c)
		}
	}
	return string(append(out, '\''))
}
