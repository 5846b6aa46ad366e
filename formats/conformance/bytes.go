package conformance

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/seed-e934e81e/convert/core/storage"
)

// Source is a file in memory that counts what is read of it.
type Source struct {
	name string
	data []byte
	read atomic.Int64
}

// Bytes gives data as a file. It is not copied.
func Bytes(name string, data []byte) *Source { return &Source{name: name, data: data} }

// Size is the number of bytes of the file.
func (s *Source) Size() int64 { return int64(len(s.data)) }

// BytesRead is the number of bytes that were read so far.
func (s *Source) BytesRead() int64 { return s.read.Load() }

// ReadAt reads like io.ReaderAt.
func (s *Source) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("%s: read at the negative offset %d", s.name, off)
	}
	if off >= s.Size() {
		return 0, io.EOF
	}
	n := copy(p, s.data[off:])
	s.read.Add(int64(n))
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// ReadRanges fills dst[i] with the bytes at off[i].
func (s *Source) ReadRanges(ctx context.Context, off []int64, dst [][]byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, p := range dst {
		if n, err := s.ReadAt(p, off[i]); n < len(p) {
			if err == io.EOF {
				err = fmt.Errorf("%s: read %d bytes at %d of %d: %w", s.name, len(p), off[i], s.Size(), io.ErrUnexpectedEOF)
			}
			return err
		}
	}
	return nil
}

var _ storage.Source = (*Source)(nil)
