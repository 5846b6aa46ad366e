package safetensors

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/formats/jsontext"
)

// leavesKey is the metadata key under which this program keeps what
// safetensors has no place for: leaves, paths of nested tensors, and the order
// of both. The value is JSON, version 1 of which is
//
//	{"version":1,
//	 "leaves":[{"path":["step"],"type":"int","value":12000,"seq":0}, …],
//	 "paths":{"model.w":["model","w"], …},   nested tensors only
//	 "order":[2,1, …]}                       Seq of each tensor, in the order of Index
const leavesKey = "convert.leaves"

const leavesVersion = 1

// Bounds that hold when writing and when reading, so that a short text cannot
// grow into a large tree.
const (
	maxLeaves = 1 << 20
	maxDepth  = 1 << 10 // parts of one path
	maxParts  = 1 << 22 // parts of all paths
)

// needsLeaves reports whether a file has anything to keep under leavesKey.
func needsLeaves(out *checkpoint.Output) bool {
	for i := range out.Tensors {
		if nested(&out.Tensors[i]) {
			return true
		}
	}
	return len(out.Leaves) > 0
}

func nested(t *checkpoint.Tensor) bool {
	return t.Path != nil && !t.Path.Equal(checkpoint.Keys(t.Name))
}

// marshalLeaves makes the value of leavesKey. tensors are in the order that
// Index gives them.
func marshalLeaves(out *checkpoint.Output, tensors []placed, yield func() error) (string, error) {
	if len(out.Leaves) > maxLeaves {
		return "", fmt.Errorf("%d leaves are over the limit of %d", len(out.Leaves), maxLeaves)
	}
	parts := 0
	b := []byte(`{"version":` + strconv.Itoa(leavesVersion) + `,"leaves":[`)
	for i := range out.Leaves {
		if i%64 == 63 {
			if err := yield(); err != nil {
				return "", err
			}
		}
		l := &out.Leaves[i]
		if i > 0 {
			b = append(b, ',')
		}
		parts += len(l.Path)
		if len(l.Path) > maxDepth || parts > maxParts {
			return "", fmt.Errorf("the path of leaf %s is too long", quote(l.Path.Label()))
		}
		b = append(b, `{"path":`...)
		b = appendPath(b, l.Path)
		b = append(b, `,"type":`...)
		b = appendText(b, l.Type)
		b = append(b, `,"value":`...)
		b = appendValue(b, &l.Value)
		b = append(b, `,"seq":`...)
		b = strconv.AppendInt(b, int64(l.Seq), 10)
		b = append(b, '}')
	}
	b = append(b, `],"paths":{`...)
	first := true
	for i := range tensors {
		t := &out.Tensors[tensors[i].index]
		if !nested(t) {
			continue
		}
		parts += len(t.Path)
		if len(t.Path) > maxDepth || parts > maxParts {
			return "", fmt.Errorf("the path of tensor %s is too long", quote(t.Name))
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = jsontext.AppendString(b, t.Name)
		b = append(b, ':')
		b = appendPath(b, t.Path)
	}
	b = append(b, `},"order":[`...)
	for i := range tensors {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(out.Tensors[tensors[i].index].Seq), 10)
	}
	return string(append(b, "]}"...)), nil
}

// partKeys are the keys of the path's parts that are neither strings nor
// integers.
var partKeys = [...]string{
	checkpoint.AttrPart:   "attr",
	checkpoint.StatePart:  "state",
	checkpoint.SparsePart: "sparse",
	checkpoint.OtherPart:  "key",
}

func appendPath(b []byte, path checkpoint.Path) []byte {
	b = append(b, '[')
	for i, p := range path {
		if i > 0 {
			b = append(b, ',')
		}
		switch p.Kind {
		case checkpoint.KeyPart:
			b = appendText(b, p.Text)
		case checkpoint.IndexPart:
			b = strconv.AppendInt(b, p.Index, 10)
		default:
			b = append(b, `{"`+partKeys[p.Kind]+`":`...)
			b = appendText(b, p.Text)
			b = append(b, '}')
		}
	}
	return append(b, ']')
}

// appendText writes a string, and one that is not UTF-8 as {"raw":base64}.
func appendText(b []byte, s string) []byte {
	if utf8.ValidString(s) {
		return jsontext.AppendString(b, s)
	}
	return appendTagged(b, "raw", base64.StdEncoding.EncodeToString([]byte(s)))
}

func appendTagged(b []byte, tag, text string) []byte {
	b = append(b, `{"`+tag+`":`...)
	b = jsontext.AppendString(b, text)
	return append(b, '}')
}

// appendValue writes a value. What JSON has no form for is an object of one
// key that names the kind.
func appendValue(b []byte, v *checkpoint.Value) []byte {
	switch v.Kind {
	case checkpoint.Boolean:
		return strconv.AppendBool(b, v.Bool)
	case checkpoint.Integer:
		if v.Big != "" {
			return appendTagged(b, "int", v.Big)
		}
		return strconv.AppendInt(b, v.Int, 10)
	case checkpoint.Float:
		return appendFloat(b, v.Float)
	case checkpoint.Text:
		return appendText(b, v.Text)
	case checkpoint.Bytes:
		return appendTagged(b, "bytes", base64.StdEncoding.EncodeToString([]byte(v.Text)))
	case checkpoint.Sized:
		b = append(b, `{"len":`...)
		b = strconv.AppendInt(b, int64(v.Len), 10)
		return append(b, '}')
	case checkpoint.Opaque:
		b = append(b, `{"opaque":`...)
		b = appendText(b, v.Text)
		return append(b, '}')
	}
	return append(b, "null"...)
}

// appendFloat writes the shortest number that reads back as f, always with a
// point or an exponent, which tells it from an integer.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return appendTagged(b, "float", "inf")
	case math.IsInf(f, -1):
		return appendTagged(b, "float", "-inf")
	case math.Float64bits(f) == quietNaN:
		return appendTagged(b, "float", "nan")
	case f != f:
		return appendTagged(b, "float", fmt.Sprintf("nan:%016x", math.Float64bits(f)))
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return append(b, s...)
}

// quietNaN is the not-a-number that frameworks write.
const quietNaN = 0x7ff8000000000000
