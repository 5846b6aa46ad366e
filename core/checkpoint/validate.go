package checkpoint

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/storage"
)

// Validate checks an index against the sizes of its files: every extent lies
// inside its file, every tensor has as many bytes as its type and shape say.
// It is applied to whatever any format returns.
func (x *Index) Validate(sizes []int64) error {
	for i := range x.Entries {
		if err := x.Entries[i].validate(sizes); err != nil {
			return diag.Errorf(diag.Damaged, "tensor `%s`: %v", x.Entries[i].Name, err).OfTensor(x.Entries[i].Name)
		}
	}
	return nil
}

func (e *Entry) validate(sizes []int64) error {
	d := &e.Data
	for _, x := range d.Extents {
		if x.File < 0 || x.File >= len(sizes) {
			return fmt.Errorf("its bytes are in file %d of %d", x.File, len(sizes))
		}
		if size := sizes[x.File]; x.Off < 0 || x.Len < 0 || x.Off > size || x.Len > size-x.Off {
			return fmt.Errorf("its bytes %d to %d run past the end of the file, which has %d", x.Off, x.Off+x.Len, size)
		}
	}
	if d.Codec > Deflate || d.Codec != Plain && d.Inline == nil && len(d.Extents) != 1 {
		return fmt.Errorf("is packed by codec %d in %d places", d.Codec, len(d.Extents))
	}
	want, ok := e.DType.Bytes(e.Shape)
	if !ok {
		return fmt.Errorf("%s of shape %v is not possible", e.DType, e.Shape)
	}
	run := d.RunBytes()
	if d.Strides == nil && d.Offset == 0 {
		if run != want {
			return fmt.Errorf("holds %d bytes, %s of shape %v has %d", run, e.DType, e.Shape, want)
		}
		return nil
	}
	last, ok := d.lastElement(e.Shape)
	if !ok || (last >= 0 && last > math.MaxInt64/8) {
		return fmt.Errorf("its strides %v are not possible", d.Strides)
	}
	if es := e.DType.Bits(); (last+1)*es/8 > run || last+1 > math.MaxInt64/max(es, 1) {
		return fmt.Errorf("reaches element %d, its storage has %d bytes", last, run)
	}
	if e.DType.Size() == 0 && (!d.RowMajor(e.Shape) || d.Offset*e.DType.Bits()%8 != 0) {
		return fmt.Errorf("elements of %d bits lie with strides %v from element %d on, which is not supported", e.DType.Bits(), d.Strides, d.Offset)
	}
	return nil
}

// lastElement is the position of the last element in the run, -1 if there is
// none; false where a stride or offset is negative or the sum overflows.
func (d *Data) lastElement(shape []int64) (int64, bool) {
	if d.Offset < 0 || (d.Strides != nil && len(d.Strides) != len(shape)) {
		return 0, false
	}
	at, n, stride := uint64(d.Offset), int64(1), int64(1)
	empty := false
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] < 0 {
			return 0, false
		}
		if shape[i] == 0 {
			empty = true
			continue
		}
		s := stride
		if d.Strides != nil {
			s = d.Strides[i]
		}
		if s < 0 {
			return 0, false
		}
		hi, lo := bits.Mul64(uint64(shape[i]-1), uint64(s))
		sum, carry := bits.Add64(at, lo, 0)
		if hi != 0 || carry != 0 || sum > math.MaxInt64/2 {
			return 0, false
		}
		at = sum
		n = shape[i]
		if stride > math.MaxInt64/max(n, 1) {
			return 0, false
		}
		stride *= n
	}
	if empty {
		return -1, true
	}
	return int64(at), true
}

// Validate checks a blueprint against what it was to lay out: every payload
// byte of every tensor stands in it exactly once, holes lie in literal bytes
// outside of what they sum, and what they sum is the same or apart.
func (b *Blueprint) Validate(out Output) error {
	next := make([]int64, len(out.Tensors))
	var at int64
	var text []storage.Range // the literal bytes
	for _, s := range b.Segments {
		if s.Len < 0 || s.Len > 0 && (s.Tensor < 0 || s.Tensor >= len(out.Tensors) || s.Off != next[s.Tensor]) {
			return fmt.Errorf("payload at byte %d is out of order", at)
		}
		if s.Size() > math.MaxInt64-at {
			return fmt.Errorf("the file would have more bytes than can be counted")
		}
		switch n := len(text) - 1; {
		case s.Len > 0:
			next[s.Tensor] += s.Len
		case n >= 0 && text[n].Off+text[n].Len == at:
			text[n].Len += s.Size()
		default:
			text = append(text, storage.Range{Off: at, Len: s.Size()})
		}
		at += s.Size()
	}
	for i, t := range out.Tensors {
		if want, ok := t.DType.Bytes(t.Shape); !ok || next[i] != want {
			return fmt.Errorf("tensor `%s`: %d bytes are laid out, it has %d", t.Name, next[i], want)
		}
	}
	return b.holes(text, at)
}

// holes checks the sums of a file of size bytes with these literal bytes.
func (b *Blueprint) holes(text []storage.Range, size int64) error {
	list := slices.Clone(b.Holes)
	slices.SortFunc(list, func(x, y Hole) int { return cmp.Compare(x.At, y.At) })
	for i, h := range list {
		width := h.Encoding.Width()
		switch k := sort.Search(len(text), func(k int) bool { return text[k].Off+text[k].Len > h.At }); {
		case h.At < 0 || h.At > size-width || h.Over.Off < 0 || h.Over.Len < 0 || h.Over.Off > size-h.Over.Len:
			return fmt.Errorf("sum at byte %d lies outside the file", h.At)
		case h.At < h.Over.Off+h.Over.Len && h.At+width > h.Over.Off:
			return fmt.Errorf("sum at byte %d would sum itself", h.At)
		case k == len(text) || h.At < text[k].Off || h.At+width > text[k].Off+text[k].Len:
			return fmt.Errorf("sum at byte %d does not lie in literal bytes", h.At)
		case i > 0 && list[i-1].At+list[i-1].Encoding.Width() > h.At:
			return fmt.Errorf("two sums lie at byte %d", h.At)
		}
	}
	slices.SortFunc(list, func(x, y Hole) int {
		return cmp.Or(cmp.Compare(x.Over.Off, y.Over.Off), cmp.Compare(x.Over.Len, y.Over.Len))
	})
	for i := 1; i < len(list); i++ {
		if x, y := list[i-1].Over, list[i].Over; x != y && x.Len > 0 && x.Off+x.Len > y.Off {
			return fmt.Errorf("the sums at bytes %d and %d are over bytes that overlap", list[i-1].At, list[i].At)
		}
	}
	return nil
}
