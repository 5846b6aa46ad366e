package plan

import (
	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
)

// Need is one piece that a target rank needs: a box of a tensor, held by a
// source rank.
type Need struct {
	Item   int // of the target rank's group
	Rank   int // of the source
	Entry  *checkpoint.Entry
	Part   box.Box // in the tensor
	Holder box.Box // what the source rank holds of it
	Bytes  int64   // of the part, in the source's type
}

// Needs calls f with every piece of a target rank, in the order of its file.
// The boxes are only valid during the call.
func (p *Plan) Needs(g *Group, rank int, f func(Need) bool) {
	for i, it := range g.Items {
		if i%64 == 0 {
			p.Yield()
		}
		t := &p.Tensors[it.Tensor]
		s := &p.Source.Tensors[t.Source]
		l := s.Places[it.From].Layout
		stop := false
		b := it.Layout.Box(t.Shape, rank%p.Devices)
		l.Overlap(t.Shape, b, func(block []int, part box.Box) bool {
			r, e := p.Holder(s, it.From, block, p.Selector(rank))
			if e == nil {
				return true // coverage has proved that no rank needs it
			}
			n := part.Elements() * s.DType.Bits() / 8
			stop = !f(Need{Item: i, Rank: r, Entry: e, Part: part, Holder: l.BlockBox(t.Shape, block), Bytes: n})
			return !stop
		})
		if stop {
			return
		}
	}
}

// Span is the byte range of the source file from the first to the last byte of
// a piece; ok is false where the bytes are packed, inline, or in several
// extents.
func (n Need) Span(s *checkpoint.Global) (file int, off, length int64, ok bool) {
	d := &n.Entry.Data
	if len(d.Extents) != 1 || d.Codec != checkpoint.Plain || d.Strides != nil || n.Bytes == 0 {
		return 0, 0, 0, false
	}
	in := n.Part.In(n.Holder)
	first := in.Index(n.Holder.Ext)
	last := in.Clone()
	for i := range last.Off {
		last.Off[i] += last.Ext[i] - 1
	}
	end := last.Index(n.Holder.Ext) + 1
	size := s.DType.Bits()
	x := d.Extents[0]
	return x.File, x.Off + first*size/8, (end - first) * size / 8, true
}

// markSome notes the blocks of a source tensor that some target ranks read, with
// their sizes by the first rank that holds each, and the source ranks that they
// are read from.
func (m *maker) markSome(s *checkpoint.Global, it Item, ranks []int, read map[int]bool, blocks map[int]int64) {
	type want struct {
		box      string
		selector int
	}
	l := s.Places[it.From].Layout
	seen := map[want]bool{}
	for _, r := range ranks {
		b := it.Layout.Box(s.Shape, r%m.Devices)
		w := want{b.String(), m.Selector(r)}
		if seen[w] {
			continue
		}
		seen[w] = true
		l.Overlap(s.Shape, b, func(block []int, _ box.Box) bool {
			blocks[l.Rank(block, 0)] = l.BlockBox(s.Shape, block).Elements() * s.DType.Bits() / 8
			if h, e := m.Holder(s, it.From, block, w.selector); e != nil {
				read[h] = true
			}
			return true
		})
	}
}
