package engine

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/manifest"
)

// unitDone takes the digests of a tensor whose last band is done. A tensor
// that was not cast has the same digest by the source's layout and by the
// target's, or its elements are not where they belong.
func (r *run) unitDone(u *unit) error {
	if n := u.overflow.Load(); n > 0 {
		r.overflow.Add(n)
		r.warn(diag.Warnf("%d elements of `%s` are too large for %s and became infinite", n, u.source.Name, u.target.DType).OfTensor(u.source.Name))
	}
	if !u.full || u.read.Missing() != 0 || u.wrote.Missing() != 0 {
		if u.full {
			return diag.Errorf(diag.Failed, "internal error: `%s`: %d bytes were not read and %d not written", u.source.Name, u.read.Missing(), u.wrote.Missing()).OfTensor(u.source.Name)
		}
		return nil
	}
	d := digests{read: sum64(u.read.Sum()), wrote: sum64(u.wrote.Sum())}
	if !u.cast && d.read != d.wrote {
		return diag.Errorf(diag.Failed, "internal error: `%s` has digest %s by the source's layout and %s by the target's", u.source.Name, d.read, d.wrote).
			OfTensor(u.source.Name).WithHint("nothing was published; please report this with the output of `convert plan --json`")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch k := &r.digests[u.tensor]; {
	case k.mixed:
	case k.wrote == "":
		*k = d
	case *k != d:
		*k = digests{mixed: true}
	}
	return nil
}

// mix notes that a tensor has no one digest: with MindSpore's rule the files
// are made of several copies, and what is read of one is not all of it.
func (r *run) mix(tensor int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.digests[tensor] = digests{mixed: true}
}

func sum64(s uint64) string { return fmt.Sprintf("%016x", s) }

// finish writes what is no payload: loose literals with their sums, and the
// files beside the checkpoint. Then every byte of every file has been written.
func (r *run) finish(ctx context.Context) error {
	w := &worker{run: r}
	for _, c := range r.files {
		for _, l := range c.laid.Loose {
			// Sums of what the literals themselves belong to come first: a
			// trailer sums all that lies before it.
			c.addHoles(l.Bytes, l.At)
		}
		for _, l := range c.laid.Loose {
			p := append([]byte(nil), l.Bytes...)
			c.fill(p, l.At)
			c.crc.AddBytes(p, l.At)
			if err := w.send(ctx, c, p, l.At); err != nil {
				return err
			}
		}
		if n := c.crc.Missing(); n != 0 {
			return diag.Errorf(diag.Failed, "internal error: %d bytes were not written", n).InFile(c.names[0])
		}
	}
	return nil
}

// manifest records what was written.
func (r *run) manifest() *manifest.Manifest {
	m := &manifest.Manifest{
		Schema: manifest.Schema, Program: r.o.Program, Plan: r.Digest, Job: r.o.Job,
		Source: manifest.Source{Format: r.Source.Format, Stages: r.Source.Stages, Ranks: len(r.Source.Ranks), Files: []manifest.SourceFile{}},
		Target: manifest.Target{Format: r.Format.Describe().Name, Stages: r.Stages, Ranks: r.Stages * r.Devices},
		Files:  []manifest.File{}, Tensors: []manifest.Tensor{}, Dropped: []manifest.Dropped{}, Absent: r.Absent, Notes: r.Notes,
	}
	for i := range r.Source.Ranks {
		k := &r.Source.Ranks[i]
		for _, f := range k.Files {
			m.Source.Files = append(m.Source.Files, manifest.SourceFile{Rank: k.ID, Name: f.Name, Size: f.Size, Header: hex.EncodeToString(k.Header.Digest[:])})
		}
	}
	for _, c := range r.files {
		for i, name := range c.names {
			f := manifest.File{Name: name, Rank: c.ranks[i], Size: c.laid.Size, CRC64: sum64(c.crc.Sum()), SHA256: c.sha}
			if r.Link && i > 0 {
				f.LinkTo = c.names[0]
			}
			m.Files = append(m.Files, f)
		}
	}
	m.Files = append(m.Files, r.target.extra...)
	for i := range r.Tensors {
		if r.target.holds(i) {
			m.Tensors = append(m.Tensors, r.record(i))
		}
	}
	for _, l := range r.Source.Leaves {
		m.Leaves = append(m.Leaves, checkpoint.JSONName(l.Path.Label()))
	}
	for _, d := range r.Dropped {
		m.Dropped = append(m.Dropped, manifest.Dropped{Name: checkpoint.JSONName(d.Name), Kind: d.Kind, Reason: d.Reason})
	}
	return m
}

func (r *run) record(i int) manifest.Tensor {
	t := &r.Tensors[i]
	s := &r.Source.Tensors[t.Source]
	out := manifest.Tensor{Name: checkpoint.JSONName(t.Name), DType: t.DType.String(), Shape: t.Shape, CRC64: r.digests[i].wrote}
	if out.Shape == nil {
		out.Shape = []int64{}
	}
	if s.Name != t.Name {
		out.From = checkpoint.JSONName(s.Name)
	}
	if s.DType != t.DType {
		out.Cast, out.Source = s.DType.String(), r.digests[i].read
	}
	if r.Source.PerRank {
		rank := s.Places[0].Stage
		out.Rank = &rank
	}
	return out
}

// event reports progress.
func (r *run) event(phase string, done int64, file string) {
	if r.o.Events != nil {
		r.o.Events(Event{Phase: phase, Done: done, Total: r.Totals.WriteBytes, FilesDone: int(r.filesDone.Load()), Files: r.Totals.TargetFiles, File: file})
	}
}
