package torch

import (
	"strings"

	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

// classes are the storage classes by their name without "Storage".
var classes = map[string]dtype.Type{
	"Double": dtype.F64, "Float": dtype.F32, "Half": dtype.F16, "BFloat16": dtype.BF16,
	"Long": dtype.I64, "Int": dtype.I32, "Short": dtype.I16, "Char": dtype.I8, "Byte": dtype.U8, "Bool": dtype.Bool,
	"ComplexDouble": dtype.C128, "ComplexFloat": dtype.C64, "ComplexHalf": dtype.C32,
	"QInt8": dtype.QI8, "QUInt8": dtype.QU8, "QInt32": dtype.QI32, "QUInt4x2": dtype.QU4x2, "QUInt2x4": dtype.QU2x4,
	"Untyped": dtype.U8,
}

// packed are the types of torch that have no type of ours: what their
// elements are stored as.
var packed = map[string]dtype.Type{
	"float4_e2m1fn_x2": dtype.F4E2M1, // two in a byte
	"bits8":            dtype.U8, "bits16": dtype.U16, "bits1x8": dtype.U8, "bits2x4": dtype.U8, "bits4x2": dtype.U8,
	"uint1": dtype.U8, "uint2": dtype.U8, "uint3": dtype.U8, "uint4": dtype.U8, "uint5": dtype.U8, "uint6": dtype.U8, "uint7": dtype.U8,
	"int1": dtype.I8, "int2": dtype.I8, "int3": dtype.I8, "int4": dtype.I8, "int5": dtype.I8, "int6": dtype.I8, "int7": dtype.I8,
}

// storageClass is the element type of a storage class. Older files name the
// classes of the device, torch.cuda.FloatStorage.
func storageClass(full string) (dtype.Type, bool) {
	class, ok := strings.CutSuffix(full, "Storage")
	if !ok {
		return dtype.Invalid, false
	}
	for _, module := range [...]string{"torch.storage.", "torch.cuda.", "torch.sparse.", "torch."} {
		if c, ok := strings.CutPrefix(class, module); ok {
			t, ok := classes[c]
			return t, ok
		}
	}
	return dtype.Invalid, false
}

// store is what a persistent id names: a run of elements, one record each.
type store struct {
	class string
	dtype dtype.Type
	numel int64
	bytes int64
	rec   *record // nil where there is none: on the device "meta", or empty
}

// storage resolves a persistent id,
// ('storage', class, key, location, number of elements).
func (w *walker) storage(n *pickle.Node) (*store, error) {
	if n.Kind != pickle.PersID || n.Items[0].Kind != pickle.Tuple {
		return nil, w.bad(n, "a storage is wanted, found a %s", n.Kind)
	}
	id := n.Items[0].Items
	if len(id) < 5 || id[0].Text != "storage" || id[2].Kind != pickle.Str || id[3].Kind != pickle.Str {
		return nil, w.bad(n, "a persistent id that is no storage")
	}
	class, key := fullName(id[1]), id[2].Text
	t, ok := storageClass(class)
	if !ok {
		return nil, w.bad(n, "storage class `%.200s` is not known", class)
	}
	numel, ok := id[4].IsInt()
	if !ok || numel < 0 {
		return nil, w.bad(n, "storage `%.200s` has %s elements", key, repr(id[4]))
	}
	if s := w.storages[key]; s != nil {
		if s.class != class || s.numel != numel {
			return nil, w.bad(n, "storage `%.200s` is %d elements of `%s` in one place and %d of `%s` in another", key, s.numel, s.class, numel, class)
		}
		return s, nil
	}
	s := &store{class: class, dtype: t, numel: numel}
	var fits bool
	if s.bytes, fits = storageBytes(t, numel); !fits {
		return nil, w.bad(n, "storage `%.200s` has %d elements", key, numel)
	}
	if s.rec = w.r.find("data/" + key); s.rec == nil {
		if id[3].Text != "meta" && s.bytes > 0 {
			return nil, w.bad(n, "storage `%.200s` has no record `%.200s`", key, w.r.prefix+"data/"+key)
		}
	} else if s.rec.usize < s.bytes {
		return nil, w.bad(n, "record `%s` has %d bytes, storage `%.200s` of %d elements of %s has %d", s.rec.name, s.rec.usize, key, numel, t, s.bytes)
	} else if s.rec.usize > s.bytes {
		if err := w.r.odd(s.rec.header, "record `%s` has %d bytes, its storage %d", s.rec.name, s.rec.usize, s.bytes); err != nil {
			return nil, err
		}
	}
	w.storages[key] = s
	return s, nil
}

// storageBytes is the size of a storage; the packed quantized types fill the
// last byte up.
func storageBytes(t dtype.Type, numel int64) (int64, bool) {
	if per := 8 / max(t.Bits(), 1); per > 1 {
		return numel/per + min(numel%per, 1), true
	}
	return t.Bytes([]int64{numel})
}
