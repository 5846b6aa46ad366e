package torch

import (
	"context"
	"fmt"
	"strconv"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

// prefix of all records; what torch itself takes where it knows no file name.
const prefix = "archive/"

// Blueprint lays out a file as torch 2.7 and later do, which torch 1.6 and
// later load: data.pkl, the notes, the storages in the order in which the
// pickle names them, the version. Every tensor has a storage of its own.
func (Format) Blueprint(ctx context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	root, err := buildTree(out)
	if err != nil {
		return nil, err
	}
	e := &emitter{ctx: ctx, out: out, w: pickle.NewWriter()}
	if err := e.root(root); err != nil {
		return nil, err
	}
	w := &archiveWriter{}
	w.text(prefix+"data.pkl", e.w.Stop())
	w.text(prefix+".format_version", []byte("1"))
	w.text(prefix+".storage_alignment", []byte(strconv.Itoa(alignment)))
	w.text(prefix+"byteorder", []byte("little"))
	for i, t := range e.storages {
		if i%64 == 0 {
			out.Yield()
		}
		size, ok := out.Tensors[t].DType.Bytes(out.Tensors[t].Shape)
		if !ok {
			return nil, fmt.Errorf("internal error: `%s` was written without a size", out.Tensors[t].Name)
		}
		w.tensor(fmt.Sprintf("%sdata/%d", prefix, i), t, size)
	}
	w.text(prefix+"version", []byte("3\n"))
	bp := w.finish()
	bp.Dropped = e.dropped
	for _, kv := range out.Metadata {
		bp.Dropped = append(bp.Dropped, checkpoint.Dropped{Path: checkpoint.Keys(kv.Key), What: "metadata", Reason: "a torch file has no metadata"})
	}
	return bp, nil
}
