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
		t.WriteBytes += m.written[gi]
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
	n := m.bytesRead(s, uses, read, layouts)
	t.ReadBytes += n
	more, others := m.copies(s, bytes, n)
	t.Uncompared += others
	if m.Compared(s) {
		t.CompareBytes += more
	} else {
		t.Uncompared += more
	}
}

// bytesRead is the size of all blocks of a source tensor that are read, and
// notes the source ranks that hold them.
func (m *maker) bytesRead(s *checkpoint.Global, uses []itemOf, read map[int]bool, layouts map[holding]bool) int64 {
	some := map[int]int64{}
	for _, u := range uses {
		if len(u.group.Ranks) == m.Devices {
			m.markHolders(s, u.item.From, read, layouts)
			return s.Bytes()
		}
		m.markSome(s, u.item, u.group.Ranks, read, some)
	}
	n := int64(0)
	for _, b := range some {
		n += b
	}
	return n
}

// copies is the bytes of further copies of the n bytes that are read of a
// tensor: those in the same layout, which can be compared, and those that
// stages with another layout hold.
func (m *maker) copies(s *checkpoint.Global, bytes, n int64) (same, others int64) {
	for i := range s.Places {
		pl := &s.Places[i]
		have, blocks := int64(m.holders(s, pl.Stage)), int64(pl.Layout.Blocks())
		held := bytes/blocks*have + bytes%blocks*have/blocks
		if i == 0 || pl.Layout.Equal(s.Places[0].Layout) {
			same += held
		} else {
			others += held
		}
	}
	same = max(same-bytes, 0)
	if n < bytes {
		same = int64(float64(same) * float64(n) / float64(bytes))
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
