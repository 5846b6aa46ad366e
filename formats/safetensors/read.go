package safetensors

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
)

// noteShape keeps the shape of an empty tensor whose dims int64 cannot count,
// as the header has it.
const noteShape = "safetensors.shape"

// Index implements checkpoint.Format. Entries come in the order of their data.
func (Format) Index(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	text, err := readHeader(ctx, in)
	if err != nil {
		return nil, err
	}
	yield := func() error { in.Yield(); return ctx.Err() }
	h, err := parse(text, in.Strict, yield)
	if err != nil {
		return nil, err
	}
	if len(text)%8 != 0 {
		if err := h.oddities.note(oddLength, 0, "", "", in.Strict); err != nil {
			return nil, err
		}
	}
	x := &checkpoint.Index{Format: formatName}
	if x.Entries, err = h.entries(int64(len(text)), in.File.Size(), in.Strict, yield); err != nil {
		return nil, err
	}
	x.Metadata = markInt4(x.Entries, h.metadata)
	if err := h.restoreLeaves(x, in.Strict, yield); err != nil {
		return nil, err
	}
	x.Warnings = h.oddities.warnings()
	return x, nil
}

// readHeader reads the text of the header, having compared its length with the
// limit and the file.
func readHeader(ctx context.Context, in checkpoint.Input) ([]byte, error) {
	size := in.File.Size()
	head := make([]byte, min(size, checkpoint.LFSPointerMax))
	if err := in.File.ReadRanges(ctx, []int64{0}, [][]byte{head}); err != nil {
		return nil, fmt.Errorf("read the length of the header: %w", err)
	}
	if p, ok := checkpoint.ParseLFSPointer(head, size); ok {
		e := bad(0, "", "this is a Git LFS pointer of %d bytes, the file itself has %d", size, p.Size)
		e.Hint = "fetch the file with `git lfs pull`"
		return nil, e
	}
	if size < lenSize {
		return nil, bad(0, "", "a file of %d bytes is too short, the length of the header alone takes %d", size, lenSize)
	}
	n := binary.LittleEndian.Uint64(head)
	switch {
	case n > maxHeader:
		return nil, bad(0, "", "a header of %d bytes is over the limit of %d", n, maxHeader)
	case int64(n) > size-lenSize:
		e := bad(0, "", "a header of %d bytes does not fit a file of %d", n, size)
		e.Hint = incomplete
		return nil, e
	}
	text := make([]byte, n)
	if err := in.File.ReadRanges(ctx, []int64{lenSize}, [][]byte{text}); err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	return text, nil
}

const incomplete = "the file may be incomplete, copy or download it again"

// entries checks the records, which are sorted, against each other and against
// the size of the file: the tensors fill the data without a gap.
func (h *header) entries(n, size int64, strict bool, yield func() error) ([]checkpoint.Entry, error) {
	base := lenSize + n
	list := make([]checkpoint.Entry, len(h.records))
	extents := make([]checkpoint.Extent, len(h.records))
	dims := make([]int64, len(h.dims))
	at := uint64(0)
	for i := range h.records {
		if i%64 == 63 {
			if err := yield(); err != nil {
				return nil, err
			}
		}
		r := &h.records[i]
		if err := r.check(h.shape(r), at); err != nil {
			return nil, err
		}
		at = r.end
		e := &list[i]
		e.Name, e.DType, e.Seq = r.name, r.dtype, i
		e.Shape = dims[r.dims[0]:r.dims[1]:r.dims[1]]
		if !fit(e.Shape, h.shape(r)) {
			e.Note = map[string]string{noteShape: formatShape(h.shape(r))}
			if err := h.oddities.note(hugeDim, lenSize+int64(r.at), r.name, r.name, strict); err != nil {
				return nil, err
			}
		}
		if r.begin == r.end || r.end > uint64(size-base) {
			continue // an empty tensor, or one that the check below the loop refuses
		}
		extents[i] = checkpoint.Extent{Off: base + int64(r.begin), Len: int64(r.end - r.begin)}
		e.Data.Extents = extents[i : i+1 : i+1]
		if w := r.dtype.Size(); w > 1 && r.begin%uint64(w) != 0 {
			if err := h.oddities.note(misaligned, lenSize+int64(r.at), r.name, r.name, strict); err != nil {
				return nil, err
			}
		}
	}
	if rest := uint64(size - base); at != rest {
		e := bad(size, "", "the tensors have %d bytes, %d follow the header", at, rest)
		if at > rest {
			e.Hint = incomplete
		}
		return nil, e
	}
	return list, nil
}

