package safetensors

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
)

var errTooLarge = errors.New("header over the limit")

// Blueprint implements checkpoint.Format. The file is the one that the
// reference writes for these tensors and this metadata, whose keys are sorted.
func (Format) Blueprint(ctx context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error) {
	yield := func() error { out.Yield(); return ctx.Err() }
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tensors, err := place(&out, yield)
	if err != nil {
		return nil, err
	}
	bp := &checkpoint.Blueprint{}
	metadata, err := fileMetadata(&out, tensors, bp, yield)
	if err != nil {
		return nil, err
	}
	header, err := marshal(tensors, metadata, yield)
	if errors.Is(err, errTooLarge) {
		return nil, diag.Errorf(diag.Usage, "the header of %d tensors is over the limit of %d bytes that readers of safetensors have", len(tensors), maxHeader).
			WithHint("split the checkpoint with `target.max_file_size`")
	}
	if err != nil {
		return nil, err
	}
	bp.Segments = append(make([]checkpoint.Segment, 0, len(tensors)+1), checkpoint.Segment{Literal: header})
	for i := range tensors {
		if n := tensors[i].end - tensors[i].begin; n > 0 {
			bp.Segments = append(bp.Segments, checkpoint.Segment{Tensor: tensors[i].index, Len: n})
		}
	}
	return bp, nil
}

// stored is the type that stands in the header: MindSpore keeps Int4 in I8.
func stored(t dtype.Type) dtype.Type {
	if t == dtype.I4x2 {
		return dtype.I8
	}
	return t
}

