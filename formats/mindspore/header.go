package mindspore

import (
	"encoding/binary"
	"errors"
	"math"
	"unicode/utf8"

	"github.com/seed-e934e81e/convert/core/checkpoint"
)

// The bounds of what a record may say. They are far above what MindSpore and
// numpy can make and keep hostile files from asking for memory.
const (
	maxName    = 1 << 16
	maxType    = 64
	maxDims    = 64
	maxRecords = 1 << 20
)

// The trailer of files saved with crc_check.
const (
	trailerTag  = "crc_num"
	trailerSize = int64(len(trailerTag)) + 10
)

// record is the header of one record. Fields are set as they are met, so that
// after an error those before it tell what the record was.
type record struct {
	off, end  int64
	tag       string
	dims      []int64
	kind      string // tensor_type
	content   checkpoint.Extent
	unknown   int // fields that MindSpore does not have
	hasTag    bool
	hasTensor bool
	hasMap    bool
	hasKind   bool
	hasData   bool
}

// readRecord reads the record at the cursor and leaves the cursor behind it.
// A record that the file does not hold whole is parsed as far as it goes.
func readRecord(c *cursor) (record, error) {
	r := record{off: c.pos}
	field, wire, err := c.key(c.size)
	if err != nil {
		return r, err
	}
	if field != 1 {
		r.unknown++
		err = c.skip(wire, c.size)
		r.end = c.pos
		return r, err
	}
	if wire != wireBytes {
		return r, bad(r.off, "a record begins with 0a, found %02x", field<<3|uint64(wire))
	}
	n, err := c.uvarint(c.size)
	if err != nil {
		return r, err
	}
	if n > uint64(math.MaxInt64-c.pos) {
		return r, bad(r.off, "a record of %d bytes is not possible", n)
	}
	r.end = c.pos + int64(n)
	err = r.readValue(c)
	if over := r.end - c.size; over > 0 && (err == nil || isFormat(err)) {
		e := bad(r.off, "the file ends inside the record%s, %d bytes are missing", r.of(), over)
		e.Hint = cutOff
		return r, e
	}
	return r, err
}

// of names the record's tensor in messages, where it is known.
func (r *record) of() string {
	if r.tag == "" {
		return ""
	}
	return " of `" + r.tag + "`"
}

func isFormat(err error) bool {
	var fe *checkpoint.FormatError
	return errors.As(err, &fe)
}

// readValue reads a message of type Checkpoint.Value.
func (r *record) readValue(c *cursor) error {
	for c.pos < r.end {
		at := c.pos
		field, wire, err := c.key(r.end)
		if err != nil {
			return err
		}
		switch field {
		case 1:
			if r.hasTag {
				return bad(at, "the record has two names")
			}
			if r.tag, err = c.text(wire, r.end, "the name", maxName); err != nil {
				return err
			}
			if !utf8.ValidString(r.tag) {
				r.tag = ""
				return bad(at, "the name is not UTF-8")
			}
			r.hasTag = true
		case 2, 3:
			if r.hasTensor || r.hasMap {
				return bad(at, "the record has two values")
			}
			end, err := c.message(wire, r.end, "the tensor")
			if err != nil {
				return err
			}
			if field == 3 {
				r.hasMap, c.pos = true, end
				break
			}
			r.hasTensor = true
			if err := r.readTensor(c, end); err != nil {
				return err
			}
		default:
			r.unknown++
			if err := c.skip(wire, r.end); err != nil {
				return err
			}
		}
	}
	return r.complete()
}

// readTensor reads a message of type TensorProto and steps over its content.
func (r *record) readTensor(c *cursor, end int64) error {
	for c.pos < end {
		at := c.pos
		field, wire, err := c.key(end)
		if err != nil {
			return err
		}
		switch field {
		case 1:
			if r.dims, err = c.ints(r.dims, wire, end, "dims", maxDims); err != nil {
				return err
			}
		case 2:
			if r.hasKind {
				return bad(at, "the tensor has two types")
			}
			if r.kind, err = c.text(wire, end, "the type", maxType); err != nil {
				return err
			}
			r.hasKind = true
		case 3:
			if r.hasData {
				return bad(at, "the tensor has two contents")
			}
			stop, err := c.message(wire, end, "the content")
			if err != nil {
				return err
			}
			r.content = checkpoint.Extent{Off: c.pos, Len: stop - c.pos}
			r.hasData, c.pos = true, stop
		default:
			r.unknown++
			if err := c.skip(wire, end); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete checks that nothing is missing of what the format requires.
func (r *record) complete() error {
	switch {
	case !r.hasTag:
		return bad(r.off, "the record has no name")
	case r.tag == "":
		return bad(r.off, "the record's name is empty")
	case r.hasMap:
		e := bad(r.off, "`%s` is a map parameter (a hash table), which is not supported", r.tag)
		e.Other = true
		e.Hint = "export the table to ordinary tensors in MindSpore, or leave it out of the checkpoint"
		return e
	case !r.hasTensor:
		return bad(r.off, "`%s` has no tensor", r.tag)
	case !r.hasKind:
		return bad(r.off, "`%s` has no tensor_type", r.tag)
	case !r.hasData:
		return bad(r.off, "`%s` has no tensor_content", r.tag)
	}
	for _, d := range r.dims {
		if d < 0 {
			return bad(r.off, "`%s` has a negative dim: %v", r.tag, r.dims)
		}
	}
	return nil
}

// appendHeader appends a record up to its content of n bytes, as Google's
// serializer writes it: fields by number, dims unpacked.
func appendHeader(b []byte, tag string, dims []int64, kind string, n int64) []byte {
	tensor := fieldSize(int64(len(kind))) + fieldSize(n)
	for _, d := range dims {
		tensor += 1 + varintSize(uint64(d))
	}
	value := fieldSize(int64(len(tag))) + fieldSize(tensor)

	b = appendLen(b, 1, value)
	b = append(appendLen(b, 1, int64(len(tag))), tag...)
	b = appendLen(b, 2, tensor)
	for _, d := range dims {
		b = appendNumber(b, 1, d)
	}
	b = append(appendLen(b, 2, int64(len(kind))), kind...)
	return appendLen(b, 3, n)
}

// appendLen appends the key and length of a field that holds n bytes.
func appendLen(b []byte, field byte, n int64) []byte {
	return binary.AppendUvarint(append(b, field<<3|wireBytes), uint64(n))
}

// appendNumber appends a field that holds a number.
func appendNumber(b []byte, field byte, v int64) []byte {
	return binary.AppendUvarint(append(b, field<<3|wireVarint), uint64(v))
}

func varintSize(v uint64) int64 {
	n := int64(1)
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// fieldSize is the size of a field that holds n bytes, key and length included.
func fieldSize(n int64) int64 { return 1 + varintSize(uint64(n)) + n }
