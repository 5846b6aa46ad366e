package engine

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/tensor"
)

// odd is a format that does whatever the waist allows. A file is
//
//	"odd:" | n:u32le | the entries as JSON, padded to n bytes | data
//
// As a source it holds tensors in several extents, in the header, strided,
// packed, in the other byte order, negated and conjugated. As a target it cuts
// payloads anywhere, with literals between, and sums itself in two places.
type odd struct{}

const oddHead = "odd:"

func (odd) Describe() checkpoint.Description {
	return checkpoint.Description{Name: "odd", Extensions: []string{".odd"}, Read: true, Write: true}
}

func (odd) Probe(s checkpoint.Sample) checkpoint.Match {
	if bytes.HasPrefix(s.Head, []byte(oddHead)) {
		return checkpoint.Yes
	}
	return checkpoint.No
}

func (odd) Index(_ context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
	b := make([]byte, in.File.Size())
	if _, err := in.File.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	x := &checkpoint.Index{Format: "odd"}
	n := binary.LittleEndian.Uint32(b[4:])
	return x, json.Unmarshal(bytes.TrimRight(b[8:8+n], " "), &x.Entries)
}

// Blueprint lays tensors out in runs of random sizes, with literals between
// their runs, and holds sums of itself: one of the whole file at its end, or
// one of each run after it.
func (odd) Blueprint(_ context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error) {
	r := rand.New(rand.NewPCG(uint64(len(out.Tensors)), 7))
	head := 256
	entries := make([]checkpoint.Entry, len(out.Tensors))
	var body []checkpoint.Segment
	var holes []checkpoint.Hole
	for i, t := range out.Tensors {
		head += 512 + 2*len(t.Name)
		entries[i] = checkpoint.Entry{Name: t.Name, DType: t.DType, Shape: t.Shape, Seq: i}
		n, _ := t.DType.Bytes(t.Shape)
		for off := int64(0); off < n; {
			k := min(1+r.Int64N(n), n-off)
			head += 64
			body = append(body, checkpoint.Segment{Tensor: i, Off: off, Len: k})
			if r.IntN(3) > 0 {
				body = append(body, checkpoint.Segment{Literal: bytes.Repeat([]byte{'-'}, 1+r.IntN(9000))})
			}
			off += k
		}
	}
	at := int64(8 + head)
	for i, s := range body {
		if s.Len > 0 {
			e := &entries[s.Tensor]
			e.Data.Extents = append(e.Data.Extents, checkpoint.Extent{Off: at, Len: s.Len})
			if i+1 < len(body) && len(body[i+1].Literal) > 4 && r.IntN(2) == 0 {
				holes = append(holes, checkpoint.Hole{At: at + s.Len + 1, Over: storage.Range{Off: at, Len: s.Len}})
			}
		}
		at += s.Size()
	}
	if len(entries)%2 == 1 { // what is summed does not overlap
		body = append(body, checkpoint.Segment{Literal: []byte("sum:....")})
		holes = []checkpoint.Hole{{At: at + 4, Over: storage.Range{Len: at}}}
	}
	text, err := oddHeader(entries, head)
	return &checkpoint.Blueprint{Segments: append([]checkpoint.Segment{{Literal: text}}, body...), Holes: holes}, err
}

func oddHeader(entries []checkpoint.Entry, size int) ([]byte, error) {
	text, err := json.Marshal(entries)
	if err != nil || len(text) > size {
		return nil, fmt.Errorf("a header of %d bytes, want at most %d: %w", len(text), size, err)
	}
	b := binary.LittleEndian.AppendUint32([]byte(oddHead), uint32(size))
	return append(append(b, text...), bytes.Repeat([]byte{' '}, size-len(text))...), nil
}