// check demands that a tensor begins at byte at of the data and has as many
// bytes as its type and shape say. Arithmetic is that of the reference: 64 bits
// without a sign, the dims multiplied from left to right.
func (r *record) check(shape []uint64, at uint64) error {
	off := lenSize + int64(r.at)
	switch {
	case r.end < r.begin:
		return bad(off, r.name, "tensor %s ends at %d, before its begin at %d", quote(r.name), r.end, r.begin)
	case r.begin > at:
		return bad(off, r.name, "tensor %s begins at %d, want %d: the bytes between are of no tensor", quote(r.name), r.begin, at)
	case r.begin < at:
		return bad(off, r.name, "tensor %s begins at %d, want %d: it overlaps the tensor before it", quote(r.name), r.begin, at)
	}
	n := uint64(1)
	overflow := uint64(0)
	for _, d := range shape {
		hi, lo := bits.Mul64(n, d)
		overflow |= hi
		if n = lo; overflow != 0 {
			break
		}
	}
	hi, nbits := bits.Mul64(n, uint64(r.dtype.Bits()))
	switch {
	case overflow|hi != 0:
		return bad(off, r.name, "tensor %s: %s of shape [%s] has more bits than 64 bits can count", quote(r.name), r.dtype.Safetensors(), showShape(shape))
	case nbits%8 != 0:
		return bad(off, r.name, "tensor %s: %s of shape [%s] does not fill whole bytes", quote(r.name), r.dtype.Safetensors(), showShape(shape))
	case nbits/8 != r.end-r.begin:
		return bad(off, r.name, "tensor %s spans %d bytes, %s of shape [%s] has %d",
			quote(r.name), r.end-r.begin, r.dtype.Safetensors(), showShape(shape), nbits/8)
	}
	return nil
}

// fit puts a shape whose elements 64 bits can count into dst. The dims of an
// empty tensor may be larger than int64, or their product before the zero is:
// then it puts the largest that int64 can count, and returns false.
func fit(dst []int64, shape []uint64) bool {
	whole := true
	empty := false
	room := uint64(math.MaxInt64) // what the product may still grow by
	for i, d := range shape {
		if d > room {
			whole = false
			d = room
		}
		dst[i] = int64(d)
		switch {
		case d == 0:
			empty, room = true, math.MaxInt64
		case !empty:
			room /= d
		}
	}
	return whole
}

// showShape writes a shape for people.
func showShape(shape []uint64) string {
	if len(shape) > 16 {
		return formatShape(shape[:16]) + ",…"
	}
	return formatShape(shape)
}

// formatShape writes dims with commas.
func formatShape(shape []uint64) string {
	var b []byte
	for i, d := range shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, d, 10)
	}
	return string(b)
}

// parseShape undoes formatShape; false where s is none.
func parseShape(s string) ([]uint64, bool) {
	var shape []uint64
	for f := range strings.SplitSeq(s, ",") {
		d, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return nil, false
		}
		shape = append(shape, d)
	}
	return shape, true
}

// int4 is the value with which MindSpore marks, under the parameter's name, an
// I8 tensor as Int4. Its loader goes by this alone, whatever `format` says.
const int4 = "Int4"

// markInt4 gives marked tensors their type and returns the metadata without
// the marks, which the writer makes anew.
func markInt4(entries []checkpoint.Entry, metadata []checkpoint.KV) []checkpoint.KV {
	marked := map[string]bool{}
	for _, m := range metadata {
		if m.Value == int4 {
			marked[m.Key] = false
		}
	}
	if len(marked) == 0 {
		return metadata
	}
	for i := range entries {
		if _, ok := marked[entries[i].Name]; ok && entries[i].DType == dtype.I8 {
			entries[i].DType = dtype.I4x2
			marked[entries[i].Name] = true
		}
	}
	rest := metadata[:0]
	for _, m := range metadata {
		if m.Value != int4 || !marked[m.Key] {
			rest = append(rest, m)
		}
	}
	return rest
}
