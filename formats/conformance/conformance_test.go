package conformance_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/conformance"
	"github.com/seed-e934e81e/convert/formats/safetensors"
)

// bent is a good format with something wrong.
type bent struct {
	safetensors.Format
	describe  func(d *checkpoint.Description)
	probe     func(s checkpoint.Sample) checkpoint.Match
	index     func(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error)
	blueprint func(ctx context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error)
}

var good safetensors.Format

func (b bent) Describe() checkpoint.Description {
	d := good.Describe()
	if b.describe != nil {
		b.describe(&d)
	}
	return d
}

func (b bent) Probe(s checkpoint.Sample) checkpoint.Match {
	if b.probe != nil {
		return b.probe(s)
	}
	return good.Probe(s)
}

func (b bent) Index(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
	if b.index != nil {
		return b.index(ctx, in)
	}
	return good.Index(ctx, in)
}

func (b bent) Blueprint(ctx context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error) {
	if b.blueprint != nil {
		return b.blueprint(ctx, out)
	}
	return good.Blueprint(ctx, out)
}

// afterIndex changes what a good Index answers.
func afterIndex(change func(x *checkpoint.Index)) bent {
	return bent{index: func(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
		x, err := good.Index(ctx, in)
		if err == nil {
			change(x)
		}
		return x, err
	}}
}

// afterBlueprint changes what a good Blueprint answers.
func afterBlueprint(change func(out checkpoint.Output, b *checkpoint.Blueprint)) bent {
	return bent{blueprint: func(ctx context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error) {
		b, err := good.Blueprint(ctx, out)
		if err == nil {
			change(out, b)
		}
		return b, err
	}}
}

