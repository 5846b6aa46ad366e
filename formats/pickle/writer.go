package pickle

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// Writer writes a pickle of protocol 2, with the opcodes that torch's
// weights_only unpickler has known since 1.13; only a float needs one that it
// learned later. Its methods append and never fail; a pickle that makes sense
// is the caller's task. Begin with NewWriter.
type Writer struct {
	buf     []byte
	globals map[Ref]uint32
	strings map[string]uint32
	memo    uint32
}

// NewWriter begins a pickle.
func NewWriter() *Writer {
	return &Writer{buf: []byte{opProto, 2}, globals: map[Ref]uint32{}, strings: map[string]uint32{}}
}

// Stop ends the pickle and returns it.
func (w *Writer) Stop() []byte {
	w.op(opStop)
	return w.buf
}

// Len is the number of bytes so far.
func (w *Writer) Len() int { return len(w.buf) }

func (w *Writer) op(op byte) { w.buf = append(w.buf, op) }

// None writes None.
func (w *Writer) None() { w.op(opNone) }

// Bool writes a boolean.
func (w *Writer) Bool(b bool) {
	if b {
		w.op(opNewTrue)
	} else {
		w.op(opNewFalse)
	}
}

// Int writes an integer.
func (w *Writer) Int(v int64) {
	switch {
	case v >= 0 && v <= math.MaxUint8:
		w.buf = append(w.buf, opBinInt1, byte(v))
	case v >= 0 && v <= math.MaxUint16:
		w.buf = binary.LittleEndian.AppendUint16(append(w.buf, opBinInt2), uint16(v))
	case v >= math.MinInt32 && v <= math.MaxInt32:
		w.buf = binary.LittleEndian.AppendUint32(append(w.buf, opBinInt), uint32(v))
	default:
		n := 8
		for n > 1 && v<<(64-8*(n-1))>>(64-8*(n-1)) == v {
			n--
		}
		w.buf = append(w.buf, opLong1, byte(n))
		for i := range n {
			w.buf = append(w.buf, byte(v>>(8*i)))
		}
	}
}

// BigInt writes an integer of decimal digits. It reports false and writes
// nothing where s is none, or more than LONG1 can hold.
func (w *Writer) BigInt(s string) bool {
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		w.Int(v)
		return true
	}
	b, ok := twosComplement(s)
	if ok {
		w.buf = append(append(w.buf, opLong1, byte(len(b))), b...)
	}
	return ok
}

// twosComplement is the inverse of decimal: little-endian, with a sign byte.
func twosComplement(s string) ([]byte, bool) {
	negative := len(s) > 0 && s[0] == '-'
	if negative {
		s = s[1:]
	}
	if len(s) == 0 || len(s) > 620 {
		return nil, false
	}
	var words []uint64
	for _, c := range s {
		if c < '0' || c > '9' {
			return nil, false
		}
		carry := uint64(c - '0')
		for i, x := range words {
			hi, lo := bits.Mul64(x, 10)
			sum, over := bits.Add64(lo, carry, 0)
			words[i], carry = sum, hi+over
		}
		if carry > 0 {
			words = append(words, carry)
		}
	}
	words = append(words, 0)
	if negative {
		carry := uint64(1)
		for i := range words {
			words[i], carry = bits.Add64(^words[i], 0, carry)
		}
	}
	var b []byte
	for _, x := range words {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	for len(b) > 1 && (b[len(b)-1] == 0 && b[len(b)-2] < 0x80 || b[len(b)-1] == 0xff && b[len(b)-2] >= 0x80) {
		b = b[:len(b)-1]
	}
	return b, len(b) <= maxLong
}

// Float writes a float.
func (w *Writer) Float(f float64) {
	w.buf = binary.BigEndian.AppendUint64(append(w.buf, opBinFloat), math.Float64bits(f))
}

// Str writes a string. A byte that is no UTF-8 becomes a surrogate, as Python's
// "surrogateescape" has it: 0xff is U+DCFF. A string that was written before is
// taken from the memo.
func (w *Writer) Str(s string) {
	if i, ok := w.strings[s]; ok {
		w.get(i)
		return
	}
	t := escape(s)
	w.buf = binary.LittleEndian.AppendUint32(append(w.buf, opBinUnicode), uint32(len(t)))
	w.buf = append(w.buf, t...)
	w.strings[s] = w.put()
}

// Bytes writes a byte string, which protocol 2 can only do by a call.
func (w *Writer) Bytes(s string) {
	w.Global("_codecs", "encode")
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	w.Str(string(runes))
	w.Str("latin1")
	w.Tuple2()
	w.Reduce()
}

// Global writes a name of Python.
func (w *Writer) Global(module, name string) {
	key := Ref{Module: module, Name: name}
	if i, ok := w.globals[key]; ok {
		w.get(i)
		return
	}
	w.buf = append(w.buf, opGlobal)
	w.buf = append(w.buf, module...)
	w.buf = append(w.buf, '\n')
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '\n')
	w.globals[key] = w.put()
}

func (w *Writer) put() uint32 {
	i := w.memo
	w.memo++
	if i <= math.MaxUint8 {
		w.buf = append(w.buf, opBinPut, byte(i))
	} else {
		w.buf = binary.LittleEndian.AppendUint32(append(w.buf, opLongBinPut), i)
	}
	return i
}

func (w *Writer) get(i uint32) {
	if i <= math.MaxUint8 {
		w.buf = append(w.buf, opBinGet, byte(i))
	} else {
		w.buf = binary.LittleEndian.AppendUint32(append(w.buf, opLongBinGet), i)
	}
}

// The rest writes one opcode each.

// Mark begins what SetItems, Appends or Tuple gather.
func (w *Writer) Mark() { w.op(opMark) }

// EmptyDict writes {}.
func (w *Writer) EmptyDict() { w.op(opEmptyDict) }

// EmptyList writes [].
func (w *Writer) EmptyList() { w.op(opEmptyList) }

// EmptyTuple writes ().
func (w *Writer) EmptyTuple() { w.op(opEmptyTuple) }

// Tuple makes a tuple of everything since Mark.
func (w *Writer) Tuple() { w.op(opTuple) }

// Tuple1 makes a tuple of the last value.
func (w *Writer) Tuple1() { w.op(opTuple1) }

// Tuple2 makes a tuple of the last two values.
func (w *Writer) Tuple2() { w.op(opTuple2) }

// SetItems sets the keys and values since Mark in the dict before it.
func (w *Writer) SetItems() { w.op(opSetItems) }

// Appends adds the values since Mark to the list before it.
func (w *Writer) Appends() { w.op(opAppends) }

// Reduce calls the value before the last with the tuple that is the last.
func (w *Writer) Reduce() { w.op(opReduce) }

// Build sets the last value as the state of the one before.
func (w *Writer) Build() { w.op(opBuild) }

// PersID makes a persistent id of the last value.
func (w *Writer) PersID() { w.op(opBinPersID) }
