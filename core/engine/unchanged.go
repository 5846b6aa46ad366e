package engine

import (
	"context"

	"github.com/seed-e934e81e/convert/core/diag"
)

// unchanged proves that no source file was written to since its header was
// read: otherwise a tensor may be half of one step and half of another.
func (r *run) unchanged(ctx context.Context) error {
	for i := range r.Source.Ranks {
		k := &r.Source.Ranks[i]
		for _, f := range k.Files {
			if f.Time.IsZero() {
				continue
			}
			e, err := r.o.FS.Stat(ctx, f.Path)
			if err == nil && e.Size == f.Size && e.Time.Equal(f.Time) {
				continue
			}
			d := diag.Errorf(diag.Stale, "has changed while it was converted").InFile(f.Name).OfRank(k.ID).
				WithHint("wait until nothing writes to it, and run the job again; nothing was published")
			return d.Wrap(err)
		}
	}
	return nil
}