// Every fault is found by the check that is meant to find it.
func TestFindsFaults(t *testing.T) {
	calls := 0
	var hog []byte
	var unsteady atomic.Int64
	tests := []struct {
		fault  string
		format bent
		check  string
		want   string
	}{
		{"no name", bent{describe: func(d *checkpoint.Description) { d.Name = "" }}, "describes itself", "has no name"},
		{"only reads, without samples", bent{describe: func(d *checkpoint.Description) { d.Write = false }}, "describes itself", "brings no samples"},
		{"takes everything", bent{probe: func(checkpoint.Sample) checkpoint.Match { return checkpoint.Yes }}, "does not claim files of others", "takes an empty file for its own"},
		{"knows nothing", bent{probe: func(checkpoint.Sample) checkpoint.Match { return checkpoint.No }}, "reads back what it wrote, bit for bit", "does not know its own file"},
		{"lacks a type", bent{blueprint: func(ctx context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error) {
			for i := range out.Tensors {
				if out.Tensors[i].DType == dtype.BF16 {
					out.Tensors[i].DType = dtype.C128
				}
			}
			return good.Blueprint(ctx, out)
		}}, "holds the element types that it should", "refuses the element type bf16"},
		{"refuses without a reason", bent{blueprint: func(ctx context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error) {
			b, err := good.Blueprint(ctx, out)
			if err != nil {
				err = errors.New("no")
			}
			return b, err
		}}, "holds the element types that it should", "want a diagnostic"},
		{"swaps tensors", afterBlueprint(func(out checkpoint.Output, b *checkpoint.Blueprint) {
			if n := len(b.Segments); n > 2 {
				b.Segments[n-1], b.Segments[n-2] = b.Segments[n-2], b.Segments[n-1]
			}
		}), "reads back what it wrote, bit for bit", "seed"},
		{"forgets a tensor's end", afterBlueprint(func(out checkpoint.Output, b *checkpoint.Blueprint) {
			if s := &b.Segments[len(b.Segments)-1]; s.Len > 1 {
				s.Len--
			}
		}), "reads back a tensor of each element type", "blueprint is not valid"},
		{"writes something else each time", afterBlueprint(func(out checkpoint.Output, b *checkpoint.Blueprint) {
			calls++
			b.Segments = append(b.Segments, checkpoint.Segment{Literal: []byte{byte(calls)}})
		}), "reads back what it wrote, bit for bit", "other bytes the second time"},
		{"loses a leaf", afterIndex(func(x *checkpoint.Index) { x.Leaves = nil }), "reads back what it wrote, bit for bit", "neither kept nor listed"},
		{"changes a leaf", afterIndex(func(x *checkpoint.Index) {
			for i := range x.Leaves {
				x.Leaves[i].Value.Float += 1
			}
		}), "reads back what it wrote, bit for bit", "was written as"},
		{"loses metadata", afterIndex(func(x *checkpoint.Index) { x.Metadata = nil }), "reads back what it wrote, bit for bit", "the metadata entry"},
		{"flattens paths", afterIndex(func(x *checkpoint.Index) {
			for i := range x.Entries {
				x.Entries[i].Path = nil
			}
		}), "reads back what it wrote, bit for bit", "was written at the path"},
		{"mistakes a type", afterIndex(func(x *checkpoint.Index) {
			for i := range x.Entries {
				if x.Entries[i].DType == dtype.BF16 {
					x.Entries[i].DType = dtype.F16
				}
			}
		}), "reads back a tensor of each element type", "was written as bf16"},
		{"warns of its own files", afterIndex(func(x *checkpoint.Index) { x.Warnings = append(x.Warnings, nil) }), "reads back what it wrote, bit for bit", "warns of what it wrote"},
		{"mangles names", afterIndex(func(x *checkpoint.Index) {
			for i := range x.Entries {
				x.Entries[i].Name = strings.ToValidUTF8(strings.Trim(x.Entries[i].Name, "\x00 "), "?")
			}
		}), "keeps odd names or refuses them", "was not read"},
		{"hides a twin", bent{blueprint: func(ctx context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error) {
			b, err := good.Blueprint(ctx, out)
			if err != nil && strings.Contains(err.Error(), "two tensors") {
				return &checkpoint.Blueprint{}, nil
			}
			return b, err
		}}, "refuses two tensors of one name", "one would hide the other"},
		{"never yields", bent{index: func(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
			in.Yield = func() {}
			return good.Index(ctx, in)
		}}, "yields while it walks many tensors", "yielded 0 times while indexing"},
		{"never yields when writing", bent{blueprint: func(ctx context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error) {
			out.Yield = func() {}
			return good.Blueprint(ctx, out)
		}}, "yields while it walks many tensors", "yielded 0 times while laying out"},
		{"reads the data", bent{index: func(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
			if _, err := in.File.ReadAt(make([]byte, in.File.Size()), 0); err != nil {
				return nil, err
			}
			return good.Index(ctx, in)
		}}, "reads headers only", "bytes to index two large tensors"},
		{"does not stop", bent{index: func(_ context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
			return good.Index(context.Background(), in)
		}}, "stops indexing when cancelled", "answered <nil>"},
		{"does not stop writing", bent{blueprint: func(_ context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error) {
			return good.Blueprint(context.Background(), out)
		}}, "stops laying out when cancelled", "answered <nil>"},
		{"blames the file for the disk", bent{index: func(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
			x, err := good.Index(ctx, in)
			var fe *checkpoint.FormatError
			if err != nil && !errors.As(err, &fe) && ctx.Err() == nil {
				err = &checkpoint.FormatError{Format: "safetensors", Msg: "cannot be read"}
			}
			return x, err
		}}, "passes errors of the storage on", "want what the storage said"},
		{"panics on damage", bent{index: func(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
			x, err := good.Index(ctx, in)
			if err != nil && ctx.Err() == nil {
				panic("index out of range")
			}
			return x, err
		}}, "survives a file that is cut at any byte", "panic: index out of range"},
		{"answers damage without a place", bent{index: func(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
			x, err := good.Index(ctx, in)
			if err != nil {
				err = errors.New("bad file")
			}
			return x, err
		}}, "survives flipped bits", "want a *checkpoint.FormatError"},
		{"takes an empty file", bent{index: func(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
			if in.File.Size() == 0 {
				return &checkpoint.Index{}, nil
			}
			return good.Index(ctx, in)
		}}, "refuses an empty file", "indexed an empty file"},
		{"believes sizes", afterIndex(func(x *checkpoint.Index) {
			for i := range x.Entries {
				for k := range x.Entries[i].Data.Extents {
					x.Entries[i].Data.Extents[k].Off++
				}
			}
		}), "reads its samples", "index is not valid"},
		{"allocates what a file claims", bent{index: func(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
			hog = make([]byte, 100<<20)
			return good.Index(ctx, in)
		}}, "survives flipped bits", "the budget is"},
		{"differs from goroutine to goroutine", bent{index: func(ctx context.Context, in checkpoint.Input) (*checkpoint.Index, error) {
			x, err := good.Index(ctx, in)
			if err == nil {
				x.Entries = slices.Clip(x.Entries[:len(x.Entries)-int(unsteady.Add(1)%2)])
			}
			return x, err
		}}, "answers the same from several goroutines", "gave another index"},
	}
	for _, tt := range tests {
		found := false
		for _, c := range conformance.Checks(tt.format, conformance.Options{DTypes: []dtype.Type{dtype.BF16}, Seeds: 12, Flips: 200}) {
			if c.Name != tt.check {
				continue
			}
			found = true
			if err := c.Run(context.Background()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("a format that %s: %q found %v, want %q", tt.fault, tt.check, err, tt.want)
			}
		}
		if !found {
			t.Errorf("a format that %s: there is no check %q", tt.fault, tt.check)
		}
	}
	_ = hog
}

