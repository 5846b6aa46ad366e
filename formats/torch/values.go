package torch

import (
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

// scalar is the type and value of a node that holds no others.
func scalar(n *pickle.Node) (string, checkpoint.Value) {
	switch n.Kind {
	case pickle.Bool:
		return "bool", checkpoint.Value{Kind: checkpoint.Boolean, Bool: n.Int == 1}
	case pickle.Int:
		switch {
		case !n.Big():
			return "int", checkpoint.Value{Kind: checkpoint.Integer, Int: n.Int}
		case n.Text != "":
			return "int", checkpoint.Value{Kind: checkpoint.Integer, Big: n.Text}
		}
		return "int", checkpoint.Value{Kind: checkpoint.Opaque, Text: "int"}
	case pickle.Float:
		return "float", checkpoint.Value{Kind: checkpoint.Float, Float: n.FloatValue()}
	case pickle.Str:
		return "str", checkpoint.Value{Kind: checkpoint.Text, Text: n.Text}
	case pickle.Bytes:
		return "bytes", checkpoint.Value{Kind: checkpoint.Bytes, Text: n.Text}
	case pickle.ByteArray:
		return "bytearray", checkpoint.Value{Kind: checkpoint.Bytes, Text: n.Text}
	}
	return "NoneType", checkpoint.Value{Kind: checkpoint.None}
}

// global lists a name of Python that stands as a value.
func (w *walker) global(n *pickle.Node, path checkpoint.Path) error {
	full := fullName(n)
	rest, ok := strings.CutPrefix(full, "torch.")
	if _, is := dtype.FromTorch(rest); ok && (is || packed[rest] != dtype.Invalid) {
		return w.leaf(path, "dtype", checkpoint.Value{Kind: checkpoint.Text, Text: full})
	}
	return w.leaf(path, "global", checkpoint.Value{Kind: checkpoint.Opaque, Text: full})
}

// text gives a call of a known function that makes a scalar: its type and its
// value as Python would write it.
func textOf(fn string, args []*pickle.Node) (typ string, v checkpoint.Value, ok bool) {
	text := func(typ, s string) (string, checkpoint.Value, bool) {
		return typ, checkpoint.Value{Kind: checkpoint.Text, Text: s}, true
	}
	switch fn {
	case "torch.Size":
		if len(args) == 1 {
			if size, ok := ints(args[0]); ok {
				parts := make([]string, len(size))
				for i, n := range size {
					parts[i] = strconv.FormatInt(n, 10)
				}
				return text("torch.Size", "["+strings.Join(parts, ", ")+"]")
			}
		}
	case "torch.device":
		if len(args) > 0 && args[0].Kind == pickle.Str {
			s := args[0].Text
			if len(args) > 1 {
				s += ":" + repr(args[1])
			}
			return text("device", s)
		}
	case "torch.serialization._get_layout":
		if len(args) == 1 && args[0].Kind == pickle.Str {
			return text("layout", args[0].Text)
		}
	case "builtins.complex":
		if len(args) == 2 && args[0].Kind == pickle.Float && args[1].Kind == pickle.Float {
			return text("complex", pyComplex(args[0].FloatValue(), args[1].FloatValue()))
		}
	case "builtins.slice":
		if isScalars(args) {
			return text("slice", call("slice", args))
		}
	case "builtins.range", "builtins.xrange":
		if isScalars(args) {
			if len(args) == 3 && args[2].Kind == pickle.Int && args[2].Int == 1 {
				args = args[:2]
			}
			return text("range", call("range", args))
		}
	}
	return "", checkpoint.Value{}, false
}

func isScalars(args []*pickle.Node) bool {
	for _, a := range args {
		if _, ok := a.IsInt(); !ok && a.Kind != pickle.None {
			return false
		}
	}
	return len(args) > 0 && len(args) <= 3
}

func call(fn string, args []*pickle.Node) string {
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = repr(a)
	}
	return fn + "(" + strings.Join(parts, ", ") + ")"
}

// pyComplex writes a complex number as Python's repr does.
func pyComplex(re, im float64) string {
	trim := func(f float64) string { return strings.TrimSuffix(pyFloat(f), ".0") }
	s := trim(im)
	if s[0] != '-' {
		s = "+" + s
	}
	return "(" + trim(re) + s + "j)"
}

func layoutName(n *pickle.Node) string {
	if n.Kind == pickle.Reduce && fullName(n.Obj.Fn) == "torch.serialization._get_layout" && len(n.Obj.Args.Items) == 1 {
		return n.Obj.Args.Items[0].Text
	}
	return ""
}

// bytesOf reads what stands for bytes: bytes, a string of Python 2, or the
// call by which protocol 2 writes bytes.
func bytesOf(n *pickle.Node) (string, bool) {
	switch n.Kind {
	case pickle.Bytes, pickle.ByteArray:
		return n.Text, true
	case pickle.Str:
		return n.Text, n.Int == 1
	case pickle.Reduce:
	default:
		return "", false
	}
	args := n.Obj.Args.Items
	switch fullName(n.Obj.Fn) {
	case "_codecs.encode":
		if len(args) == 2 && args[0].Kind == pickle.Str && strings.HasPrefix(args[1].Text, "latin") {
			return latin1(args[0].Text)
		}
	case "builtins.bytes":
		return "", len(args) == 0
	case "builtins.bytearray":
		switch {
		case len(args) == 0:
			return "", true
		case len(args) == 2 && args[0].Kind == pickle.Str && strings.HasPrefix(args[1].Text, "latin"):
			return latin1(args[0].Text)
		case len(args) == 1 && args[0].Kind == pickle.Reduce && fullName(args[0].Obj.Fn) == "_codecs.encode",
			len(args) == 1 && args[0].Kind == pickle.Bytes:
			return bytesOf(args[0])
		}
	}
	return "", false
}

// latin1 gives the bytes of a text whose characters stand for bytes.
func latin1(s string) (string, bool) {
	out := make([]byte, 0, len(s))
	for _, c := range s {
		if c > 0xff {
			return "", false
		}
		out = append(out, byte(c))
	}
	return string(out), true
}
