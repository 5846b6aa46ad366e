package tensor_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	arrowtensor "github.com/apache/arrow/go/v17/arrow/tensor"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/tensor"
)

// numbers is a view of 0, 1, 2, … as u32 in a buffer of p.
func numbers(t *testing.T, p *tensor.Pool, shape ...int64) tensor.View {
	t.Helper()
	n, _ := dtype.U32.Bytes(shape)
	b := get(t, p, int(n))
	for i := range n / 4 {
		le.PutUint32(b.Bytes()[4*i:], uint32(i))
	}
	v, err := tensor.NewView(dtype.U32, shape, b)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// values are the elements of v in row-major order.
func values(t *testing.T, v tensor.View) []uint32 {
	t.Helper()
	w, err := tensor.NewView(v.Type, v.Shape, tensor.Wrap(make([]byte, 4*v.Elements())))
	if err != nil {
		t.Fatal(err)
	}
	v.CopyTo(w)
	var out []uint32
	for p := w.Bytes(); len(p) > 0; p = p[4:] {
		out = append(out, le.Uint32(p))
	}
	return out
}

func TestViewsOfAMatrix(t *testing.T) {
	p := tensor.NewPool(1 << 20)
	defer closed(t, p)
	v := numbers(t, p, 3, 4)
	defer v.Buffer.Release()
	for _, tt := range []struct {
		name     string
		view     tensor.View
		want     []uint32
		rowMajor bool
	}{
		{"the matrix", v, []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, true},
		{"its last two rows", v.Slice(0, 1, 3), []uint32{4, 5, 6, 7, 8, 9, 10, 11}, true},
		{"a column", v.Slice(1, 2, 3), []uint32{2, 6, 10}, false},
		{"part of a row", v.Slice(0, 1, 2).Slice(1, 1, 3), []uint32{5, 6}, true},
		{"its transpose", v.Transpose(1, 0), []uint32{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}, false},
		{"a box of its transpose", v.Transpose(1, 0).Box(box.Box{Off: []int64{2, 1}, Ext: []int64{2, 2}}), []uint32{6, 10, 7, 11}, false},
		{"nothing", v.Slice(0, 3, 3), nil, true},
	} {
		if got := values(t, tt.view); !slices.Equal(got, tt.want) {
			t.Errorf("%s has %v, want %v", tt.name, got, tt.want)
		}
		if got := tt.view.RowMajor(); got != tt.rowMajor {
			t.Errorf("%s is row-major: %v, want %v", tt.name, got, tt.rowMajor)
		}
	}
}

func TestAViewThatItsBufferCannotHoldIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		typ   dtype.Type
		shape []int64
	}{
		{"one element too many", dtype.F32, []int64{5}},
		{"a shape that overflows", dtype.F32, []int64{1 << 40, 1 << 40}},
		{"a negative dim", dtype.F32, []int64{-1}},
		{"elements of half a byte", dtype.F4E2M1, []int64{2}},
		{"no type", dtype.Invalid, []int64{1}},
	} {
		if _, err := tensor.NewView(tt.typ, tt.shape, tensor.Wrap(make([]byte, 16))); err == nil {
			t.Errorf("a view of %s in 16 bytes was made, want an error", tt.name)
		}
	}
}

func TestArrowTensorsReadTheSameElements(t *testing.T) {
	p := tensor.NewPool(1 << 20)
	v := numbers(t, p, 4, 6)
	r := rand.New(rand.NewPCG(1, 2))
	for _, w := range []tensor.View{v, v.Transpose(1, 0), v.Slice(1, 2, 5), v.Slice(0, 1, 3).Transpose(1, 0), v.Slice(0, 2, 2)} {
		a, err := w.Arrow()
		if err != nil {
			t.Fatal(err)
		}
		u := a.(*arrowtensor.Uint32)
		want := values(t, w)
		for range 20 {
			if w.Elements() == 0 {
				break
			}
			i, j := r.Int64N(w.Shape[0]), r.Int64N(w.Shape[1])
			if got := u.Value([]int64{i, j}); got != want[i*w.Shape[1]+j] {
				t.Errorf("arrow has %d at %d, %d of shape %v, want %d", got, i, j, w.Shape, want[i*w.Shape[1]+j])
			}
		}
		a.Release()
	}
	a, err := v.Arrow()
	if err != nil {
		t.Fatal(err)
	}
	v.Buffer.Release()
	if p.InUse() == 0 {
		t.Error("the buffer went back while an arrow tensor refers to it")
	}
	a.Release()
	closed(t, p)
}

func TestArrowHasATensorOfItsNumericTypesOnly(t *testing.T) {
	for typ := dtype.Invalid + 1; int(typ) < dtype.Count; typ++ {
		v, err := tensor.NewView(typ, []int64{2}, tensor.Wrap(bytes.Repeat([]byte{1}, 64)))
		if err != nil {
			continue // no whole bytes
		}
		a, err := v.Arrow()
		switch typ {
		case dtype.U8, dtype.U16, dtype.U32, dtype.U64, dtype.I8, dtype.I16, dtype.I32, dtype.I64, dtype.F32, dtype.F64:
			if err != nil {
				t.Errorf("%v: %v, want a tensor", typ, err)
				continue
			}
			a.Release()
		default:
			if err == nil {
				t.Errorf("an arrow tensor of %v was made, want an error", typ)
			}
		}
	}
}