func TestAssembleFillsSums(t *testing.T) {
	out := []byte("123456789")
	b := &checkpoint.Blueprint{
		Segments: []checkpoint.Segment{{Literal: make([]byte, 10)}, {Tensor: 0, Len: 4}, {Tensor: 0, Off: 4, Len: 5}, {Literal: make([]byte, 4)}},
		Holes: []checkpoint.Hole{
			{At: 0, Encoding: checkpoint.BigEndian80, Over: storage.Range{Off: 10, Len: 13}}, // over the other hole
			{At: 19, Encoding: checkpoint.LittleEndian32, Over: storage.Range{Off: 10, Len: 9}},
		},
	}
	got, err := conformance.Assemble(b, func(int) []byte { return out })
	// 0xcbf43926 is the CRC-32 of the digits; a run followed by its own sum has
	// the sum 0x2144df1c, whatever the run.
	want := "\x00\x00\x00\x00\x00\x00\x21\x44\xdf\x1c" + "123456789" + "\x26\x39\xf4\xcb"
	if err != nil || string(got) != want {
		t.Errorf("got %x, %v; want %x", got, err, want)
	}
	b.Holes[1].Over = storage.Range{Off: 0, Len: 10}
	if _, err := conformance.Assemble(b, func(int) []byte { return out }); err == nil {
		t.Error("two sums over each other were filled")
	}
}

func TestReadTensorFollowsStrides(t *testing.T) {
	src := conformance.Bytes("x", []byte{9, 9, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6})
	e := checkpoint.Entry{DType: dtype.I16, Shape: []int64{2, 3}, Data: checkpoint.Data{
		Extents: []checkpoint.Extent{{Off: 2, Len: 4}, {Off: 6, Len: 8}}, Strides: []int64{1, 2}, BigEndian: true,
	}}
	got, err := conformance.ReadTensor(t.Context(), src, &e)
	if want := []byte{1, 0, 3, 0, 5, 0, 2, 0, 4, 0, 6, 0}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	e.Data.Offset = 1
	if _, err := conformance.ReadTensor(t.Context(), src, &e); err == nil {
		t.Error("an element beyond the run was read")
	}
}
