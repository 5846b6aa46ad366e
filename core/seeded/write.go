package seeded

import (
	"context"
	"errors"
	"path"
	"runtime"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/storage"
)

// Step is the counter that every rank's file holds besides the tensors.
const Step = 1000

// WriteRank writes the file of one rank: its parts of the tensors of its stage,
// and the Int32 counter global_step of shape [1].
func WriteRank(ctx context.Context, fs storage.FS, name string, f checkpoint.Format, tensors []Tensor, p Parallel, rank int, seed uint64) (size int64, err error) {
	devices := p.DP * p.TP
	var mine []Tensor
	out := checkpoint.Output{From: "mindspore", Yield: runtime.Gosched}
	boxes := []box.Box{}
	for _, t := range tensors {
		if t.Stage != rank/devices {
			continue
		}
		b := t.Layout.Box(t.Shape, rank%devices)
		mine = append(mine, t)
		boxes = append(boxes, b)
		out.Tensors = append(out.Tensors, checkpoint.Tensor{Name: t.Name, DType: t.DType, Shape: b.Ext, Seq: len(mine)})
	}
	out.Tensors = append(out.Tensors, checkpoint.Tensor{Name: "global_step", DType: dtype.I32, Shape: []int64{1}, Seq: len(mine) + 1})
	bp, err := f.Blueprint(ctx, out)
	if err != nil {
		return 0, err
	}
	if len(bp.Holes) > 0 {
		return 0, diag.Errorf(diag.Usage, "seeded checkpoints are not written as %s, whose files hold sums of themselves", f.Describe().Name).
			WithHint("write mindspore or safetensors, and convert it")
	}
	if _, err := fs.MakeDir(ctx, path.Dir(name)); err != nil {
		return 0, diag.Errorf(diag.Failed, "cannot make the folder").InFile(path.Dir(name)).Wrap(err)
	}
	w, err := fs.Create(ctx, name, bp.Size(), storage.CreateOptions{})
	if err != nil {
		return 0, diag.Errorf(diag.Failed, "cannot create").InFile(name).Wrap(err)
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	if err := writeSegments(ctx, w, bp, mine, boxes, seed); err != nil {
		return 0, diag.Errorf(diag.Failed, "cannot write").InFile(name).Wrap(err)
	}
	if err := w.Sync(); err != nil {
		return 0, diag.Errorf(diag.Failed, "cannot make durable").InFile(name).Wrap(err)
	}
	return bp.Size(), w.Publish()
}

// chunk is the bytes of a part that are made at once.
const chunk = 1 << 20

func writeSegments(ctx context.Context, w storage.Writer, bp *checkpoint.Blueprint, mine []Tensor, boxes []box.Box, seed uint64) error {
	buf := make([]byte, chunk)
	at := int64(0)
	for _, s := range bp.Segments {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch {
		case s.Len == 0:
			if _, err := w.WriteAt(s.Literal, at); err != nil {
				return err
			}
		case s.Tensor == len(mine):
			if _, err := w.WriteAt([]byte{Step & 0xff, Step >> 8, 0, 0}[s.Off:s.Off+s.Len], at); err != nil {
				return err
			}
		default:
			if err := writePart(w, &mine[s.Tensor], boxes[s.Tensor], seed, s, at, buf); err != nil {
				return err
			}
		}
		at += s.Size()
	}
	return nil
}

// writePart writes a run of a part's bytes. Runs of the whole tensor are made
// as far as they fit the buffer.
func writePart(w storage.Writer, t *Tensor, b box.Box, seed uint64, s checkpoint.Segment, at int64, buf []byte) error {
	st := t.stream(seed)
	es := t.DType.Size()
	pos, n := int64(0), 0 // position in the part, bytes in buf
	var err error
	flush := func() bool {
		if n > 0 {
			_, err = w.WriteAt(buf[:n], at)
			at += int64(n)
			n = 0
		}
		return err == nil
	}
	b.Runs(t.Shape, func(from, count int64) bool {
		lo, hi := max(pos, s.Off), min(pos+count*es, s.Off+s.Len)
		for lo < hi {
			k := min(hi-lo, int64(len(buf)-n))
			st.fill(buf[n:n+int(k)], from*es+lo-pos)
			n += int(k)
			lo += k
			if n == len(buf) && !flush() {
				return false
			}
		}
		pos += count * es
		return pos < s.Off+s.Len
	})
	flush()
	return err
}
