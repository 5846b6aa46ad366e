package plan

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
)

// Run is a run of a tensor's bytes in a target file.
type Run struct {
	Off  int64 // in the row-major bytes of the part
	At   int64 // in the file
	Len  int64
	Lead []byte // literal bytes right before it, written along with it
}

// Literal is bytes that are written on their own.
type Literal struct {
	At    int64
	Bytes []byte
}

// Laid is one target file, laid out.
type Laid struct {
	Size     int64
	Payload  [][]Run // by item of the group
	Loose    []Literal
	Holes    []checkpoint.Hole
	Literals int64 // bytes that are not payload
	Dropped  []checkpoint.Dropped
	Tensors  []checkpoint.Tensor
}

type laid = Laid

// Lay lays out the file of a target rank. Files of a group whose parts have
// equal shapes share one answer.
func (p *Plan) Lay(ctx context.Context, group, rank int) (*Laid, error) {
	g := &p.Groups[group]
	even := !slices.ContainsFunc(g.Items, func(it Item) bool { return !it.Layout.Even() })
	if even && p.blueprints[group] != nil {
		return p.blueprints[group], nil
	}
	return p.lay(ctx, g, rank)
}

func (p *Plan) lay(ctx context.Context, g *Group, rank int) (*Laid, error) {
	out := checkpoint.Output{Leaves: g.Leaves, Metadata: g.Meta, From: p.Source.Format, Trailer: p.Trailer, Yield: p.Yield}
	for _, it := range g.Items {
		t := &p.Tensors[it.Tensor]
		shape := it.Layout.Box(t.Shape, rank%p.Devices).Ext
		out.Tensors = append(out.Tensors, checkpoint.Tensor{Name: t.Name, Path: t.Path, DType: t.DType, Shape: shape, Note: t.Note, Seq: t.Seq})
	}
	b, err := p.Format.Blueprint(ctx, out)
	if err != nil {
		return nil, err
	}
	if err := b.Validate(out); err != nil {
		return nil, diag.Errorf(diag.Failed, "internal error: the %s format laid out a wrong file", p.Format.Describe().Name).Wrap(err)
	}
	return arrange(b, out), nil
}

// maxLead bounds the literal bytes that are written along with a payload: they
// take part in its buffer. A header of a thousand tensors is far below it.
const maxLead = 1 << 20

// arrange finds where each payload goes, and which literal bytes can be
// written together with one.
func arrange(b *checkpoint.Blueprint, out checkpoint.Output) *Laid {
	l := &Laid{Size: b.Size(), Payload: make([][]Run, len(out.Tensors)), Holes: b.Holes, Dropped: b.Dropped, Tensors: out.Tensors}
	holes := slices.Clone(b.Holes)
	sort.Slice(holes, func(i, j int) bool { return holes[i].At < holes[j].At })
	var at, from int64
	var lead []byte
	flush := func() {
		if len(lead) > 0 {
			l.Loose = append(l.Loose, Literal{At: from, Bytes: lead})
		}
		lead = nil
	}
	for _, s := range b.Segments {
		if s.Len == 0 {
			if len(lead) == 0 {
				from = at
			}
			lead = append(lead, s.Literal...)
			l.Literals += int64(len(s.Literal))
			at += int64(len(s.Literal))
			continue
		}
		i := sort.Search(len(holes), func(i int) bool { return holes[i].At >= from })
		if patched := i < len(holes) && holes[i].At < at; patched || len(lead) > maxLead {
			flush()
		}
		l.Payload[s.Tensor] = append(l.Payload[s.Tensor], Run{Off: s.Off, At: at, Len: s.Len, Lead: lead})
		lead = nil
		at += s.Len
	}
	flush()
	return l
}

// blueprintAll lays out one file of each group, which gives the sizes, and
// lists what the format cannot hold.
func (m *maker) blueprintAll() error {
	m.blueprints = make([]*laid, len(m.Groups))
	m.written = make([]int64, len(m.Groups))
	seen := map[string]bool{}
	for i := range m.Groups {
		l, err := m.lay(m.ctx, &m.Groups[i], m.Groups[i].Ranks[0])
		if err != nil {
			return err
		}
		if empty := len(l.Tensors) == 0 && leavesOf(l) >= len(m.Groups[i].Leaves); empty && (len(m.Source.Tensors) > 0 || l.Size == 0) {
			return diag.Errorf(diag.Usage, "nothing is left to write: `%s` would be empty", m.FileName(&m.Groups[i], m.Groups[i].Ranks[0])).WithHint("look at the rules of `[[map]]` that drop tensors")
		}
		m.blueprints[i] = l
		if m.written[i], err = m.sizes(i); err != nil {
			return err
		}
		for _, d := range l.Dropped {
			if d.What == "metadata" && d.Path.Label() == "format" {
				continue // says of which framework the file is; each format has its own way
			}
			k := d.What + "\x00" + d.Path.Label()
			if !seen[k] {
				seen[k] = true
				m.Dropped = append(m.Dropped, Dropped{Name: d.Path.Label(), Kind: d.What, Reason: d.Reason})
			}
		}
	}
	return nil
}

// sizes is the bytes of all files of a group, which are of several sizes where
// parts are uneven.
func (m *maker) sizes(group int) (int64, error) {
	g := &m.Groups[group]
	var uneven []Item
	for _, it := range g.Items {
		if !it.Layout.Even() {
			uneven = append(uneven, it)
		}
	}
	if len(uneven) == 0 {
		return m.blueprints[group].Size * int64(len(g.Ranks)), nil
	}
	total := int64(0)
	known := map[string]int64{}
	for _, r := range g.Ranks {
		var key strings.Builder
		for _, it := range uneven {
			fmt.Fprint(&key, it.Layout.Box(m.Tensors[it.Tensor].Shape, r%m.Devices).Ext)
		}
		size, ok := known[key.String()]
		if !ok {
			l, err := m.lay(m.ctx, g, r)
			if err != nil {
				return 0, err
			}
			size = l.Size
			known[key.String()] = size
		}
		total += size
	}
	return total, nil
}

// leavesOf is the number of leaves that a format has dropped.
func leavesOf(l *laid) int {
	n := 0
	for _, d := range l.Dropped {
		if d.What == "leaf" {
			n++
		}
	}
	return n
}

// FileName is the name of a target rank's file, relative to the target's root.
func (p *Plan) FileName(g *Group, rank int) string {
	if !p.Folder {
		return g.File
	}
	return fmt.Sprintf("rank_%d/%s%d%s", rank, p.Prefix, rank, p.Format.Describe().Extensions[0])
}

// FileSize is the size of a file of a group; of the first rank's where the
// parts of the ranks differ in shape.
func (p *Plan) FileSize(group int) int64 { return p.blueprints[group].Size }

// Group is the group that holds a target rank, or nil. Where a checkpoint is
// split into several files it is the first.
func (p *Plan) Group(rank int) *Group {
	for i := range p.Groups {
		if _, ok := slices.BinarySearch(p.Groups[i].Ranks, rank); ok {
			return &p.Groups[i]
		}
	}
	return nil
}
