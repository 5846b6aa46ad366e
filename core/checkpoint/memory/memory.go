package memory

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"
	"slices"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/storage"
)

// Tensor is one whole tensor.
type Tensor struct {
	Name  string
	DType dtype.Type
	Shape []int64
	Data  []byte // row-major, little-endian
}

// Placement is how tensors lie on the ranks of a run.
type Placement struct {
	Stages, Devices int
	Specs           map[string]map[int]Spec // by name and stage
	Outside         map[string][]int        // what no strategy names: the stages that hold it, whole
}

// Ranks is the number of ranks of all stages.
func (p *Placement) Ranks() int { return p.Stages * p.Devices }

// Box is what a rank is to hold of a tensor, false for nothing.
func (p *Placement) Box(t *Tensor, rank int) (box.Box, bool) {
	stage := rank / p.Devices
	if slices.Contains(p.Outside[t.Name], stage) {
		return box.Whole(t.Shape), true
	}
	s, ok := p.Specs[t.Name][stage]
	if !ok {
		return box.Box{}, false
	}
	return s.Box(t.Shape, rank%p.Devices), true
}

// Stage lists the stages that hold a tensor, ascending.
func (p *Placement) In(name string) []int {
	var out []int
	for s := range p.Stages {
		if _, ok := p.Specs[name][s]; ok || slices.Contains(p.Outside[name], s) {
			out = append(out, s)
		}
	}
	return out
}

// Strategy is the placement as the program knows it.
func (p *Placement) Strategy() (*layout.Strategy, error) {
	var params []layout.Param
	for _, name := range sorted(p.Specs) {
		for s := range p.Stages {
			spec, ok := p.Specs[name][s]
			if !ok {
				continue
			}
			l, err := spec.Layout()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			params = append(params, layout.Param{Name: name, Stage: s, Layout: l})
		}
	}
	return layout.NewStrategy(p.Stages, p.Devices, params)
}

// Checkpoint is tensors and where they lie.
type Checkpoint struct {
	Tensors []Tensor
	Placement
	Lacks map[string][]int // ranks whose files lack a tensor that they are to hold
}

// Holds tells what a rank's file has of a tensor, false for nothing.
func (c *Checkpoint) Holds(t *Tensor, rank int) (box.Box, bool) {
	if slices.Contains(c.Lacks[t.Name], rank) {
		return box.Box{}, false
	}
	return c.Box(t, rank)
}

// Names lists the tensors in a rank's file, in the file's order.
func (c *Checkpoint) Names(rank int) []string {
	var out []string
	for i := range c.Tensors {
		if _, ok := c.Holds(&c.Tensors[i], rank); ok {
			out = append(out, c.Tensors[i].Name)
		}
	}
	return out
}

// Put writes the files of all ranks that hold anything to rank folders below
// root, and returns the names by rank. write makes the bytes of a file, see
// File.
func (c *Checkpoint) Put(fs *storage.Memory, root, ext string, write func(out checkpoint.Output, data [][]byte) ([]byte, error)) (map[int]string, error) {
	files := map[int]string{}
	for r := range c.Ranks() {
		var out []checkpoint.Tensor
		var data [][]byte
		for i := range c.Tensors {
			t := &c.Tensors[i]
			b, ok := c.Holds(t, r)
			if !ok {
				continue
			}
			out = append(out, checkpoint.Tensor{Name: t.Name, DType: t.DType, Shape: b.Ext, Seq: len(out)})
			data = append(data, Cut(t.Data, t.DType.Bits(), t.Shape, b))
		}
		if len(out) == 0 {
			continue
		}
		b, err := write(checkpoint.Output{Tensors: out}, data)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
		files[r] = path.Join(root, fmt.Sprintf("rank_%d/net%s", r, ext))
		fs.Put(files[r], b)
	}
	return files, nil
}

// File makes the bytes of a file that holds tensors with these bytes.
func File(f checkpoint.Format, out checkpoint.Output, data [][]byte) ([]byte, error) {
	if out.Yield == nil {
		out.Yield = func() {}
	}
	bp, err := f.Blueprint(context.Background(), out)
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, s := range bp.Segments {
		if s.Len > 0 {
			b = append(b, data[s.Tensor][s.Off:s.Off+s.Len]...)
		} else {
			b = append(b, s.Literal...)
		}
	}
	for _, h := range bp.Holes {
		sum := crc32.ChecksumIEEE(b[h.Over.Off : h.Over.Off+h.Over.Len])
		if h.Encoding == checkpoint.BigEndian80 {
			binary.BigEndian.PutUint32(b[h.At+6:], sum)
		} else {
			binary.LittleEndian.PutUint32(b[h.At:], sum)
		}
	}
	return b, nil
}
