package torch

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/storage"
)

// alignment is that of every record's data. torch 2.7 and later compute
// offsets from it (.storage_alignment), so that headers, padding and
// descriptors must have the very sizes that torch's writer gives them.
const alignment = 64

const (
	streamed = 1 << 3  // sizes and sum stand in a descriptor behind the data
	utf8Name = 1 << 11 // the name is UTF-8
	wide     = math.MaxUint32
)

// archiveWriter lays out a zip archive, record after record.
type archiveWriter struct {
	bp  checkpoint.Blueprint
	lit []byte // literal bytes that are not in a segment yet
	at  int64
	dir []byte
	// sums are the holes in the directory, whose place is known at the end.
	sums  []checkpoint.Hole
	count uint64
}

func (w *archiveWriter) literal(b []byte) {
	w.lit = append(w.lit, b...)
	w.at += int64(len(b))
}

func (w *archiveWriter) flush() {
	if len(w.lit) > 0 {
		w.bp.Segments = append(w.bp.Segments, checkpoint.Segment{Literal: w.lit})
		w.lit = nil
	}
}

// text adds a record whose bytes are known.
func (w *archiveWriter) text(name string, b []byte) {
	header := w.begin(name, int64(len(b)))
	w.literal(b)
	w.end(name, header, int64(len(b)), crc32.ChecksumIEEE(b), nil)
}

// tensor adds a record that holds the payload of a tensor.
func (w *archiveWriter) tensor(name string, tensor int, size int64) {
	header := w.begin(name, size)
	over := &storage.Range{Off: w.at, Len: size}
	if size > 0 {
		w.flush()
		w.bp.Segments = append(w.bp.Segments, checkpoint.Segment{Tensor: tensor, Len: size})
		w.at += size
	}
	w.end(name, header, size, 0, over)
}

// begin writes a local header, padded so that the data is aligned, and returns
// its offset. Sum and sizes are left to descriptor and directory.
func (w *archiveWriter) begin(name string, size int64) int64 {
	header := w.at
	le := binary.LittleEndian
	var extra []byte
	if size >= wide || header >= wide {
		var fields []byte
		if size >= wide {
			fields = le.AppendUint64(le.AppendUint64(fields, uint64(size)), uint64(size))
		}
		if header >= wide {
			fields = le.AppendUint64(fields, uint64(header))
		}
		extra = append(le.AppendUint16(le.AppendUint16(nil, 1), uint16(len(fields))), fields...)
	}
	start := header + localSize + int64(len(name)+len(extra)) + 4
	pad := (alignment - start%alignment) % alignment
	extra = le.AppendUint16(append(extra, 'F', 'B'), uint16(pad))
	for range pad {
		extra = append(extra, 'Z')
	}
	h := make([]byte, localSize, localSize+len(name)+len(extra))
	copy(h, localSig)
	le.PutUint16(h[6:], flagsOf(size))
	le.PutUint16(h[26:], uint16(len(name)))
	le.PutUint16(h[28:], uint16(len(extra)))
	w.literal(append(append(h, name...), extra...))
	return header
}

// flagsOf: an empty record has no descriptor.
func flagsOf(size int64) uint16 {
	if size == 0 {
		return utf8Name
	}
	return utf8Name | streamed
}

// end writes the descriptor of a record and its entry in the directory. over
// is what the sum is to be taken of where it is not known yet.
func (w *archiveWriter) end(name string, header, size int64, crc uint32, over *storage.Range) {
	le := binary.LittleEndian
	if size > 0 {
		if over != nil {
			w.bp.Holes = append(w.bp.Holes, checkpoint.Hole{Encoding: checkpoint.LittleEndian32, At: w.at + 4, Over: *over})
			w.sums = append(w.sums, checkpoint.Hole{Encoding: checkpoint.LittleEndian32, At: int64(len(w.dir)) + 16, Over: *over})
		}
		d := le.AppendUint32([]byte("PK\x07\x08"), crc)
		if size >= wide || header >= wide {
			d = le.AppendUint64(le.AppendUint64(d, uint64(size)), uint64(size))
		} else {
			d = le.AppendUint32(le.AppendUint32(d, uint32(size)), uint32(size))
		}
		w.literal(d)
	}
	var fields []byte
	if size >= wide {
		fields = le.AppendUint64(le.AppendUint64(fields, uint64(size)), uint64(size))
	}
	if header >= wide {
		fields = le.AppendUint64(fields, uint64(header))
	}
	if fields != nil {
		fields = append(le.AppendUint16(le.AppendUint16(nil, 1), uint16(len(fields))), fields...)
	}
	e := make([]byte, centralSize)
	copy(e, centralSig)
	le.PutUint16(e[8:], flagsOf(size))
	le.PutUint32(e[16:], crc)
	le.PutUint32(e[20:], uint32(min(size, wide)))
	le.PutUint32(e[24:], uint32(min(size, wide)))
	le.PutUint16(e[28:], uint16(len(name)))
	le.PutUint16(e[30:], uint16(len(fields)))
	le.PutUint32(e[42:], uint32(min(header, wide)))
	w.dir = append(append(append(w.dir, e...), name...), fields...)
	w.count++
}

// finish writes the directory and its ends and returns the blueprint. The
// zip64 end is always there, as torch writes it.
func (w *archiveWriter) finish() *checkpoint.Blueprint {
	le := binary.LittleEndian
	at := w.at
	for _, h := range w.sums {
		h.At += at
		w.bp.Holes = append(w.bp.Holes, h)
	}
	w.literal(w.dir)
	at64 := w.at
	size := uint64(len(w.dir))
	b := le.AppendUint64([]byte(end64Sig), end64Size-12)
	b = le.AppendUint16(le.AppendUint16(b, 3<<8|30), 45) // made by and needed, as torch has them
	b = le.AppendUint64(b, 0)                            // disks
	b = le.AppendUint64(le.AppendUint64(b, w.count), w.count)
	b = le.AppendUint64(le.AppendUint64(b, size), uint64(at))
	b = append(b, locatorSig...)
	b = le.AppendUint64(le.AppendUint32(b, 0), uint64(at64))
	b = le.AppendUint32(b, 1)
	b = append(b, endSig...)
	count := uint16(min(w.count, math.MaxUint16))
	b = le.AppendUint16(le.AppendUint16(le.AppendUint32(b, 0), count), count)
	b = le.AppendUint32(le.AppendUint32(b, uint32(min(size, wide))), uint32(min(at, wide)))
	b = le.AppendUint16(b, 0)
	w.literal(b)
	w.flush()
	return &w.bp
}
