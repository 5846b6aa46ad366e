package tensor

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	arrowtensor "github.com/apache/arrow/go/v17/arrow/tensor"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/dtype"
)

// View says how a tensor lies in a buffer. It is a value: Slice and Transpose
// return other views of the same bytes. It holds no reference; the buffer must
// outlive it.
type View struct {
	Type   dtype.Type
	Shape  []int64
	Stride []int64 // in bytes
	Off    int64   // of the first element in the buffer
	Buffer *Buffer
}

// NewView is a row-major tensor at the beginning of a buffer. The type must
// have elements of whole bytes and the buffer must hold them.
func NewView(t dtype.Type, shape []int64, b *Buffer) (View, error) {
	n, ok := t.Bytes(shape)
	switch {
	case t.Size() == 0:
		return View{}, fmt.Errorf("elements of %v have no whole bytes", t)
	case !ok:
		return View{}, fmt.Errorf("%v of shape %v is too large", t, shape)
	case n > int64(b.Len()):
		return View{}, fmt.Errorf("%v of shape %v has %d bytes, the buffer has %d", t, shape, n, b.Len())
	}
	v := View{Type: t, Shape: slices.Clone(shape), Stride: box.Strides(shape), Buffer: b}
	for i := range v.Stride {
		v.Stride[i] *= t.Size()
	}
	return v, nil
}

// Elements is the number of elements.
func (v View) Elements() int64 {
	n := int64(1)
	for _, d := range v.Shape {
		n *= d
	}
	return n
}

// Slice is the part of v from index from up to index to of dim i; they must lie
// in its shape.
func (v View) Slice(i int, from, to int64) View {
	if from < 0 || to < from || to > v.Shape[i] {
		panic(fmt.Sprintf("internal error: slice %d:%d of a dim of %d", from, to, v.Shape[i]))
	}
	v.Shape = slices.Clone(v.Shape)
	v.Shape[i] = to - from
	v.Off += from * v.Stride[i]
	return v
}

// Box is the part of v that b tells.
func (v View) Box(b box.Box) View {
	for i := range b.Ext {
		v = v.Slice(i, b.Off[i], b.Off[i]+b.Ext[i])
	}
	return v
}

// Transpose has dim perm[i] of v as its dim i.
func (v View) Transpose(perm ...int) View {
	shape, stride := v.Shape, v.Stride
	v.Shape, v.Stride = make([]int64, len(perm)), make([]int64, len(perm))
	for i, p := range perm {
		v.Shape[i], v.Stride[i] = shape[p], stride[p]
	}
	return v
}

// RowMajor reports whether the elements follow each other without a gap.
func (v View) RowMajor() bool {
	want := v.Type.Size()
	for i := len(v.Shape) - 1; i >= 0; i-- {
		if v.Shape[i] == 0 {
			return true
		}
		if v.Shape[i] != 1 && v.Stride[i] != want {
			return false
		}
		want *= v.Shape[i]
	}
	return true
}

// Bytes is the buffer from the first element on.
func (v View) Bytes() []byte { return v.Buffer.Bytes()[v.Off:] }

// CopyTo copies the elements of v to those of w, which has the same shape and
// element size.
func (v View) CopyTo(w View) {
	if v.Elements() == 0 {
		return
	}
	Copy(w.Bytes(), w.Stride, v.Bytes(), v.Stride, v.Shape, v.Type.Size())
}

// Arrow is v as an Arrow tensor, which holds a reference to the buffer until it
// is released. Arrow's tensors know the integers, f32 and f64; other types are
// an error.
func (v View) Arrow() (arrowtensor.Interface, error) {
	t, ok := arrowType(v.Type)
	if !ok {
		return nil, fmt.Errorf("arrow has no tensor of %v", v.Type)
	}
	n := int64(0) // elements from the first to the last
	if v.Elements() > 0 {
		n = 1
		for i, d := range v.Shape {
			n += (d - 1) * v.Stride[i] / v.Type.Size()
		}
	}
	for _, s := range v.Stride {
		if s%v.Type.Size() != 0 {
			return nil, fmt.Errorf("a stride of %d bytes splits an element of %v", s, v.Type)
		}
	}
	buf := memory.SliceBuffer(v.Buffer.Arrow(), int(v.Off), int(n*v.Type.Size()))
	defer buf.Release()
	data := array.NewData(t, int(n), []*memory.Buffer{nil, buf}, nil, 0, 0)
	defer data.Release()
	return arrowtensor.New(data, v.Shape, v.Stride, nil), nil
}

func arrowType(t dtype.Type) (arrow.DataType, bool) {
	switch t {
	case dtype.U8:
		return arrow.PrimitiveTypes.Uint8, true
	case dtype.I8:
		return arrow.PrimitiveTypes.Int8, true
	case dtype.U16:
		return arrow.PrimitiveTypes.Uint16, true
	case dtype.I16:
		return arrow.PrimitiveTypes.Int16, true
	case dtype.U32:
		return arrow.PrimitiveTypes.Uint32, true
	case dtype.I32:
		return arrow.PrimitiveTypes.Int32, true
	case dtype.U64:
		return arrow.PrimitiveTypes.Uint64, true
	case dtype.I64:
		return arrow.PrimitiveTypes.Int64, true
	case dtype.F32:
		return arrow.PrimitiveTypes.Float32, true
	case dtype.F64:
		return arrow.PrimitiveTypes.Float64, true
	}
	return nil, false
}
