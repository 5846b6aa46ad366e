// Package torch reads and writes the checkpoints of torch.save: a zip archive
// that holds one pickle, data.pkl, and one record for each storage (torch 1.6
// and later; .pt, .pth, .bin).
//
// The pickle is a program that torch.load would run; here nothing of it is.
// It is read symbolically (formats/pickle): calls of torch's rebuild functions
// become tensors, containers and scalars become leaves, and what is neither is
// an opaque leaf under the name of its class, whose content is listed all the
// same. Tensors are views into storages, so what Index answers are extents
// with strides, which may overlap.
//
// The bytes are described in specs/formats/torch.md.
package torch

import (
	"bytes"
	"context"

	"github.com/seed-e934e81e/convert/core/checkpoint"
)

const name = "torch"

// Format is the zip format of torch.save.
type Format struct{}

// Describe names the format.
func (Format) Describe() checkpoint.Description {
	return checkpoint.Description{
		Name:       name,
		Title:      "PyTorch",
		Extensions: []string{".pt", ".pth", ".bin"},
		Read:       true,
		Write:      true,
		Covers:     "zip files of torch.save (torch 1.6 and later)",
		Leaves:     true,
		Nested:     true,
	}
}

// Probe answers Yes for a zip of torch.save, and for the older containers of
// torch, which Index then refuses by name; Maybe for any other zip or pickle.
func (Format) Probe(s checkpoint.Sample) checkpoint.Match {
	switch container(s.Head) {
	case zipFile:
		if bytes.HasSuffix(firstRecord(s.Head), []byte("/data.pkl")) || hasRecord(s.Tail, "/data.pkl") {
			return checkpoint.Yes
		}
		return checkpoint.Maybe
	case legacyFile, tarFile, previewFile:
		return checkpoint.Yes
	case pickleFile:
		return checkpoint.Maybe
	}
	return checkpoint.No
}

// Index reads the directory of the archive, its pickle and the headers of its
// records.
func (Format) Index(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &reader{in: in, index: &checkpoint.Index{Format: name, Variant: "zip"}}
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	return r.index, nil
}

var _ checkpoint.Format = Format{}
