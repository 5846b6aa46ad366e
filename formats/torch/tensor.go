package torch

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

const (
	maxDims = 128

	// A tensor may repeat the elements of its storage by strides of zero. What
	// is moderate is read, what stands out is told, what is a bomb is refused.
	repeatTold    = 16
	repeatRefused = 1024
	repeatSmall   = 1 << 20
	repeatLarge   = 64 << 20
)

// tensor is a view into a storage.
type tensor struct {
	at      *pickle.Node
	dtype   dtype.Type
	shape   []int64
	strides []int64
	offset  int64
	store   *store
	negate  bool
	conj    bool
	note    map[string]string
}

// view reads the arguments (storage, offset, size, stride, …) that all rebuild
// functions begin with.
func (w *walker) view(n *pickle.Node, args []*pickle.Node) (*tensor, error) {
	if len(args) < 4 {
		return nil, w.bad(n, "a tensor is rebuilt from %d arguments, at least 4 are wanted", len(args))
	}
	s, err := w.storage(args[0])
	if err != nil {
		return nil, err
	}
	t := &tensor{at: n, dtype: s.dtype, store: s}
	var ok bool
	if t.offset, ok = args[1].IsInt(); !ok || t.offset < 0 {
		return nil, w.bad(n, "the tensor begins at element %s of its storage", repr(args[1]))
	}
	if t.shape, ok = ints(args[2]); !ok {
		return nil, w.bad(n, "the size of the tensor is %s", repr(args[2]))
	}
	if t.strides, ok = ints(args[3]); !ok {
		return nil, w.bad(n, "the strides of the tensor are %s", repr(args[3]))
	}
	if len(t.shape) != len(t.strides) {
		return nil, w.bad(n, "the tensor has %d dims and %d strides", len(t.shape), len(t.strides))
	}
	return t, nil
}

