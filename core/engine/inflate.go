package engine

import (
	"bufio"
	"compress/flate"
	"context"
	"errors"
	"io"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
)

// inflater decodes packed tensors. Deflate can only be read from its
// beginning, so a worker keeps the stream that it read last and begins again
// only where a band lies before it.
type inflater struct {
	rank int
	data *checkpoint.Data // of a header that other ranks may share
	at   int64
	r    io.ReadCloser
}

func (f *inflater) close() {
	if f.r != nil {
		f.r.Close() //nolint:errcheck // a reader in memory has nothing to lose
	}
	f.r, f.data = nil, nil
}

func (f *inflater) read(ctx context.Context, r *run, rank int, d *checkpoint.Data, off int64, p []byte) error {
	if f.rank != rank || f.data != d || off < f.at {
		f.close()
		file, _, err := r.sources.file(ctx, rank, d.Extents[0].File)
		if err != nil {
			return err
		}
		x := d.Extents[0]
		f.r = flate.NewReader(bufio.NewReaderSize(io.NewSectionReader(file, x.Off, x.Len), 64<<10))
		f.rank, f.data, f.at = rank, d, 0
	}
	if _, err := io.CopyN(io.Discard, f.r, off-f.at); err != nil {
		return packed(err, d)
	}
	f.at = off
	if _, err := io.ReadFull(f.r, p); err != nil {
		return packed(err, d)
	}
	f.at += int64(len(p))
	return nil
}

func packed(err error, d *checkpoint.Data) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return diag.Errorf(diag.Damaged, "the packed data ends before the %d bytes that it claims", d.Decoded).AtByte(d.Extents[0].Off)
	}
	return diag.Errorf(diag.Damaged, "the packed data cannot be unpacked").AtByte(d.Extents[0].Off).Wrap(err)
}
