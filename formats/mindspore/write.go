package mindspore

import (
	"context"
	"encoding/binary"
	"math"
	"sort"
	"unicode/utf8"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/storage"
)

// sliceBytes is where MindSpore's synchronous save cuts a parameter's bytes,
// wherever rows end (SLICE_SIZE in mindspore/train/serialization.py).
const sliceBytes = 512 << 20

// Blueprint implements checkpoint.Format. The file has the bytes that
// MindSpore itself would write.
func (Format) Blueprint(ctx context.Context, out checkpoint.Output) (*checkpoint.Blueprint, error) {
	return blueprint(ctx, out, sliceBytes)
}

func blueprint(ctx context.Context, out checkpoint.Output, slice int64) (*checkpoint.Blueprint, error) {
	d := draft{out: out, slice: slice, names: make(map[string]bool, len(out.Tensors))}
	for i := range out.Tensors {
		if err := d.check(&out.Tensors[i]); err != nil {
			return nil, err
		}
	}
	for n, p := range order(out) {
		if n%64 == 0 {
			out.Yield()
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		if p.leaf {
			d.addLeaf(&out.Leaves[p.at])
		} else {
			d.addTensor(p.at)
		}
	}
	for _, kv := range out.Metadata {
		d.bp.Dropped = append(d.bp.Dropped, checkpoint.Dropped{
			Path: checkpoint.Keys(kv.Key), What: "metadata", Reason: "a .ckpt file holds no metadata",
		})
	}
	d.finish()
	return &d.bp, nil
}

// draft is a blueprint in the making.
type draft struct {
	out   checkpoint.Output
	slice int64
	names map[string]bool
	bp    checkpoint.Blueprint
	size  int64  // of the segments
	lit   []byte // what follows them
}

// check tells whether a .ckpt file can hold a tensor.
func (d *draft) check(t *checkpoint.Tensor) error {
	var e *diag.Diagnostic
	_, possible := t.DType.Bytes(t.Shape)
	switch {
	case t.DType.MindSpore() == "":
		e = diag.Errorf(diag.Usage, "`%s` is %s, a type that MindSpore does not have", t.Name, t.DType).
			WithHint("cast it, drop it, or write another format")
	case !possible || len(t.Shape) > maxDims:
		e = diag.Errorf(diag.Usage, "`%s` cannot be written: %s of shape %v is not possible", t.Name, t.DType, t.Shape)
	case !isName(t.Name):
		e = diag.Errorf(diag.Usage, "`%s` cannot be written: MindSpore's names are UTF-8 of 1 to %d bytes", t.Name, maxName).
			WithHint("rename it")
	case d.names[t.Name]:
		e = diag.Errorf(diag.Usage, "two tensors are called `%s`", t.Name).WithHint("rename one of them")
	default:
		d.names[t.Name] = true
		return nil
	}
	return e.OfTensor(t.Name)
}

func isName(s string) bool { return s != "" && len(s) <= maxName && utf8.ValidString(s) }

// place is one of the tensors or leaves of an output.
type place struct {
	at   int
	leaf bool
}

// order puts leaves where Seq says they stood among the tensors. Where the
// tensors are not in the order of Seq, theirs counts and leaves come last.
func order(out checkpoint.Output) []place {
	leaves := make([]int, len(out.Leaves))
	for i := range leaves {
		leaves[i] = i
	}
	sort.SliceStable(leaves, func(a, b int) bool { return out.Leaves[leaves[a]].Seq < out.Leaves[leaves[b]].Seq })
	ascending := sort.SliceIsSorted(out.Tensors, func(a, b int) bool { return out.Tensors[a].Seq < out.Tensors[b].Seq })

	places := make([]place, 0, len(out.Tensors)+len(leaves))
	for i := range out.Tensors {
		for ascending && len(leaves) > 0 && out.Leaves[leaves[0]].Seq < out.Tensors[i].Seq {
			places = append(places, place{leaves[0], true})
			leaves = leaves[1:]
		}
		places = append(places, place{i, false})
	}
	for _, l := range leaves {
		places = append(places, place{l, true})
	}
	return places
}

// addTensor lays out the records of one tensor.
func (d *draft) addTensor(i int) {
	t := &d.out.Tensors[i]
	dims := t.Shape
	if len(dims) == 0 && t.Note[noteDims] == "0" {
		dims = []int64{0}
	}
	n, _ := t.DType.Bytes(t.Shape)
	for off := int64(0); ; off += d.slice {
		part := min(n-off, d.slice)
		d.lit = appendHeader(d.lit, t.Name, dims, t.DType.MindSpore(), part)
		if part > 0 {
			d.literal()
			d.bp.Segments = append(d.bp.Segments, checkpoint.Segment{Tensor: i, Off: off, Len: part})
			d.size += part
		}
		if n-off <= d.slice {
			return
		}
	}
}

// literal ends the run of literal bytes.
func (d *draft) literal() {
	if len(d.lit) == 0 {
		return
	}
	d.bp.Segments = append(d.bp.Segments, checkpoint.Segment{Literal: d.lit})
	d.size += int64(len(d.lit))
	d.lit = nil
}

// addLeaf lays out the record of a leaf, or lists it as dropped.
func (d *draft) addLeaf(l *checkpoint.Leaf) {
	tag := l.Path.Label()
	kind, content, reason := leafContent(l)
	dims := []int64(nil)
	if kind == kindText {
		dims = []int64{0}
	}
	switch {
	case reason != "":
	case len(content) > maxText:
		reason = "the string is too long"
	case !isName(tag):
		reason = "its name cannot be written"
	case d.names[tag]:
		reason = "another entry is called `" + tag + "`"
	default:
		d.names[tag] = true
		d.lit = append(appendHeader(d.lit, tag, dims, kind, int64(len(content))), content...)
		return
	}
	d.bp.Dropped = append(d.bp.Dropped, checkpoint.Dropped{Path: l.Path, What: "leaf", Reason: reason})
}

// leafContent gives the tensor_type and content of a leaf as MindSpore's
// save_checkpoint would for an entry of append_dict, or the reason why there
// is none.
func leafContent(l *checkpoint.Leaf) (kind string, content []byte, reason string) {
	le := binary.LittleEndian
	switch v := l.Value; v.Kind {
	case checkpoint.Boolean:
		if v.Bool {
			return dtype.Bool.MindSpore(), []byte{1}, ""
		}
		return dtype.Bool.MindSpore(), []byte{0}, ""
	case checkpoint.Integer:
		if v.Big != "" {
			return "", nil, "the integer does not fit in 64 bits"
		}
		return dtype.I64.MindSpore(), le.AppendUint64(nil, uint64(v.Int)), ""
	case checkpoint.Float:
		if f := float32(v.Float); float64(f) == v.Float || math.IsNaN(v.Float) {
			return dtype.F32.MindSpore(), le.AppendUint32(nil, math.Float32bits(f)), ""
		}
		return dtype.F64.MindSpore(), le.AppendUint64(nil, math.Float64bits(v.Float)), ""
	case checkpoint.Text:
		if l.Type == kindText && utf8.ValidString(v.Text) {
			return kindText, appendUTF32(nil, v.Text), ""
		}
	case checkpoint.Sized:
		return "", nil, "a .ckpt file holds no containers, only what is in them"
	}
	return "", nil, "a .ckpt file holds no values of type `" + l.Type + "`"
}

// appendUTF32 appends a string as numpy keeps it: the empty one as one zero.
func appendUTF32(b []byte, s string) []byte {
	if s == "" {
		return append(b, 0, 0, 0, 0)
	}
	for _, r := range s {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return b
}

// finish ends the file, with the trailer where one is wanted.
func (d *draft) finish() {
	if !d.out.Trailer {
		d.literal()
		return
	}
	over := d.size + int64(len(d.lit))
	d.lit = append(d.lit, trailerTag...)
	d.lit = append(d.lit, make([]byte, checkpoint.BigEndian80.Width())...)
	d.literal()
	d.bp.Holes = append(d.bp.Holes, checkpoint.Hole{
		Algorithm: checkpoint.CRC32,
		Encoding:  checkpoint.BigEndian80,
		At:        over + int64(len(trailerTag)),
		Over:      storage.Range{Len: over},
	})
}
