//go:build !linux

package storage

import (
	"errors"
	"os"
)

// Only Linux has direct transfers here, a look at the page cache and a rename
// that does not replace.

func openDirect(string, int) (*os.File, error) { return nil, errors.ErrUnsupported }

func isRefusal(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

func cachedBytes(*os.File, int64, int64) (int64, error) { return 0, errors.ErrUnsupported }