// ints reads a tuple, list or torch.Size of integers that are not negative.
func ints(n *pickle.Node) ([]int64, bool) {
	if n.Kind == pickle.Reduce && n.Obj.Fn.IsGlobal("torch.Size") && len(n.Obj.Args.Items) == 1 {
		n = n.Obj.Args.Items[0]
	}
	if n.Kind != pickle.Tuple && n.Kind != pickle.List || len(n.Items) > maxDims {
		return nil, false
	}
	out := make([]int64, len(n.Items))
	for i, x := range n.Items {
		v, ok := x.IsInt()
		if !ok || v < 0 {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}

// plain reads _rebuild_tensor, _v2 and _v3.
func (w *walker) plain(n *pickle.Node, fn string, args []*pickle.Node) (*tensor, error) {
	t, err := w.view(n, args)
	if err != nil {
		return nil, err
	}
	flags := 6 // where the optional metadata stands
	if fn == "torch._utils._rebuild_tensor_v3" {
		flags = 7
		if len(args) < flags {
			return nil, w.bad(n, "a tensor is rebuilt from %d arguments, at least %d are wanted", len(args), flags)
		}
		if err := w.retype(t, args[6]); err != nil {
			return nil, err
		}
	}
	if fn != "torch._utils._rebuild_tensor" && len(args) > 4 && args[4].Kind == pickle.Bool && args[4].Int == 1 {
		t.setNote("requires_grad", "true")
	}
	if fn != "torch._utils._rebuild_tensor" && len(args) > flags && args[flags].Kind == pickle.Dict {
		items := args[flags].Items
		for i := 0; i+1 < len(items); i += 2 {
			on := items[i+1].Kind == pickle.Bool && items[i+1].Int == 1
			switch items[i].Text {
			case "conj":
				t.conj = on
			case "neg":
				t.negate = on
			}
		}
	}
	return t, nil
}

// retype gives a view into an untyped storage its element type.
func (w *walker) retype(t *tensor, n *pickle.Node) error {
	torchName, ok := strings.CutPrefix(fullName(n), "torch.")
	if !ok {
		return w.bad(t.at, "the element type of the tensor is %s", repr(n))
	}
	if d, ok := dtype.FromTorch(torchName); ok {
		t.dtype = d
		return nil
	}
	if t.dtype, ok = packed[torchName]; !ok {
		return w.bad(t.at, "element type `torch.%.100s` is not known", torchName)
	}
	t.setNote("dtype", "torch."+torchName)
	if t.dtype != dtype.F4E2M1 {
		return nil
	}
	last := len(t.shape) - 1
	if last < 0 || !(&checkpoint.Data{Strides: t.strides}).RowMajor(t.shape) || t.shape[last] > math.MaxInt64/4 || t.offset > math.MaxInt64/4 {
		return w.bad(t.at, "a strided tensor of `torch.%s` is not supported", torchName)
	}
	t.shape[last] *= 2
	t.offset *= 2
	t.strides = box.Strides(t.shape)
	return nil
}

func (t *tensor) setNote(key, value string) {
	if t.note == nil {
		t.note = map[string]string{}
	}
	t.note[key] = value
}

// entry lists a tensor under a path.
func (w *walker) entry(t *tensor, path checkpoint.Path) error {
	want, ok := t.dtype.Bytes(t.shape)
	if !ok {
		return w.bad(t.at, "%s of shape %v is not possible", t.dtype, t.shape)
	}
	e := checkpoint.Entry{DType: t.dtype, Shape: t.shape, Note: t.note}
	e.Data.Negate, e.Data.Conjugate = t.negate, t.conj
	if want > 0 {
		if err := w.extents(t, want, &e.Data); err != nil {
			return err
		}
		w.tie(t, &e, path)
	}
	return w.addEntry(e, path)
}

// extents says where the bytes of a tensor with elements are, and checks that
// its storage has them.
func (w *walker) extents(t *tensor, want int64, d *checkpoint.Data) error {
	s := t.store
	elements := s.numel
	if s.dtype.Bits() != t.dtype.Bits() {
		elements = s.bytes * 8 / t.dtype.Bits()
	}
	span, ok := spanOf(t.shape, t.strides)
	if !ok || t.offset > elements || span > elements-t.offset {
		return w.bad(t.at, "a tensor of shape %v with strides %v at element %d reaches past its storage of %d elements", t.shape, t.strides, t.offset, elements)
	}
	if s.rec == nil {
		return w.bad(t.at, "the storage of the tensor is on the device `meta` and has no bytes")
	}
	whole := (&checkpoint.Data{Strides: t.strides}).RowMajor(t.shape)
	size := t.dtype.Size()
	if size == 0 && !whole {
		return w.bad(t.at, "a strided tensor of %s is not supported", t.dtype)
	}
	d.BigEndian = w.r.big && t.dtype.Unit() > 1
	if !whole {
		d.Strides = t.strides
		if err := w.checkRepeats(t, want, span*size); err != nil {
			return err
		}
	}
	first := t.offset * t.dtype.Bits() / 8
	switch {
	case s.rec.method == deflated:
		d.Codec, d.Decoded, d.Offset = checkpoint.Deflate, s.rec.usize, t.offset
		d.Extents = []checkpoint.Extent{{Off: s.rec.data, Len: s.rec.csize}}
		if whole && t.offset == 0 && want != s.rec.usize {
			d.Strides = box.Strides(t.shape)
		}
	case whole:
		d.Extents = []checkpoint.Extent{{Off: s.rec.data + first, Len: want}}
	default:
		d.Extents = []checkpoint.Extent{{Off: s.rec.data + first, Len: span * size}}
	}
	if t.offset*t.dtype.Bits()%8 != 0 {
		return w.bad(t.at, "the tensor begins inside of a byte")
	}
	return nil
}

// spanOf is the number of elements from the first to the last of a tensor that
// has some; false where that overflows.
func spanOf(shape, strides []int64) (int64, bool) {
	span := int64(1)
	for i, n := range shape {
		if n > 1 && strides[i] > (math.MaxInt64-span)/(n-1) {
			return 0, false
		}
		span += (n - 1) * strides[i]
	}
	return span, true
}

func (w *walker) checkRepeats(t *tensor, want, run int64) error {
	switch times := want / max(run, 1); {
	case want > repeatLarge && times > repeatRefused:
		return w.bad(t.at, "a tensor of shape %v repeats %d bytes %d times", t.shape, run, times)
	case want > repeatSmall && times > repeatTold:
		return w.r.odd(w.r.at(int(t.at.At)), "tensor `%.200s` repeats %d bytes %d times", w.label(), run, times)
	}
	return nil
}

// tie notes the first tensor that has the very same elements.
func (w *walker) tie(t *tensor, e *checkpoint.Entry, path checkpoint.Path) {
	key := fmt.Sprint(t.store.rec.data, t.dtype, t.offset, t.shape, t.strides, t.negate, t.conj)
	first, tied := w.ties[key]
	if !tied {
		w.ties[key] = path
		return
	}
	if len(path) == 0 {
		return
	}
	note := map[string]string{"tie": first.Label()}
	for k, v := range e.Note {
		note[k] = v
	}
	e.Note = note
}

// sparseParts are the parts of sparse tensors by layout, in the order of torch.
var sparseParts = map[string][]string{
	"coo": {"indices", "values"},
	"csr": {"crow", "col", "values"}, "bsr": {"crow", "col", "values"},
	"csc": {"ccol", "row", "values"}, "bsc": {"ccol", "row", "values"},
}

// sparse lists the parts of _rebuild_sparse_tensor and its kin, called with
// (layout, (parts…, size[, is_coalesced])).
func (w *walker) sparse(n *pickle.Node, args []*pickle.Node, path checkpoint.Path, depth int) error {
	if len(args) < 2 || args[1].Kind != pickle.Tuple {
		return w.bad(n, "a sparse tensor is rebuilt from %d arguments, a layout and a tuple are wanted", len(args))
	}
	layout := strings.TrimPrefix(layoutName(args[0]), "torch.sparse_")
	parts := sparseParts[layout]
	if parts == nil {
		return w.bad(n, "sparse layout %s is not known", repr(args[0]))
	}
	data := args[1].Items
	if len(data) <= len(parts) {
		return w.bad(n, "a sparse tensor of layout %s has %d parts", layout, len(data))
	}
	size, ok := ints(data[len(parts)])
	if !ok {
		return w.bad(n, "the size of the sparse tensor is %s", repr(data[len(parts)]))
	}
	note := map[string]string{"sparse": layout, "sparse_size": fmt.Sprint(size)}
	if len(data) > len(parts)+1 && data[len(parts)+1].Kind == pickle.Bool {
		note["sparse_coalesced"] = strconv.FormatBool(data[len(parts)+1].Int == 1)
	}
	for i, p := range parts {
		if err := w.visit(data[i], child(path, checkpoint.Part{Kind: checkpoint.SparsePart, Text: p}), depth+1, note); err != nil {
			return err
		}
	}
	return nil
}
