package mindspore

import (
	"errors"
	"fmt"
	"io"

	"github.com/seed-e934e81e/convert/core/checkpoint"
)

// The wire types of protobuf. Groups (3 and 4) occur in no file of MindSpore
// and are refused.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// bad says that the bytes at off are not what the format demands.
func bad(off int64, format string, args ...any) *checkpoint.FormatError {
	return &checkpoint.FormatError{Format: name, Off: off, Msg: fmt.Sprintf(format, args...)}
}

// cutOff is the hint for files that end too early.
const cutOff = "the file is cut off: copy it again"

// cursor reads protobuf fields of a file through a small window, so that
// stepping over contents costs no reads of them.
type cursor struct {
	src  io.ReaderAt
	size int64 // of the file
	pos  int64

	base   int64 // where the window begins
	filled int
	window [512]byte
}

func newCursor(src io.ReaderAt, size int64) *cursor {
	return &cursor{src: src, size: size}
}

// fill moves the window so that it begins at pos, which lies in the file.
func (c *cursor) fill() error {
	want := int(min(int64(len(c.window)), c.size-c.pos))
	n, err := c.src.ReadAt(c.window[:want], c.pos)
	c.base, c.filled = c.pos, n
	if n > 0 {
		return nil
	}
	return readError(err)
}

func readError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read header: %w", err)
}

// octet reads one byte of a message that ends at end.
func (c *cursor) octet(end int64) (byte, error) {
	if c.pos >= end || c.pos >= c.size {
		return 0, c.short(end)
	}
	if i := c.pos - c.base; i < 0 || i >= int64(c.filled) {
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	b := c.window[c.pos-c.base]
	c.pos++
	return b, nil
}

// short says that the file or the message around a field ends inside of it.
func (c *cursor) short(end int64) error {
	if c.pos >= c.size {
		e := bad(c.pos, "the file ends inside a field, at least 1 byte is missing")
		e.Hint = cutOff
		return e
	}
	return bad(c.pos, "a field runs past the end of its message at byte %d", end)
}

// uvarint reads a number of at most 64 bits.
func (c *cursor) uvarint(end int64) (uint64, error) {
	at := c.pos
	var v uint64
	for shift := 0; shift < 70; shift += 7 {
		b, err := c.octet(end)
		if err != nil {
			return 0, err
		}
		if shift == 63 && b > 1 {
			break
		}
		v |= uint64(b&0x7F) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, bad(at, "a number has more than 64 bits")
}

// key reads the number and wire type of a field.
func (c *cursor) key(end int64) (field uint64, wire int, err error) {
	at := c.pos
	k, err := c.uvarint(end)
	if err != nil {
		return 0, 0, err
	}
	field, wire = k>>3, int(k&7)
	if field == 0 || k > 1<<32-1 {
		return 0, 0, bad(at, "field number %d is not possible", field)
	}
	return field, wire, nil
}

// length reads the length of a field of a message that ends at end; the field
// fits in.
func (c *cursor) length(end int64, what string) (int64, error) {
	at := c.pos
	n, err := c.uvarint(end)
	if err != nil {
		return 0, err
	}
	if room := uint64(max(end-c.pos, 0)); n > room {
		return 0, bad(at, "%s of %d bytes runs %d bytes past the end of its message", what, n, n-room)
	}
	return int64(n), nil
}

// text reads a string of at most limit bytes.
func (c *cursor) text(wire int, end int64, what string, limit int64) (string, error) {
	at := c.pos
	n, err := c.message(wire, end, what)
	if err != nil {
		return "", err
	}
	if n -= c.pos; n > limit {
		return "", bad(at, "%s has %d bytes, at most %d are possible", what, n, limit)
	}
	b := make([]byte, 0, n)
	for int64(len(b)) < n {
		if i := c.pos - c.base; i < 0 || i >= int64(c.filled) {
			if c.pos >= c.size {
				return "", c.short(end)
			}
			if err := c.fill(); err != nil {
				return "", err
			}
		}
		run := c.window[c.pos-c.base : c.filled]
		run = run[:min(int64(len(run)), n-int64(len(b)))]
		b = append(b, run...)
		c.pos += int64(len(run))
	}
	return string(b), nil
}

// message reads the length of a field that holds bytes and returns where it
// ends.
func (c *cursor) message(wire int, end int64, what string) (int64, error) {
	if wire != wireBytes {
		return 0, bad(c.pos, "%s has wire type %d, want %d", what, wire, wireBytes)
	}
	n, err := c.length(end, what)
	return c.pos + n, err
}

// ints appends the numbers of a repeated field, packed or not.
func (c *cursor) ints(dst []int64, wire int, end int64, what string, limit int) ([]int64, error) {
	stop := c.pos + 1
	switch wire {
	case wireVarint:
	case wireBytes:
		n, err := c.length(end, what)
		if err != nil {
			return nil, err
		}
		end, stop = c.pos+n, c.pos+n
	default:
		return nil, bad(c.pos, "%s has wire type %d, want %d or %d", what, wire, wireVarint, wireBytes)
	}
	for c.pos < stop {
		if len(dst) == limit {
			return nil, bad(c.pos, "%s has more than %d numbers", what, limit)
		}
		v, err := c.uvarint(end)
		if err != nil {
			return nil, err
		}
		dst = append(dst, int64(v))
	}
	return dst, nil
}

// number reads a field that holds one number.
func (c *cursor) number(wire int, end int64, what string) (int64, error) {
	if wire != wireVarint {
		return 0, bad(c.pos, "%s has wire type %d, want %d", what, wire, wireVarint)
	}
	v, err := c.uvarint(end)
	return int64(v), err
}

// skip steps over the value of a field.
func (c *cursor) skip(wire int, end int64) error {
	var n int64
	switch wire {
	case wireVarint:
		_, err := c.uvarint(end)
		return err
	case wireBytes:
		stop, err := c.message(wire, end, "a field")
		c.pos = stop
		return err
	case wireFixed64:
		n = 8
	case wireFixed32:
		n = 4
	default:
		return bad(c.pos, "wire type %d is not possible", wire)
	}
	if n > end-c.pos {
		return c.short(end)
	}
	c.pos += n
	return nil
}
