package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/storage"
)

// sources opens source files when they are first read. The file system keeps
// the number of descriptors in bounds.
type sources struct {
	fs   storage.FS
	ckpt *checkpoint.Checkpoint

	mu   sync.Mutex
	open map[[2]int]storage.File
}

func newSources(fs storage.FS, c *checkpoint.Checkpoint) *sources {
	return &sources{fs: fs, ckpt: c, open: map[[2]int]storage.File{}}
}

// file is an open file of a rank. It must have the size that its header was
// read at.
func (s *sources) file(ctx context.Context, rank, n int) (storage.File, *checkpoint.FileRef, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.ckpt.Rank(rank)
	ref := &r.Files[n]
	if f := s.open[[2]int{rank, n}]; f != nil {
		return f, ref, nil
	}
	f, err := s.fs.Open(ctx, ref.Path)
	if err != nil {
		return nil, ref, diag.Errorf(diag.Failed, "cannot open").InFile(ref.Name).OfRank(rank).Wrap(err)
	}
	if f.Size() != ref.Size {
		err := diag.Errorf(diag.Stale, "has changed since the plan was made: %d bytes then, %d now", ref.Size, f.Size()).InFile(ref.Name).OfRank(rank).
			WithHint("wait until nothing writes to it, and run the job again")
		return nil, ref, errors.Join(err, f.Close())
	}
	s.open[[2]int{rank, n}] = f
	return f, ref, nil
}

func (s *sources) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, f := range s.open {
		errs = append(errs, f.Close())
	}
	s.open = nil
	return errors.Join(errs...)
}
