package torch

import (
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
)

// classOf is the storage class of an element type, the inverse of classes.
var classOf = map[dtype.Type]string{
	dtype.F64: "DoubleStorage", dtype.F32: "FloatStorage", dtype.F16: "HalfStorage", dtype.BF16: "BFloat16Storage",
	dtype.I64: "LongStorage", dtype.I32: "IntStorage", dtype.I16: "ShortStorage", dtype.I8: "CharStorage",
	dtype.U8: "ByteStorage", dtype.Bool: "BoolStorage",
	dtype.C128: "ComplexDoubleStorage", dtype.C64: "ComplexFloatStorage", dtype.C32: "ComplexHalfStorage",
	dtype.QI8: "QInt8Storage", dtype.QU8: "QUInt8Storage", dtype.QI32: "QInt32Storage",
}

// quantizedTypes are stored integers that mean nothing without their scale.
var quantizedTypes = map[dtype.Type]bool{dtype.QI8: true, dtype.QU8: true, dtype.QI32: true}

// tensor writes a tensor; attributes and the role of a parameter wrap it.
func (e *emitter) tensor(n *node) error {
	t := &e.out.Tensors[n.tensor]
	_, _, states, _ := n.split()
	if len(states) != len(n.kids) {
		return e.cannot("other values lie inside of it")
	}
	if q := n.state("qscheme"); q != nil && quantizedTypes[t.DType] {
		return e.quantized(n, q)
	}
	if quantizedTypes[t.DType] {
		return e.cannot("it is quantized, and its scale is missing")
	}
	if class := t.Note["class"]; class != "" {
		e.drop("the class `" + class + "` of a tensor is not written")
	}
	w := e.w
	if len(states) > 0 {
		w.Global("torch._tensor", "_rebuild_from_type_v2")
		w.Mark()
	}
	parameter := t.Note["parameter"] == "true"
	if parameter {
		w.Global("torch._utils", "_rebuild_parameter")
		if len(states) > 0 {
			w.Global("torch.nn.parameter", "Parameter")
		}
		w.Mark()
	}
	if err := e.plainTensor(t, n.tensor, len(states) > 0 && !parameter); err != nil {
		return err
	}
	if parameter {
		w.Bool(t.Note["requires_grad"] != "false")
		e.orderedDict()
		w.Tuple()
		if len(states) == 0 {
			w.Reduce()
		}
	}
	if len(states) > 0 {
		if err := e.dict(states); err != nil {
			return err
		}
		w.Tuple()
		w.Reduce()
	}
	return nil
}

// plainTensor writes the call of _rebuild_tensor_v2; of _v3 for the types that
// have no storage class, which torch knows from 2.3 on. typed leaves out the
// call and puts the class torch.Tensor between function and arguments.
func (e *emitter) plainTensor(t *checkpoint.Tensor, index int, typed bool) error {
	w, typ := e.w, t.DType
	class := classOf[typ]
	fn := "_rebuild_tensor_v2"
	torchType := typ.Torch()
	if class == "" {
		fn = "_rebuild_tensor_v3"
		if torchType == "" || typ.Bits()%8 != 0 {
			return e.cannot("torch has no type for %s", typ)
		}
	}
	w.Global("torch._utils", fn)
	if typed {
		w.Global("torch", "Tensor")
	}
	w.Mark()
	if err := e.storage(index, class); err != nil {
		return err
	}
	w.Int(0)
	e.ints(t.Shape)
	e.ints(box.Strides(t.Shape))
	w.Bool(t.Note["requires_grad"] == "true" && t.Note["parameter"] != "true")
	e.orderedDict()
	if class == "" {
		w.Global("torch", torchType)
	}
	w.Tuple()
	if !typed {
		w.Reduce()
	}
	return nil
}

// storage writes the persistent id of a storage of its own. Its key is its
// place in the file.
func (e *emitter) storage(index int, class string) error {
	t := &e.out.Tensors[index]
	numel, ok := dtype.Elements(t.Shape)
	size, ok2 := t.DType.Bytes(t.Shape)
	if !ok || !ok2 {
		return e.cannot("%s of shape %v is not possible", t.DType, t.Shape)
	}
	w := e.w
	w.Mark()
	w.Str("storage")
	if class == "" {
		w.Global("torch.storage", "UntypedStorage")
		numel = size
	} else {
		w.Global("torch", class)
	}
	w.Str(strconv.Itoa(len(e.storages)))
	w.Str("cpu")
	w.Int(numel)
	w.Tuple()
	w.PersID()
	e.storages = append(e.storages, index)
	return nil
}

func (e *emitter) ints(list []int64) {
	if len(list) == 0 {
		e.w.EmptyTuple()
		return
	}
	e.w.Mark()
	for _, v := range list {
		e.w.Int(v)
	}
	e.w.Tuple()
}

// quantized writes a tensor of stored integers with the parameters that lie in
// its state.
func (e *emitter) quantized(n, scheme *node) error {
	t := &e.out.Tensors[n.tensor]
	names := []string{"scale", "zero_point"}
	if scheme.leaf == nil || scheme.leaf.Value.Kind != checkpoint.Text {
		return e.cannot("its quantization scheme is unknown")
	}
	if strings.HasPrefix(scheme.leaf.Value.Text, "per_channel") {
		names = []string{"scales", "zero_points", "axis"}
	}
	w := e.w
	w.Global("torch._utils", "_rebuild_qtensor")
	w.Mark()
	if err := e.storage(n.tensor, classOf[t.DType]); err != nil {
		return err
	}
	w.Int(0)
	e.ints(t.Shape)
	e.ints(box.Strides(t.Shape))
	w.Mark()
	w.Global("torch", scheme.leaf.Value.Text)
	for _, name := range names {
		k := n.state(name)
		if k == nil || !e.writable(k) {
			return e.cannot("its quantization parameter `%s` is missing", name)
		}
		if err := e.under(k.part, func() error { return e.value(k) }); err != nil {
			return err
		}
	}
	w.Tuple()
	w.Bool(false)
	e.orderedDict()
	w.Tuple()
	w.Reduce()
	return nil
}

// sparse writes a sparse tensor of its parts. It is false, and nothing is
// written, where they do not make one.
func (e *emitter) sparse(parts []*node) (bool, error) {
	byPart := map[string]*node{}
	var note map[string]string
	for _, k := range parts {
		if k.tensor < 0 || len(k.kids) > 0 {
			return false, nil
		}
		byPart[k.part.Text] = k
		note = e.out.Tensors[k.tensor].Note
	}
	names := sparseParts[note["sparse"]]
	size, ok := parseInts(note["sparse_size"])
	if len(names) != len(parts) || !ok {
		return false, nil
	}
	for _, name := range names {
		if byPart[name] == nil {
			return false, nil
		}
	}
	w := e.w
	w.Global("torch._utils", "_rebuild_sparse_tensor")
	w.Global("torch.serialization", "_get_layout")
	w.Str("torch.sparse_" + note["sparse"])
	w.Tuple1()
	w.Reduce()
	w.Mark()
	for _, name := range names {
		k := byPart[name]
		if err := e.under(k.part, func() error { return e.value(k) }); err != nil {
			return true, err
		}
	}
	w.Global("torch", "Size")
	e.ints(size)
	w.Tuple1()
	w.Reduce()
	w.Tuple()
	w.Tuple2()
	w.Reduce()
	return true, nil
}
