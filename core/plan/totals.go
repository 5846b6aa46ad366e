package plan

import (
	"github.com/seed-e934e81e/convert/core/checkpoint"
)

// totals adds up what a run will read and write.
func (m *maker) totals() {
	t := &m.Totals
	for gi := range m.Groups {
		g := &m.Groups[gi]
		l := m.blueprints[gi]
		t.TargetFiles += len(g.Ranks)
		t.WriteBytes += l.Size * int64(len(g.Ranks))
		t.LargestHeader = max(t.LargestHeader, l.Literals)
	}
	for _, x := range m.Extra {
		t.WriteBytes += int64(len(x.Bytes))
	}
	uses := m.uses()
	read := map[int]bool{} // source ranks
	layouts := map[holding]bool{}
	for ti := range m.Tensors {
		if ti%64 == 0 {
			m.Yield()
		}
		if len(uses[ti]) > 0 {
			m.total(ti, uses[ti], read, layouts)
		}
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

// itemOf is a tensor in the files of a group.
type itemOf struct {
	group *Group
	item  Item
}

// uses lists for each tensor the groups that hold it.
func (m *maker) uses() [][]itemOf {
	out := make([][]itemOf, len(m.Tensors))
	for gi := range m.Groups {
		for i, it := range m.Groups[gi].Items {
			if i%64 == 0 {
				m.Yield()
			}
			out[it.Tensor] = append(out[it.Tensor], itemOf{&m.Groups[gi], it})
		}
	}
	return out
}

func (m *maker) total(ti int, uses []itemOf, read map[int]bool, layouts map[holding]bool) {
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
	blocks := s.Places[0].Layout.Blocks()
	n := m.blocksRead(s, uses, blocks, read, layouts)
	t.ReadBytes += bytes / int64(blocks) * int64(n)
	more, others := m.copies(s, bytes, blocks, n)
	t.Uncompared += others
	if m.Compared(s) {
		t.CompareBytes += more
	} else {
		t.Uncompared += more
	}
}

// blocksRead is the number of blocks of a source tensor that are read, and
// notes the source ranks that hold them.
func (m *maker) blocksRead(s *checkpoint.Global, uses []itemOf, blocks int, read map[int]bool, layouts map[holding]bool) int {
	some := map[int]bool{}
	for _, u := range uses {
		if len(u.group.Ranks) == m.Devices {
			m.markHolders(s, u.item.From, read, layouts)
			return blocks
		}
		m.markSome(s, u.item, u.group.Ranks, read, some)
	}
	return len(some)
}

// copies is the bytes of further copies of what is read of a tensor: those in
// the same layout, which can be compared, and those that stages with another
// layout hold.
func (m *maker) copies(s *checkpoint.Global, bytes int64, blocks, n int) (same, others int64) {
	for i := range s.Places {
		pl := &s.Places[i]
		have := int64(m.holders(s, pl.Stage))
		if i == 0 || pl.Layout.Equal(s.Places[0].Layout) {
			same += bytes / int64(blocks) * have
		} else {
			others += bytes / int64(pl.Layout.Blocks()) * have
		}
	}
	same = max(same-bytes, 0)
	if n < blocks {
		same = same / int64(blocks) * int64(n)
	}
	return same, others
}

// holding is the ranks of a stage that hold the parts of a layout.
type holding struct {
	stage  int
	layout string
}

// markHolders notes the source ranks that are read for a whole tensor; tensors
// of one layout are read from the same ranks.
func (m *maker) markHolders(s *checkpoint.Global, place int, read map[int]bool, layouts map[holding]bool) {
	pl := s.Places[place]
	key := holding{pl.Stage, pl.Layout.Key()}
	if m.everywhere(s, place) {
		if layouts[key] {
			return
		}
		layouts[key] = true
	}
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
