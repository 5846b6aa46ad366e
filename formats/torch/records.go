package torch

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sort"
)

// readHeaders reads all local headers at once: they say where data begins,
// and must agree with the directory.
func (r *reader) readHeaders(ctx context.Context, a *archive) error {
	offs := make([]int64, len(a.recs))
	bufs := make([][]byte, len(a.recs))
	for i, rec := range a.recs {
		offs[i] = rec.header
		bufs[i] = make([]byte, min(localSize+int64(len(rec.name)), a.at-rec.header))
	}
	if err := r.in.File.ReadRanges(ctx, offs, bufs); err != nil {
		return fmt.Errorf("read the headers of %d records: %w", len(offs), err)
	}
	for i := range a.recs {
		if i%64 == 0 {
			r.in.Yield()
		}
		rec, b := &a.recs[i], bufs[i]
		le := binary.LittleEndian
		if string(b[:4]) != localSig {
			return bad(rec.header, "the header of record `%s` is wanted here", rec.name)
		}
		if flags := le.Uint16(b[6:]); flags&forbiddenFlags != 0 {
			return bad(rec.header, "record `%s` is encrypted or patched (flags 0x%04x)", rec.name, flags)
		}
		if m := le.Uint16(b[8:]); m != rec.method {
			return bad(rec.header, "record `%s` is packed by method %d here and %d in the directory", rec.name, m, rec.method)
		}
		if n := int(le.Uint16(b[26:])); n != len(rec.name) || string(b[localSize:]) != rec.name {
			return bad(rec.header, "record `%s` has another name in its header", rec.name)
		}
		rec.data = rec.header + localSize + int64(len(rec.name)) + int64(le.Uint16(b[28:]))
		if rec.data > a.at || rec.csize > a.at-rec.data {
			return bad(rec.header, "record `%s` of %d bytes at %d does not lie before the directory", rec.name, rec.csize, rec.data)
		}
	}
	return nil
}

// checkOverlap refuses archives in which records share bytes.
func (a *archive) checkOverlap() error {
	order := make([]*record, len(a.recs))
	for i := range a.recs {
		order[i] = &a.recs[i]
	}
	sort.Slice(order, func(i, j int) bool { return order[i].header < order[j].header })
	for i := 1; i < len(order); i++ {
		if p, q := order[i-1], order[i]; p.data+p.csize > q.header {
			return bad(q.header, "record `%s` begins inside of record `%s`", q.name, p.name)
		}
	}
	return nil
}

// contents reads small records whole, in one vectored read.
func (r *reader) contents(ctx context.Context, limit int64, recs ...*record) ([][]byte, error) {
	out := make([][]byte, len(recs))
	offs := make([]int64, len(recs))
	for i, rec := range recs {
		if rec.usize > limit {
			return nil, bad(rec.header, "record `%s` of %d bytes is over the limit of %d", rec.name, rec.usize, limit)
		}
		offs[i], out[i] = rec.data, make([]byte, rec.csize)
	}
	if err := r.in.File.ReadRanges(ctx, offs, out); err != nil {
		return nil, fmt.Errorf("read the pickle and %d notes: %w", len(recs)-1, err)
	}
	for i, rec := range recs {
		if rec.method == stored {
			continue
		}
		text, err := inflate(out[i], rec.usize)
		if err != nil {
			return nil, bad(rec.data, "record `%s`: %v", rec.name, err)
		}
		out[i] = text
	}
	return out, nil
}

func inflate(raw []byte, size int64) ([]byte, error) {
	out := make([]byte, size)
	f := flate.NewReader(bytes.NewReader(raw))
	if n, err := io.ReadFull(f, out); err != nil {
		return nil, fmt.Errorf("inflates to %d bytes of %d: %v", n, size, err)
	}
	if n, _ := f.Read(make([]byte, 1)); n > 0 {
		return nil, fmt.Errorf("inflates to more than %d bytes", size)
	}
	return out, nil
}
