// Package dtype is the closed set of element types that a tensor in a
// checkpoint can have.
//
// An element type has a width in bits (types of 4 and 6 bits exist), a name of
// our own ("f32"), and a name in each framework. Bytes are moved without
// looking inside; only the four common floating types can be cast.
package dtype

import "math"

// Type is an element type. The zero value is Invalid.
type Type uint8

// The element types.
const (
	Invalid Type = iota
	Bool
	U8
	I8
	U16
	I16
	U32
	I32
	U64
	I64
	F16
	BF16
	F32
	F64
	C32  // complex of two f16
	C64  // complex of two f32
	C128 // complex of two f64
	F8E5M2
	F8E4M3 // the "fn" variant: finite, one NaN
	F8E5M2FNUZ
	F8E4M3FNUZ
	F8E8M0
	F6E2M3
	F6E3M2
	F4E2M1
	HiF8  // Huawei's HiFloat8
	I4x2  // MindSpore's Int4: kept in a container of one byte an element, dims are the container's
	QI8   // torch's quantized types: the stored integers
	QU8   //
	QI32  //
	QU4x2 // two in a byte
	QU2x4 // four in a byte
	count
)

// Count is the number of types, Invalid included; types are 0 ≤ t < Count.
const Count = int(count)

type info struct {
	name        string
	bits        int64
	unit        int64 // bytes that are swapped together in the other byte order
	mindspore   string
	safetensors string
	torch       string
}

var table = [count]info{
	Invalid:    {"invalid", 0, 1, "", "", ""},
	Bool:       {"bool", 8, 1, "Bool", "BOOL", "bool"},
	U8:         {"u8", 8, 1, "UInt8", "U8", "uint8"},
	I8:         {"i8", 8, 1, "Int8", "I8", "int8"},
	U16:        {"u16", 16, 2, "UInt16", "U16", "uint16"},
	I16:        {"i16", 16, 2, "Int16", "I16", "int16"},
	U32:        {"u32", 32, 4, "UInt32", "U32", "uint32"},
	I32:        {"i32", 32, 4, "Int32", "I32", "int32"},
	U64:        {"u64", 64, 8, "UInt64", "U64", "uint64"},
	I64:        {"i64", 64, 8, "Int64", "I64", "int64"},
	F16:        {"f16", 16, 2, "Float16", "F16", "float16"},
	BF16:       {"bf16", 16, 2, "BFloat16", "BF16", "bfloat16"},
	F32:        {"f32", 32, 4, "Float32", "F32", "float32"},
	F64:        {"f64", 64, 8, "Float64", "F64", "float64"},
	C32:        {"c32", 32, 2, "", "", "complex32"},
	C64:        {"c64", 64, 4, "Complex64", "C64", "complex64"},
	C128:       {"c128", 128, 8, "Complex128", "", "complex128"},
	F8E5M2:     {"f8_e5m2", 8, 1, "Float8E5M2", "F8_E5M2", "float8_e5m2"},
	F8E4M3:     {"f8_e4m3", 8, 1, "Float8E4M3FN", "F8_E4M3", "float8_e4m3fn"},
	F8E5M2FNUZ: {"f8_e5m2fnuz", 8, 1, "", "F8_E5M2FNUZ", "float8_e5m2fnuz"},
	F8E4M3FNUZ: {"f8_e4m3fnuz", 8, 1, "", "F8_E4M3FNUZ", "float8_e4m3fnuz"},
	F8E8M0:     {"f8_e8m0", 8, 1, "", "F8_E8M0", "float8_e8m0fnu"},
	F6E2M3:     {"f6_e2m3", 6, 1, "", "F6_E2M3", ""},
	F6E3M2:     {"f6_e3m2", 6, 1, "", "F6_E3M2", ""},
	F4E2M1:     {"f4", 4, 1, "", "F4", ""},
	HiF8:       {"hif8", 8, 1, "HiFloat8", "", ""},
	I4x2:       {"i4x2", 8, 1, "Int4", "", ""},
	QI8:        {"qi8", 8, 1, "", "", "qint8"},
	QU8:        {"qu8", 8, 1, "", "", "quint8"},
	QI32:       {"qi32", 32, 4, "", "", "qint32"},
	QU4x2:      {"qu4x2", 4, 1, "", "", "quint4x2"},
	QU2x4:      {"qu2x4", 2, 1, "", "", "quint2x4"},
}

func (t Type) info() info {
	if t >= count {
		return table[Invalid]
	}
	return table[t]
}

// String is our name of the type: "f32", "bf16", "u8".
func (t Type) String() string { return t.info().name }

// Bits is the width of one element; 0 for Invalid.
func (t Type) Bits() int64 { return t.info().bits }

// Size is the width of one element in bytes, and 0 where an element has no
// whole number of bytes.
func (t Type) Size() int64 {
	if b := t.info().bits; b%8 == 0 {
		return b / 8
	}
	return 0
}

// Unit is the number of bytes that change order together between little and
// big endian: the component of a complex type, else the element.
func (t Type) Unit() int64 { return t.info().unit }

// MindSpore is the name in a MindSpore .ckpt file, or "" if it has none.
func (t Type) MindSpore() string { return t.info().mindspore }

// Safetensors is the name in a safetensors header, or "" if it has none.
func (t Type) Safetensors() string { return t.info().safetensors }

// Torch is the name without its module ("float32"), or "" if it has none.
func (t Type) Torch() string { return t.info().torch }

// Castable reports whether values of t can be cast to other castable types:
// f64, f32, f16 and bf16.
func (t Type) Castable() bool { return t == F64 || t == F32 || t == F16 || t == BF16 }

// Parse returns the type with our name s.
func Parse(s string) (Type, bool) {
	return find(func(i info) string { return i.name }, s)
}

// FromMindSpore returns the type that a .ckpt file calls s. Files of 2020
// spell the unsigned types "Uint8"; both spellings are accepted.
func FromMindSpore(s string) (Type, bool) {
	if len(s) > 4 && s[:4] == "Uint" {
		s = "UInt" + s[4:]
	}
	return find(func(i info) string { return i.mindspore }, s)
}

// FromSafetensors returns the type that a safetensors header calls s.
func FromSafetensors(s string) (Type, bool) {
	return find(func(i info) string { return i.safetensors }, s)
}

// FromTorch returns the type that torch calls s, without the module.
func FromTorch(s string) (Type, bool) {
	return find(func(i info) string { return i.torch }, s)
}

func find(name func(info) string, s string) (Type, bool) {
	if s == "" {
		return Invalid, false
	}
	for t := Bool; t < count; t++ {
		if name(table[t]) == s {
			return t, true
		}
	}
	return Invalid, false
}

// Elements returns the number of elements of a tensor of that shape. It is false
// where a dimension is negative or the product, taken from left to right,
// overflows.
func Elements(shape []int64) (int64, bool) {
	n := int64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, false
		}
		if d != 0 && n > math.MaxInt64/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// Bytes returns the number of bytes of a row-major tensor of that shape. It is
// false where the shape is not valid, the product overflows, or the elements
// do not fill whole bytes.
func (t Type) Bytes(shape []int64) (int64, bool) {
	n, ok := Elements(shape)
	bits := t.Bits()
	if !ok || bits == 0 || (n != 0 && n > math.MaxInt64/bits) || n*bits%8 != 0 {
		return 0, false
	}
	return n * bits / 8, true
}
