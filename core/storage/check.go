package storage

import (
	"fmt"
	"io"
)

// outside says that n bytes at off do not lie inside a file of size bytes.
func outside(off, n, size int64) error {
	return fmt.Errorf("%d bytes at %d of a file of %d: %w", n, off, size, io.ErrUnexpectedEOF)
}

// inside checks that n bytes at off lie inside a file of size bytes.
func inside(off, n, size int64) error {
	if off < 0 || n < 0 || off > size-n {
		return outside(off, n, size)
	}
	return nil
}

// checkBlock checks the arguments of ReadBlock.
func checkBlock(buf []byte, off int64, n, phase int, size int64) error {
	if err := inside(off, int64(n), size); err != nil {
		return err
	}
	if len(buf)-n < 2*Block {
		return fmt.Errorf("a buffer of %d bytes is too small for a block of %d: it needs %d more", len(buf), n, 2*Block)
	}
	if phase < 0 || phase > 2*Block {
		return fmt.Errorf("the phase %d is not between 0 and %d", phase, 2*Block)
	}
	return nil
}
