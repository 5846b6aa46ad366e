package plan

import (
	"github.com/seed-e934e81e/convert/core/checkpoint"
)

// totals adds up what a run will read and write.
func (m *maker) totals() {
	t := &m.Totals
	uses := map[int][]int{} // tensor → groups
	for gi := range m.Groups {
		g := &m.Groups[gi]
		l := m.blueprints[gi]
		t.TargetFiles += len(g.Ranks)
		t.WriteBytes += l.Size * int64(len(g.Ranks))
		t.LargestHeader = max(t.LargestHeader, l.Literals)
		for ii, it := range g.Items {
			if ii%64 == 0 {
				m.Yield()
			}
			uses[it.Tensor] = append(uses[it.Tensor], gi)
		}
	}
	for _, x := range m.Extra {
		t.WriteBytes += int64(len(x.Bytes))
	}
	read := map[int]bool{} // source ranks
	layouts := map[string]bool{}
	for ti := range m.Tensors {
		if len(uses[ti]) == 0 {
			continue
		}
		m.total(ti, uses[ti], read, layouts)
	}
	for r := range read {
		if x := m.Source.Rank(r); x != nil {
			t.SourceFiles += len(x.Files)
			for _, f := range x.Files {
				t.SourceBytes += f.Size
			}
		}
	}
}

func (m *maker) total(ti int, groups []int, read map[int]bool, layouts map[string]bool) {
	t := &m.Totals
	x := &m.Tensors[ti]
	s := &m.Source.Tensors[x.Source]
	t.Tensors++
	out, _ := x.DType.Bytes(x.Shape)
	t.Payload += out
	if x.DType != s.DType {
		t.CastTensors++
	}
	bytes := s.Bytes()
	from := s.Places[0].Layout
	blocks := from.Blocks()
	n := 0
	for _, gi := range groups {
		g := &m.Groups[gi]
		for _, it := range g.Items {
			if it.Tensor != ti || n == blocks {
				continue
			}
			if len(g.Ranks) == m.Devices {
				n = blocks
				m.markHolders(s, it.From, read, layouts)
				break
			}
			k, _ := m.distinctBlocks(s, it, g.Ranks, m.Devices)
			n = max(n, k)
			m.markSome(s, it, g.Ranks, read)
		}
	}
	t.ReadBytes += bytes / int64(blocks) * int64(n)
	copies := 0
	for _, pl := range s.Places {
		copies += pl.Layout.Replicas()
	}
	more := bytes * int64(copies-1)
	if copies > 1 && m.Source.Stages*m.Source.Devices > len(m.Source.Ranks) {
		// Some ranks have no file: count the copies that are there.
		have := 0
		for i := range m.Source.Ranks {
			if m.Source.Ranks[i].Header.Find(s.Name) != nil {
				have++
			}
		}
		more = bytes / int64(blocks) * int64(max(have-blocks, 0))
	}
	if m.Compared(s) {
		t.CompareBytes += more
	} else {
		t.Uncompared += more
	}
}

// markHolders notes the source ranks that are read for a whole tensor; tensors
// of one layout are read from the same ranks.
func (m *maker) markHolders(s *checkpoint.Global, place int, read map[int]bool, layouts map[string]bool) {
	pl := s.Places[place]
	simple := m.stages[pl.Stage].ranks == m.Source.Devices && len(m.stages[pl.Stage].headers) == 1
	key := string(rune(pl.Stage)) + pl.Layout.Key()
	if simple && layouts[key] {
		return
	}
	layouts[key] = simple
	eachBlock(pl.Layout.Counts(), func(b []int) {
		if r, e := m.Holder(s, place, b, AnyRank); e != nil {
			read[r] = true
		}
	})
}

func eachBlock(counts []int, f func(b []int)) {
	b := make([]int, len(counts))
	for {
		f(b)
		i := len(b) - 1
		for ; i >= 0; i-- {
			if b[i]++; b[i] < counts[i] {
				break
			}
			b[i] = 0
		}
		if i < 0 {
			return
		}
	}
}
