package torch

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

// npType is an element type of numpy.
type npType struct {
	code string // "f4", "U3", "O8"
	big  bool
}

var npTypes = map[string]dtype.Type{
	"b1": dtype.Bool, "i1": dtype.I8, "i2": dtype.I16, "i4": dtype.I32, "i8": dtype.I64,
	"u1": dtype.U8, "u2": dtype.U16, "u4": dtype.U32, "u8": dtype.U64,
	"f2": dtype.F16, "f4": dtype.F32, "f8": dtype.F64, "c8": dtype.C64, "c16": dtype.C128,
}

func (t npType) String() string {
	if t.big {
		return ">" + t.code
	}
	return "<" + t.code
}

// npTypeOf reads numpy.dtype('f4', False, True) with the state (3, '<', …).
func npTypeOf(n *pickle.Node) (npType, bool) {
	if n.Kind != pickle.Reduce || fullName(n.Obj.Fn) != "numpy.dtype" || len(n.Obj.Args.Items) == 0 {
		return npType{}, false
	}
	t := npType{code: n.Obj.Args.Items[0].Text}
	for _, s := range n.Obj.States {
		if s.Kind == pickle.Tuple && len(s.Items) > 1 {
			t.big = s.Items[1].Text == ">"
		}
	}
	return t, t.code != ""
}

// numpy lists an array, whose bytes the pickle itself holds, or a scalar of
// numpy. It is false for anything else of that module.
func (w *walker) numpy(n *pickle.Node, fn string, args []*pickle.Node, path checkpoint.Path, depth int) (bool, error) {
	switch fn {
	case "numpy.core.multiarray.scalar":
		if len(args) == 2 {
			if t, ok := npTypeOf(args[0]); ok {
				if b, ok := bytesOf(args[1]); ok {
					return w.npScalar(t, b, path)
				}
			}
		}
	case "numpy.core.multiarray._reconstruct":
		// The state is (version, shape, type, column-major, bytes or list).
		if len(n.Obj.States) == 1 && n.Obj.States[0].Kind == pickle.Tuple && len(n.Obj.States[0].Items) == 5 {
			s := n.Obj.States[0].Items
			return w.array(n, s[1], s[2], s[3].Kind == pickle.Bool && s[3].Int == 1, s[4], path, depth)
		}
	case "numpy.core.numeric._frombuffer":
		if len(args) == 4 {
			return w.array(n, args[2], args[1], args[3].Text == "F", args[0], path, depth)
		}
	}
	return false, nil
}

func (w *walker) array(n, size, typ *pickle.Node, columns bool, data *pickle.Node, path checkpoint.Path, depth int) (bool, error) {
	shape, ok := ints(size)
	t, ok2 := npTypeOf(typ)
	if !ok || !ok2 {
		return false, nil
	}
	if data.Kind == pickle.List {
		return true, w.sequence(n, path, depth, "ndarray_object", data.Items)
	}
	d, ok := npTypes[t.code]
	if !ok {
		return true, w.leaf(path, "ndarray", checkpoint.Value{Kind: checkpoint.Opaque, Text: fmt.Sprintf("%s %v", t, shape)})
	}
	run, err := w.inlineBytes(data)
	if err != nil {
		return true, err
	}
	want, ok := d.Bytes(shape)
	if !ok || want != int64(len(run)) {
		return true, w.bad(n, "an array of %s with shape %v has %d bytes", t, shape, len(run))
	}
	e := checkpoint.Entry{DType: d, Shape: shape, Note: map[string]string{"numpy": t.String()}}
	e.Data.Inline, e.Data.BigEndian = run, t.big && d.Unit() > 1
	if columns {
		strides, next := make([]int64, len(shape)), int64(1)
		for i, n := range shape {
			strides[i] = next
			next *= n
		}
		if e.Data.Strides = strides; e.Data.RowMajor(shape) {
			e.Data.Strides = nil
		}
	}
	return true, w.addEntry(e, path)
}

// inlineBytes reads bytes once, however often they are referred to.
func (w *walker) inlineBytes(n *pickle.Node) ([]byte, error) {
	if b, ok := w.inline[n]; ok {
		return b, nil
	}
	s, ok := bytesOf(n)
	if !ok {
		return nil, w.bad(n, "the elements of an array are a %s", n.Kind)
	}
	b := append([]byte{}, s...)
	w.inline[n] = b
	return b, nil
}

// npScalar lists a scalar of numpy by its value.
func (w *walker) npScalar(t npType, b string, path checkpoint.Path) (bool, error) {
	d, ok := npTypes[t.code]
	if !ok || int64(len(b)) != d.Size() {
		return false, nil
	}
	raw := []byte(b)
	if t.big {
		unit := int(d.Unit())
		for i := 0; i < len(raw); i += unit {
			slices.Reverse(raw[i : i+unit])
		}
	}
	return true, w.leaf(path, "numpy."+d.Torch(), npValue(d, raw))
}

func npValue(d dtype.Type, b []byte) checkpoint.Value {
	le := binary.LittleEndian
	switch d {
	case dtype.Bool:
		return checkpoint.Value{Kind: checkpoint.Boolean, Bool: b[0] != 0}
	case dtype.F16:
		return checkpoint.Value{Kind: checkpoint.Float, Float: half(le.Uint16(b))}
	case dtype.F32:
		return checkpoint.Value{Kind: checkpoint.Float, Float: float64(math.Float32frombits(le.Uint32(b)))}
	case dtype.F64:
		return checkpoint.Value{Kind: checkpoint.Float, Float: math.Float64frombits(le.Uint64(b))}
	case dtype.C64:
		re, im := math.Float32frombits(le.Uint32(b)), math.Float32frombits(le.Uint32(b[4:]))
		return checkpoint.Value{Kind: checkpoint.Text, Text: pyComplex(float64(re), float64(im))}
	case dtype.C128:
		re, im := math.Float64frombits(le.Uint64(b)), math.Float64frombits(le.Uint64(b[8:]))
		return checkpoint.Value{Kind: checkpoint.Text, Text: pyComplex(re, im)}
	}
	var w [8]byte
	copy(w[:], b)
	u := le.Uint64(w[:])
	switch d {
	case dtype.U8, dtype.U16, dtype.U32:
		return checkpoint.Value{Kind: checkpoint.Integer, Int: int64(u)}
	case dtype.U64:
		if u > math.MaxInt64 {
			return checkpoint.Value{Kind: checkpoint.Integer, Big: strconv.FormatUint(u, 10)}
		}
		return checkpoint.Value{Kind: checkpoint.Integer, Int: int64(u)}
	}
	unused := 64 - 8*len(b)
	return checkpoint.Value{Kind: checkpoint.Integer, Int: int64(u<<unused) >> unused}
}

// half is the value of an IEEE binary16.
func half(u uint16) float64 {
	sign, exp, man := 1-2*float64(u>>15), int(u>>10&31), float64(u&1023)
	switch {
	case exp == 0:
		return sign * math.Ldexp(man, -24)
	case exp < 31:
		return sign * math.Ldexp(1024+man, exp-25)
	case man == 0:
		return math.Inf(int(sign))
	}
	return math.NaN()
}
