package mindspore

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
)

// noteDims is the key under which an entry remembers that its scalar was
// stored with dims [0], as files of 2020 have it.
const noteDims = "dims"

// maxText bounds the bytes of a string; MindSpore keeps names and settings in
// them.
const maxText = 16 << 20

// Index implements checkpoint.Format.
func (Format) Index(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
	x := &indexer{in: in, c: newCursor(in.File, in.File.Size()), places: map[string]int{}}
	if err := x.refuseOthers(); err != nil {
		return nil, err
	}
	for n := 0; x.c.pos < x.c.size; n++ {
		if n%64 == 0 {
			in.Yield()
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		done, err := x.trailer()
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
		if n == maxRecords {
			return nil, bad(x.c.pos, "the file has more than %d records", maxRecords)
		}
		r, err := readRecord(x.c)
		if err == nil {
			err = x.add(&r)
		}
		if err != nil {
			return nil, ofTensor(err, r.tag)
		}
	}
	if err := x.flush(); err != nil {
		return nil, err
	}
	return x.index()
}

// ofTensor names the tensor in a format's error.
func ofTensor(err error, tag string) error {
	var fe *checkpoint.FormatError
	if errors.As(err, &fe) && fe.Tensor == "" {
		fe.Tensor = tag
	}
	return err
}

// indexer gathers what the records of one file say.
type indexer struct {
	in      checkpoint.Input
	c       *cursor
	run     run
	places  map[string]int // tag → index into values
	values  []value
	checks  []checkpoint.Check
	unknown int      // fields that MindSpore does not know
	odd     int64    // the record with the first of them
	wide    []string // tensors of BFloat16 kept in 4 bytes
	again   int      // parameters stored more than once
	notes   diag.List
}

// maxNotes bounds the warnings of one kind that are given one by one.
const maxNotes = 20

// value is an entry or a leaf.
type value struct {
	entry *checkpoint.Entry
	leaf  *checkpoint.Leaf
}

// run is consecutive records of one tag: a parameter and its slices.
type run struct {
	first   record
	extents []checkpoint.Extent
	bytes   int64
}

// refuseOthers recognises what is handed in as a checkpoint but is none.
func (x *indexer) refuseOthers() error {
	head := make([]byte, min(x.c.size, checkpoint.SampleSize))
	if n, err := x.in.File.ReadAt(head, 0); n < len(head) {
		return readError(err)
	}
	var e *checkpoint.FormatError
	switch c := cipher(head); {
	case len(head) == 0:
		return bad(0, "the file is empty")
	case c != "":
		e = bad(0, "the checkpoint is encrypted with %s", c)
		e.Hint, e.Other = "decrypt it first; encrypted checkpoints are not supported", true
	case ProbeStrategy(checkpoint.Sample{Head: head, Size: x.c.size}):
		e = bad(0, "this is a strategy file, not a checkpoint")
		e.Hint, e.Other = "give it as the `strategy` of the source or target", true
	default:
		return nil
	}
	return e
}

// trailer reads the checksum where one stands at the cursor.
func (x *indexer) trailer() (bool, error) {
	rest := x.c.size - x.c.pos
	if rest > trailerSize {
		return false, nil
	}
	at := x.c.pos
	b := make([]byte, rest)
	if n, err := x.in.File.ReadAt(b, at); int64(n) < rest {
		return false, readError(err)
	}
	tag := string(b[:min(rest, int64(len(trailerTag)))])
	if !strings.HasPrefix(trailerTag, tag) {
		return false, nil
	}
	if rest < trailerSize {
		e := bad(at, "the file ends inside its crc_num trailer, %d of %d bytes are missing", trailerSize-rest, trailerSize)
		e.Hint = cutOff
		return false, e
	}
	want := binary.BigEndian.Uint64(b[rest-8:])
	if binary.BigEndian.Uint16(b[rest-10:]) != 0 {
		want = math.MaxUint64 // over 64 bits; like all over 32 it is no CRC-32
	}
	x.checks = append(x.checks, checkpoint.Check{
		Algorithm: checkpoint.CRC32,
		Range:     checkpoint.Extent{Len: at},
		Want:      want,
		Name:      trailerTag,
	})
	return true, nil
}

// add takes a record: a slice of the parameter before it, or a new one.
func (x *indexer) add(r *record) error {
	if x.unknown == 0 {
		x.odd = r.off
	}
	x.unknown += r.unknown
	if !r.hasTag {
		return nil
	}
	if x.run.first.tag != r.tag {
		if err := x.flush(); err != nil {
			return err
		}
		x.run = run{first: *r}
	}
	f := &x.run.first
	switch {
	case f.kind != r.kind:
		return bad(r.off, "slices of `%s` differ in type: %s and %s", r.tag, f.kind, r.kind)
	case !slices.Equal(f.dims, r.dims):
		return bad(r.off, "slices of `%s` differ in dims: %v and %v", r.tag, f.dims, r.dims)
	}
	if r.content.Len > 0 {
		x.run.extents = append(x.run.extents, r.content)
		x.run.bytes += r.content.Len
	}
	return nil
}

// flush turns the run into an entry or leaf.
func (x *indexer) flush() error {
	r := &x.run
	tag := r.first.tag
	if tag == "" {
		return nil
	}
	at, again := x.places[tag]
	if !again {
		at = len(x.values)
		x.places[tag] = at
		x.values = append(x.values, value{})
	} else if err := x.twice(r.first.off, tag); err != nil {
		return err
	}
	var err error
	if r.first.kind == kindText {
		x.values[at].entry = nil
		x.values[at].leaf, err = x.text()
	} else {
		x.values[at].leaf = nil
		x.values[at].entry, err = x.entry()
	}
	*r = run{}
	return ofTensor(err, tag)
}

// twice notes a parameter that stands in two places of the file.
func (x *indexer) twice(off int64, tag string) error {
	const msg = "`%s` is stored twice; the later one is taken, as MindSpore does"
	if x.in.Strict {
		return ofTensor(bad(off, msg, tag), tag)
	}
	if x.again++; x.again <= maxNotes {
		x.warn(msg, tag).OfTensor(tag).AtByte(off)
	}
	return nil
}

func (x *indexer) warn(format string, args ...any) *diag.Diagnostic {
	d := diag.Warnf(format, args...).InFile(x.in.Name)
	x.notes = append(x.notes, d)
	return d
}

// entry makes the run's tensor.
func (x *indexer) entry() (*checkpoint.Entry, error) {
	r, f := &x.run, &x.run.first
	t, ok := dtype.FromMindSpore(f.kind)
	if !ok {
		return nil, bad(f.off, "`%s` has the unknown type `%s`", f.tag, f.kind)
	}
	e := &checkpoint.Entry{Name: f.tag, DType: t, Shape: append([]int64{}, f.dims...), Data: checkpoint.Data{Extents: r.extents}}
	old := t == dtype.BF16 // perhaps by an old writer, which stored it as float32
	if len(f.dims) == 1 && f.dims[0] == 0 && (r.bytes == t.Size() || old && r.bytes == 2*t.Size()) {
		e.Shape = []int64{}
		e.Note = map[string]string{noteDims: "0"}
	}
	want, ok := t.Bytes(e.Shape)
	switch {
	case !ok:
		return nil, bad(f.off, "`%s` of type %s cannot have dims %v", f.tag, f.kind, f.dims)
	case r.bytes == want:
		return e, nil
	case old && want <= math.MaxInt64/2 && r.bytes == 2*want:
		e.Data.Offset = 1
		e.Data.Strides = make([]int64, len(e.Shape))
		for i, s := range box.Strides(e.Shape) {
			e.Data.Strides[i] = 2 * s
		}
		x.wide = append(x.wide, f.tag)
		return e, nil
	}
	return nil, bad(f.off, "`%s` holds %d bytes, %s of dims %v has %d", f.tag, r.bytes, f.kind, f.dims, want)
}

// text makes the run's string, kept as UTF-32 without end marks. What numpy
// drops when it reads one, zeros at its end, is dropped here too: the empty
// string is stored as one zero.
func (x *indexer) text() (*checkpoint.Leaf, error) {
	r, f := &x.run, &x.run.first
	if r.bytes > maxText || r.bytes%4 != 0 {
		return nil, bad(f.off, "the string `%s` has %d bytes, want a multiple of 4 of at most %d", f.tag, r.bytes, maxText)
	}
	b := make([]byte, 0, r.bytes)
	for _, e := range r.extents {
		part := b[len(b) : len(b)+int(e.Len)]
		if n, err := x.in.File.ReadAt(part, e.Off); n < len(part) {
			return nil, readError(err)
		}
		b = b[:len(b)+len(part)]
	}
	for len(b) > 0 && binary.LittleEndian.Uint32(b[len(b)-4:]) == 0 {
		b = b[:len(b)-4]
	}
	text := make([]byte, 0, len(b)/4)
	for ; len(b) > 0; b = b[4:] {
		p := binary.LittleEndian.Uint32(b)
		if p > utf8.MaxRune || !utf8.ValidRune(rune(p)) {
			return nil, bad(f.off, "the string `%s` holds %#x, which is no character", f.tag, p)
		}
		text = utf8.AppendRune(text, rune(p))
	}
	return &checkpoint.Leaf{
		Path:  checkpoint.Keys(f.tag),
		Type:  kindText,
		Value: checkpoint.Value{Kind: checkpoint.Text, Text: string(text)},
	}, nil
}

// index is the answer, once all records are read.
func (x *indexer) index() (*checkpoint.Index, error) {
	if len(x.values) == 0 {
		return nil, bad(0, "the file holds no parameter")
	}
	if x.unknown > 0 && x.in.Strict {
		return nil, bad(x.odd, "the file has %d fields that MindSpore does not know", x.unknown)
	}
	if x.unknown > 0 {
		x.warn("%d fields that MindSpore does not know are passed over", x.unknown).AtByte(x.odd)
	}
	if x.again > maxNotes {
		x.warn("%d more tensors are stored twice", x.again-maxNotes)
	}
	if n := len(x.wide); n > 0 {
		x.warn("%d tensors are BFloat16 kept in 4 bytes an element, such as `%s`; the upper 2 are taken, as MindSpore does", n, x.wide[0]).OfTensor(x.wide[0])
	}
	out := &checkpoint.Index{Format: name, Checks: x.checks, Warnings: x.notes}
	for seq, v := range x.values {
		if v.leaf != nil {
			v.leaf.Seq = seq
			out.Leaves = append(out.Leaves, *v.leaf)
			continue
		}
		v.entry.Seq = seq
		out.Entries = append(out.Entries, *v.entry)
	}
	return out, nil
}
