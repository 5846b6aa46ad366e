package conformance

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/storage"
)

// Assemble makes the file that a blueprint describes. payload gives the
// row-major bytes of each tensor. It is the reference for the engine: slow, in
// memory, and short.
func Assemble(bp *checkpoint.Blueprint, payload func(tensor int) []byte) ([]byte, error) {
	file := make([]byte, 0, bp.Size())
	for _, s := range bp.Segments {
		if s.Len == 0 {
			file = append(file, s.Literal...)
			continue
		}
		p := payload(s.Tensor)
		if s.Off < 0 || s.Off+s.Len > int64(len(p)) {
			return nil, fmt.Errorf("a segment takes bytes %d to %d of tensor %d, which has %d", s.Off, s.Off+s.Len, s.Tensor, len(p))
		}
		file = append(file, p[s.Off:s.Off+s.Len]...)
	}
	// A sum may run over holes: those are filled first.
	todo := slices.Clone(bp.Holes)
	for len(todo) > 0 {
		i := slices.IndexFunc(todo, func(h checkpoint.Hole) bool {
			return !slices.ContainsFunc(todo, func(o checkpoint.Hole) bool {
				return o.At < h.Over.Off+h.Over.Len && o.At+o.Encoding.Width() > h.Over.Off
			})
		})
		if i < 0 {
			return nil, fmt.Errorf("the sums run over each other")
		}
		if err := fill(file, todo[i]); err != nil {
			return nil, err
		}
		todo = slices.Delete(todo, i, i+1)
	}
	return file, nil
}

func fill(file []byte, h checkpoint.Hole) error {
	if h.Algorithm != checkpoint.CRC32 {
		return fmt.Errorf("the sum at byte %d has the unknown algorithm %d", h.At, h.Algorithm)
	}
	if h.At+h.Encoding.Width() > int64(len(file)) || h.Over.Off+h.Over.Len > int64(len(file)) {
		return fmt.Errorf("the sum at byte %d lies outside the file", h.At)
	}
	sum := crc32.ChecksumIEEE(file[h.Over.Off : h.Over.Off+h.Over.Len])
	hole := file[h.At : h.At+h.Encoding.Width()]
	switch h.Encoding {
	case checkpoint.LittleEndian32:
		binary.LittleEndian.PutUint32(hole, sum)
	case checkpoint.BigEndian80:
		clear(hole)
		binary.BigEndian.PutUint32(hole[6:], sum)
	default:
		return fmt.Errorf("the sum at byte %d has the unknown encoding %d", h.At, h.Encoding)
	}
	return nil
}

// ReadTensor gives the row-major, little-endian bytes of an entry of file.
func ReadTensor(ctx context.Context, file storage.Source, e *checkpoint.Entry) ([]byte, error) {
	run, err := readRun(ctx, file, &e.Data)
	if err != nil {
		return nil, err
	}
	want, ok := e.DType.Bytes(e.Shape)
	if !ok {
		return nil, fmt.Errorf("%s of shape %v is not possible", e.DType, e.Shape)
	}
	if e.Data.Negate || e.Data.Conjugate {
		return nil, fmt.Errorf("stored negatives or conjugates are not read here")
	}
	out := run
	if e.Data.Strides != nil || e.Data.Offset != 0 {
		if out, err = gather(run, e, want); err != nil {
			return nil, err
		}
	}
	if int64(len(out)) != want {
		return nil, fmt.Errorf("holds %d bytes, want %d", len(out), want)
	}
	if u := int(e.DType.Unit()); e.Data.BigEndian && u > 1 {
		for unit := range slices.Chunk(out, u) {
			slices.Reverse(unit)
		}
	}
	return out, nil
}

// readRun reads and decodes the extents.
func readRun(ctx context.Context, file storage.Source, d *checkpoint.Data) ([]byte, error) {
	if d.Inline != nil {
		return bytes.Clone(d.Inline), nil
	}
	var run []byte
	for _, x := range d.Extents {
		p := make([]byte, x.Len)
		if err := file.ReadRanges(ctx, []int64{x.Off}, [][]byte{p}); err != nil {
			return nil, err
		}
		run = append(run, p...)
	}
	if d.Codec == checkpoint.Deflate {
		return io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(run)), d.Decoded))
	}
	return run, nil
}

// gather takes the elements of a strided view out of its run.
func gather(run []byte, e *checkpoint.Entry, want int64) ([]byte, error) {
	w := e.DType.Size()
	if w == 0 {
		return nil, fmt.Errorf("elements of %d bits have no strides", e.DType.Bits())
	}
	strides := e.Data.Strides
	if strides == nil {
		strides = box.Strides(e.Shape)
	}
	out := make([]byte, 0, want)
	index := make([]int64, len(e.Shape))
	for int64(len(out)) < want {
		at := e.Data.Offset
		for i, x := range index {
			at += x * strides[i]
		}
		if at < 0 || (at+1)*w > int64(len(run)) {
			return nil, fmt.Errorf("element %d lies outside of the run", at)
		}
		out = append(out, run[at*w:(at+1)*w]...)
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < e.Shape[i] {
				break
			}
			index[i] = 0
		}
	}
	return out, nil
}