// place checks the tensors and gives them their places: the most aligned type
// first, then by name.
func place(out *checkpoint.Output, yield func() error) ([]placed, error) {
	var rank [dtype.Count]int
	for i, t := range order {
		rank[t] = i
	}
	tensors := make([]placed, len(out.Tensors))
	for i := range out.Tensors {
		if i%64 == 63 {
			if err := yield(); err != nil {
				return nil, err
			}
		}
		t := &out.Tensors[i]
		if err := writable(t); err != nil {
			return nil, err
		}
		tensors[i] = placed{name: t.Name, dtype: t.DType, shape: headerShape(t), index: i}
	}
	slices.SortStableFunc(tensors, func(a, b placed) int {
		if c := cmp.Compare(rank[stored(b.dtype)], rank[stored(a.dtype)]); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	if err := unique(tensors); err != nil {
		return nil, err
	}
	at := int64(0)
	for i := range tensors {
		t := &tensors[i]
		n, ok := t.dtype.Bytes(out.Tensors[t.index].Shape)
		if !ok || n > math.MaxInt64-lenSize-maxHeader-at {
			return nil, diag.Errorf(diag.Usage, "tensor %s: %s of shape %v has no whole number of bytes, or too many for a file",
				quote(t.name), t.dtype, out.Tensors[t.index].Shape).OfTensor(t.name)
		}
		t.begin, t.end = at, at+n
		at += n
	}
	return tensors, nil
}

// writable refuses what safetensors has no form for.
func writable(t *checkpoint.Tensor) error {
	switch {
	case t.Name == metadataKey:
		return diag.Errorf(diag.Usage, "safetensors cannot hold a tensor called `%s`, the name is that of its metadata", metadataKey).
			WithHint("give the tensor another name with a `[[map]]` rule").OfTensor(t.Name)
	case !utf8.ValidString(t.Name):
		return diag.Errorf(diag.Usage, "safetensors cannot hold the tensor %s, its name is not UTF-8", quote(t.Name)).
			WithHint("give the tensor another name with a `[[map]]` rule").OfTensor(t.Name)
	case stored(t.DType).Safetensors() == "":
		return diag.Errorf(diag.Usage, "safetensors cannot hold the tensor %s, it has no element type %s", quote(t.Name), t.DType).
			WithHint("leave the tensor out with `drop = true` in a `[[map]]` rule, or write another format").OfTensor(t.Name)
	case t.DType == dtype.I4x2 && ownKey(t.Name):
		return diag.Errorf(diag.Usage, "safetensors cannot hold the 4-bit tensor %s, the metadata needs that name", quote(t.Name)).
			WithHint("give the tensor another name with a `[[map]]` rule").OfTensor(t.Name)
	}
	return nil
}

// ownKey reports whether the writer gives a metadata key its value, or never
// passes it on.
func ownKey(key string) bool {
	return key == "format" || key == leavesKey || stale(key)
}

// stale reports whether a metadata key says something of the source file that
// the new file would make untrue: MindSpore's sum, and whether replicas were
// left out.
func stale(key string) bool { return key == "crc_num" || key == "remove_redundancy" }

// headerShape is the shape as the header has it: that of an empty tensor may
// have dims that only its note can hold.
func headerShape(t *checkpoint.Tensor) []uint64 {
	shape := make([]uint64, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = uint64(d)
	}
	if note, ok := t.Note[noteShape]; ok {
		if full, ok := parseShape(note); ok && len(full) == len(shape) {
			same := make([]int64, len(full))
			if fit(same, full); slices.Equal(same, t.Shape) {
				return full
			}
		}
	}
	return shape
}

func unique(tensors []placed) error {
	names := make(map[string]bool, len(tensors))
	for i := range tensors {
		if n := tensors[i].name; names[n] {
			return diag.Errorf(diag.Usage, "two tensors are called %s", quote(n)).
				WithHint("give one of them another name with a `[[map]]` rule").OfTensor(n)
		}
		names[tensors[i].name] = true
	}
	return nil
}

// fileMetadata makes the metadata of the file, by key: the framework's mark,
// the source's own entries but for those that no longer hold, Int4 marks, and
// leaves. What is left out is listed in bp.
func fileMetadata(out *checkpoint.Output, tensors []placed, bp *checkpoint.Blueprint, yield func() error) ([]checkpoint.KV, error) {
	drop := func(key, reason string) {
		bp.Dropped = append(bp.Dropped, checkpoint.Dropped{Path: checkpoint.Keys(key), What: "metadata", Reason: reason})
	}
	types := make(map[string]dtype.Type, len(tensors))
	for i := range tensors {
		types[tensors[i].name] = tensors[i].dtype
	}
	format := "pt"
	if out.From == "mindspore" {
		format = "ms"
	}
	entries := map[string]string{}
	for _, m := range out.Metadata {
		switch t, isTensor := types[m.Key]; {
		case m.Key == "format":
			if m.Value == "ms" {
				format = "ms" // written by MindSpore itself, or for it
			}
		case stale(m.Key):
			drop(m.Key, "it describes the source file")
		case m.Key == leavesKey:
			drop(m.Key, "it is not what this program writes")
		case m.Value == int4 && isTensor && t == dtype.I8:
			drop(m.Key, "it would turn the tensor of that name into 4-bit integers")
		case !utf8.ValidString(m.Key) || !utf8.ValidString(m.Value):
			drop(m.Key, "it is not UTF-8")
		default:
			entries[m.Key] = m.Value
		}
	}
	entries["format"] = format
	for i := range tensors {
		if tensors[i].dtype == dtype.I4x2 {
			entries[tensors[i].name] = int4
		}
	}
	if needsLeaves(out) {
		value, err := marshalLeaves(out, asRead(tensors), yield)
		if err != nil {
			return nil, leavesError(err)
		}
		entries[leavesKey] = value
	}
	list := make([]checkpoint.KV, 0, len(entries))
	for k, v := range entries {
		list = append(list, checkpoint.KV{Key: k, Value: v})
	}
	slices.SortFunc(list, func(a, b checkpoint.KV) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

func leavesError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return diag.Errorf(diag.Usage, "safetensors cannot hold the leaves of this checkpoint: %v", err).
		WithHint("write another format, or drop them with `[[map]]` rules")
}

// asRead puts the tensors in the order that Index gives them: by begin, end
// and name. That differs from the file's only among empty tensors.
func asRead(tensors []placed) []placed {
	list := slices.Clone(tensors)
	slices.SortFunc(list, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), strings.Compare(a.name, b.name))
	})
	return list
}
