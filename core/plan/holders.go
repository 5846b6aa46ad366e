package plan

import (
	"fmt"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
)

// AnyRank is the selector of a job that takes copies to be equal.
const AnyRank = -1

// Selector tells apart target ranks that read different copies: with
// MindSpore's rule target rank r reads those of rank r mod the ranks of a
// source stage, otherwise all read the same.
func (p *Plan) Selector(target int) int {
	if p.Replicas == ByRank {
		return target % p.Source.Devices
	}
	return AnyRank
}

// Holder is the source rank that is read for a block of a tensor at a place,
// and its entry; nil if no rank has it.
func (p *Plan) Holder(s *checkpoint.Global, place int, block []int, selector int) (int, *checkpoint.Entry) {
	l := s.Places[place].Layout
	base := s.Places[place].Stage * p.Source.Devices
	if selector != AnyRank {
		tmp := make([]int, l.NDim())
		r := base + l.Rank(block, l.Block(selector, tmp))
		if e := p.Source.Entry(r, s.Name); e != nil {
			return r, e
		}
	}
	for i := range s.Places {
		pl := &s.Places[(place+i)%len(s.Places)]
		if i > 0 && !pl.Layout.Equal(l) {
			continue
		}
		base := pl.Stage * p.Source.Devices
		for c := range pl.Layout.Replicas() {
			r := base + pl.Layout.Rank(block, c)
			if e := p.Source.Entry(r, s.Name); e != nil {
				return r, e
			}
		}
	}
	return 0, nil
}

// Copies calls f with every further rank that holds the block which rank first
// holds, in ascending order.
func (p *Plan) Copies(s *checkpoint.Global, block []int, first int, f func(rank int, e *checkpoint.Entry) bool) {
	for i := range s.Places {
		pl := &s.Places[i]
		if i > 0 && !pl.Layout.Equal(s.Places[0].Layout) {
			continue
		}
		for c := range pl.Layout.Replicas() {
			r := pl.Stage*p.Source.Devices + pl.Layout.Rank(block, c)
			if r == first {
				continue
			}
			if e := p.Source.Entry(r, s.Name); e != nil && !f(r, e) {
				return
			}
		}
	}
}

// Compared reports whether the copies of a tensor are compared.
func (p *Plan) Compared(s *checkpoint.Global) bool {
	if p.Replicas == ByRank || p.Source.PerRank {
		return false
	}
	switch p.Compare {
	case CompareAll:
		return true
	case CompareNone:
		return false
	}
	return !s.Named || s.Bytes()/int64(s.Places[0].Layout.Blocks()) <= SmallCopy
}

// coverage proves that some source rank holds every block that a target rank
// needs, and names the first gap.
func (m *maker) coverage() error {
	uses := m.uses()
	var gaps diag.List
	missing := map[int]bool{}
	for t := range m.Tensors {
		if t%64 == 0 {
			m.Yield()
			if err := m.ctx.Err(); err != nil {
				return err
			}
		}
		if len(uses[t]) == 0 {
			continue
		}
		s := &m.Source.Tensors[m.Tensors[t].Source]
		for _, u := range uses[t] {
			if m.everywhere(s, u.item.From) {
				continue
			}
			if d := m.gap(s, u.item, u.group, missing); d != nil {
				gaps = append(gaps, d)
				break
			}
		}
		if len(gaps) >= 20 {
			break
		}
	}
	return gaps.Err()
}

// everywhere reports whether all ranks of a place's stage hold s.
func (m *maker) everywhere(s *checkpoint.Global, place int) bool {
	return m.holders(s, s.Places[place].Stage) == m.Source.Devices
}

// gap finds a block of s that a rank of the group needs and no rank holds.
// Source ranks that were reported before are passed over.
func (m *maker) gap(s *checkpoint.Global, it Item, g *Group, reported map[int]bool) *diag.Diagnostic {
	l := s.Places[it.From].Layout
	var found *diag.Diagnostic
	look := func(block []int, target int) bool {
		if _, e := m.Holder(s, it.From, block, AnyRank); e != nil {
			return true
		}
		rank := s.Places[it.From].Stage*m.Source.Devices + l.Rank(block, 0)
		if !reported[rank] {
			reported[rank] = true
			found = m.gapError(s, rank, target, l.Replicas())
		}
		return false
	}
	if len(g.Ranks) == m.Devices { // all blocks are needed
		eachBlock(l.Counts(), func(block []int) {
			if found != nil {
				return
			}
			it.Layout.Overlap(s.Shape, l.BlockBox(s.Shape, block), func(b []int, _ box.Box) bool {
				look(block, g.Stage*m.Devices+it.Layout.Rank(b, 0))
				return false
			})
		})
		return found
	}
	seen := map[string]bool{}
	for _, r := range g.Ranks {
		b := it.Layout.Box(s.Shape, r%m.Devices)
		key := b.String()
		if seen[key] {
			continue
		}
		seen[key] = true
		l.Overlap(s.Shape, b, func(block []int, _ box.Box) bool { return look(block, r) })
		if found != nil {
			return found
		}
	}
	return nil
}

func (m *maker) gapError(s *checkpoint.Global, rank, target, copies int) *diag.Diagnostic {
	what := fmt.Sprintf("source rank %d has no file, and target rank %d needs its part of `%s`", rank, target, s.Name)
	if r := m.Source.Rank(rank); r != nil {
		what = fmt.Sprintf("the file of source rank %d lacks `%s`, which target rank %d needs", rank, s.Name, target)
	}
	d := diag.Errorf(diag.Damaged, "%s", what).OfRank(rank).OfTensor(s.Name)
	if r := m.Source.Rank(rank); r != nil {
		d.InFile(r.Files[0].Name)
	} else if last := m.Source.Ranks[len(m.Source.Ranks)-1].ID; rank > last {
		return d.WithHint("the source's strategy has %s, its files end with rank %d: files are missing, or the strategy is of another run", count(m.Source.Stages*m.Source.Devices, "rank"), last)
	}
	if copies > 1 {
		what := "its copies on other ranks are missing too"
		return d.WithHint("%s; copy the rank's file from where the run was saved", what)
	}
	return d.WithHint("no other rank holds that part; copy the rank's file from where the run was saved")
}
