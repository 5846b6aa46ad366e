package engine

import (
	"context"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/sum"
)

// checkSources holds source files against the checksums that they carry,
// before anything is written. It reads those runs once more; the page cache
// has them afterwards.
func (r *run) checkSources(ctx context.Context) error {
	for i := range r.Source.Ranks {
		k := &r.Source.Ranks[i]
		for _, c := range k.Checks {
			if c.Advisory && !r.o.Strict {
				continue
			}
			if err := r.checkOne(ctx, k, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) checkOne(ctx context.Context, k *checkpoint.Rank, c checkpoint.Check) error {
	f, ref, err := r.sources.file(ctx, k.ID, c.Range.File)
	if err != nil {
		return err
	}
	const chunk = readBackSize - 2*storage.Block
	buf, err := r.pool.Get(ctx, readBackSize)
	if err != nil {
		return err
	}
	defer buf.Release()
	var s uint64
	for at, end := c.Range.Off, c.Range.Off+c.Range.Len; at < end; {
		n := min(chunk, end-at)
		p, err := f.ReadBlock(ctx, buf.Bytes(), at, int(n), 0)
		if err != nil {
			return readError(err, ref, at, n)
		}
		s = sum.CRC32.Update(s, p)
		at += n
		r.event("check", 0, ref.Name)
	}
	if s == c.Want {
		return nil
	}
	return diag.Errorf(diag.Damaged, "the checksum `%s` does not agree: the file says %08x, its bytes give %08x", c.Name, c.Want, s).InFile(ref.Name).OfRank(k.ID).
		WithHint("the file was damaged after it was saved; copy it again, or set `source.crc = \"ignore\"` to convert it as it is")
}
