package storage

import (
	"fmt"

	"github.com/seed-e934e81e/convert/core/diag"
)

// noSpace says that a file of size bytes does not fit.
func noSpace(name string, size, free int64, known bool, err error) error {
	d := diag.Errorf(diag.Failed, "no space for a file of %d bytes", size).InFile(name).Wrap(err)
	if known {
		d.Summary += fmt.Sprintf(", %d are free", free)
	}
	return d.WithHint("free space there or choose another folder; nothing was published")
}
