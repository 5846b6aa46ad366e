package conformance

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/storage"
)

// index indexes a file and has the index validated.
func (k *kit) index(ctx context.Context, file storage.Source, strict bool) (*checkpoint.Index, error) {
	x, err := k.format.Index(ctx, checkpoint.Input{File: file, Name: "conformance", Strict: strict, Yield: func() {}})
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	if err := x.Validate([]int64{file.Size()}); err != nil {
		return nil, fmt.Errorf("index is not valid: %w", err)
	}
	return x, nil
}

// same compares what was read with what was written: every tensor bit for bit,
// every leaf and metadata entry unless the blueprint says it was dropped.
func (m *model) same(ctx context.Context, file storage.Source, x *checkpoint.Index, bp *checkpoint.Blueprint) error {
	for i := range m.out.Tensors {
		t := &m.out.Tensors[i]
		e, err := only(x, t)
		if err != nil {
			return err
		}
		if e.DType != t.DType || !slices.Equal(e.Shape, t.Shape) {
			return fmt.Errorf("tensor %q was written as %s %v and read as %s %v", t.Name, t.DType, t.Shape, e.DType, e.Shape)
		}
		data, err := ReadTensor(ctx, file, e)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if !bytes.Equal(data, m.data[i]) {
			return fmt.Errorf("tensor %q: bytes were not kept", t.Name)
		}
	}
	leaves, err := m.sameLeaves(x, bp)
	if err != nil {
		return err
	}
	if n := len(m.out.Tensors) + leaves; len(x.Entries) != n {
		return fmt.Errorf("%d tensors were read, %d were written", len(x.Entries), n)
	}
	for _, kv := range m.out.Metadata {
		if !slices.Contains(x.Metadata, kv) && !dropped(bp, checkpoint.Keys(kv.Key)) {
			return fmt.Errorf("the metadata entry %q is neither kept nor listed as dropped", kv)
		}
	}
	return nil
}

// only finds the entry of a tensor, of which there must be one.
func only(x *checkpoint.Index, t *checkpoint.Tensor) (*checkpoint.Entry, error) {
	path := t.Path
	if path == nil {
		path = checkpoint.Keys(t.Name)
	}
	var found *checkpoint.Entry
	for i := range x.Entries {
		if x.Entries[i].Name != t.Name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("tensor %q was read twice", t.Name)
		}
		found = &x.Entries[i]
	}
	if found == nil {
		return nil, fmt.Errorf("tensor %q was not read", t.Name)
	}
	if !found.PathOrName().Equal(path) {
		return nil, fmt.Errorf("tensor %q was written at the path %v and read at %v", t.Name, path, found.Path)
	}
	return found, nil
}

// sameLeaves accounts for the leaves. A format may keep one as a tensor of the
// leaf's name; the number of those is returned.
func (m *model) sameLeaves(x *checkpoint.Index, bp *checkpoint.Blueprint) (asTensors int, err error) {
	for i := range m.out.Leaves {
		want := &m.out.Leaves[i]
		at := slices.IndexFunc(x.Leaves, func(l checkpoint.Leaf) bool { return l.Path.Equal(want.Path) })
		switch {
		case at >= 0:
			got := &x.Leaves[at]
			if got.Type != want.Type || !sameValue(got.Value, want.Value) {
				return 0, fmt.Errorf("the leaf %q was written as %s %+v and read as %s %+v", want.Path.Label(), want.Type, want.Value, got.Type, got.Value)
			}
		case slices.ContainsFunc(x.Entries, func(e checkpoint.Entry) bool { return e.PathOrName().Equal(want.Path) }):
			asTensors++
		case !dropped(bp, want.Path):
			return 0, fmt.Errorf("the leaf %q is neither kept nor listed as dropped", want.Path.Label())
		}
	}
	return asTensors, nil
}

func sameValue(a, b checkpoint.Value) bool {
	if math.Float64bits(a.Float) != math.Float64bits(b.Float) {
		return false
	}
	a.Float, b.Float = 0, 0
	return a == b
}

func dropped(bp *checkpoint.Blueprint, path checkpoint.Path) bool {
	return slices.ContainsFunc(bp.Dropped, func(d checkpoint.Dropped) bool { return d.Path.Equal(path) && d.Reason != "" })
}

// sums checks the sums that a file holds of itself.
func sums(x *checkpoint.Index, data []byte) error {
	for _, c := range x.Checks {
		r := c.Range
		if r.Off < 0 || r.Len < 0 || r.Off > int64(len(data)) || r.Len > int64(len(data))-r.Off {
			return fmt.Errorf("the sum %q runs over bytes %d to %d of %d", c.Name, r.Off, r.Off+r.Len, len(data))
		}
		if got := uint64(crc32.ChecksumIEEE(data[r.Off : r.Off+r.Len])); c.Algorithm != checkpoint.CRC32 || got != c.Want {
			return fmt.Errorf("the sum %q is %#x, of its bytes it is %#x", c.Name, c.Want, got)
		}
	}
	return nil
}

// sample is what Probe is shown of a file.
func sample(name string, data []byte) checkpoint.Sample {
	n := min(len(data), checkpoint.SampleSize)
	return checkpoint.Sample{Head: data[:n], Tail: data[len(data)-n:], Size: int64(len(data)), Name: name}
}