// oddFile makes a source file that holds each tensor in some odd way.
func oddFile(r *rand.Rand, out checkpoint.Output, data [][]byte) ([]byte, error) {
	entries := make([]checkpoint.Entry, len(out.Tensors))
	head := 256
	body := []byte{}
	for i, t := range out.Tensors {
		e := &entries[i]
		*e = checkpoint.Entry{Name: t.Name, DType: t.DType, Shape: t.Shape, Seq: i}
		p := oddValues(r, e, data[i])
		p = oddStrides(r, e, p)
		head += 1024 + 2*len(t.Name) + 8*len(p)
		switch {
		case r.IntN(4) == 0 && len(p) > 0:
			e.Data.Inline = p
			continue
		case r.IntN(4) == 0:
			e.Data.Codec, e.Data.Decoded = checkpoint.Deflate, int64(len(p))
			p = deflated(p)
		}
		e.Data.Extents, body = oddExtents(r, e.Data.Codec == checkpoint.Plain, body, p)
	}
	for i := range entries {
		for j := range entries[i].Data.Extents {
			entries[i].Data.Extents[j].Off += int64(8 + head)
		}
	}
	text, err := oddHeader(entries, head)
	return append(text, body...), err
}

func deflated(p []byte) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestSpeed)
	w.Write(p)
	w.Close()
	return b.Bytes()
}

// oddValues stores other bytes that stand for the same values.
func oddValues(r *rand.Rand, e *checkpoint.Entry, p []byte) []byte {
	p = slices.Clone(p)
	if e.DType.Size() == 0 {
		return p
	}
	if r.IntN(4) == 0 && tensor.Negate(nil, e.DType) == nil {
		e.Data.Negate = true
		tensor.Negate(p, e.DType)
	}
	if r.IntN(4) == 0 {
		e.Data.Conjugate = true
		tensor.Conjugate(p, e.DType)
	}
	if r.IntN(4) == 0 {
		e.Data.BigEndian = true
		tensor.Swap(p, e.DType.Unit())
	}
	return p
}

// oddStrides permutes the dims of the run, with gaps, after a few elements
// that are of no use.
func oddStrides(r *rand.Rand, e *checkpoint.Entry, p []byte) []byte {
	size := e.DType.Size()
	if size == 0 || len(p) == 0 || r.IntN(2) == 0 {
		return p
	}
	n := len(e.Shape)
	e.Data.Offset = int64(r.IntN(5))
	e.Data.Strides = make([]int64, n)
	stride := int64(1)
	for _, i := range r.Perm(n) {
		stride *= 1 + int64(r.IntN(8)/7)
		e.Data.Strides[i] = stride
		stride *= e.Shape[i]
	}
	last := e.Data.Offset
	for i, s := range e.Data.Strides {
		last += (e.Shape[i] - 1) * s
	}
	run := bytes.Repeat([]byte{0xEE}, int((last+1)*size)+r.IntN(9))
	index := make([]int64, n)
	for k := range box.Whole(e.Shape).Elements() {
		at := e.Data.Offset
		for i, x := range index {
			at += x * e.Data.Strides[i]
		}
		copy(run[at*size:], p[k*size:(k+1)*size])
		for i := n - 1; i >= 0; i-- {
			if index[i]++; index[i] < e.Shape[i] {
				break
			}
			index[i] = 0
		}
	}
	return run
}

// oddExtents appends the run in one or several places.
func oddExtents(r *rand.Rand, split bool, body, p []byte) ([]checkpoint.Extent, []byte) {
	var out []checkpoint.Extent
	for len(p) > 0 {
		k := len(p)
		if split && r.IntN(2) == 0 {
			k = 1 + r.IntN(len(p))
		}
		body = append(body, bytes.Repeat([]byte{'.'}, r.IntN(30))...)
		out = append(out, checkpoint.Extent{Off: int64(len(body)), Len: int64(k)})
		body, p = append(body, p[:k]...), p[k:]
	}
	return out, body
}

// checkOdd holds the sums in an odd target file against its bytes.
func checkOdd(b []byte, bp *checkpoint.Blueprint) error {
	for _, h := range bp.Holes {
		want := crc32.ChecksumIEEE(b[h.Over.Off : h.Over.Off+h.Over.Len])
		if got := binary.LittleEndian.Uint32(b[h.At:]); got != want {
			return fmt.Errorf("the sum at byte %d is %08x, want %08x", h.At, got, want)
		}
	}
	return nil
}

var _ checkpoint.Format = odd{}
