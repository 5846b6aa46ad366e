package plan

import (
	"slices"

	"github.com/seed-e934e81e/convert/core/checkpoint"
)

// stageHeaders is the distinct headers of the ranks of a source stage, that of
// the highest rank first.
type stageHeaders struct {
	headers []*checkpoint.Header
	ranks   int     // that have a file
	holders []int32 // by source tensor, the ranks whose files have it; nil with PerRank
}

func (m *maker) surveyStages() {
	c := m.Source
	m.stages = make([]stageHeaders, c.Stages)
	ranks := map[*checkpoint.Header]int32{}
	for i := len(c.Ranks) - 1; i >= 0; i-- {
		s, h := &m.stages[c.Ranks[i].ID/c.Devices], c.Ranks[i].Header
		s.ranks++
		if ranks[h]++; !slices.Contains(s.headers, h) {
			s.headers = append(s.headers, h)
		}
		if i > 0 && c.Ranks[i-1].ID/c.Devices == c.Ranks[i].ID/c.Devices {
			continue
		}
		if !c.PerRank {
			m.countHolders(s, ranks)
		}
		clear(ranks)
	}
}

// countHolders counts for each tensor the ranks of a stage that have it.
func (m *maker) countHolders(s *stageHeaders, ranks map[*checkpoint.Header]int32) {
	s.holders = make([]int32, len(m.Source.Tensors))
	for _, h := range s.headers {
		for i := range h.Index.Entries {
			if i%64 == 0 {
				m.Yield()
			}
			s.holders[m.indexOf[0][h.Index.Entries[i].Name]] += ranks[h]
		}
	}
}

// holders is the number of ranks of a stage whose files have a tensor.
func (m *maker) holders(s *checkpoint.Global, stage int) int {
	if m.Source.PerRank {
		return 1
	}
	return int(m.stages[stage].holders[m.indexOf[0][s.Name]])
}

// indexNames finds source tensors by name: one map, or with PerRank one for
// each stage.
func indexNames(c *checkpoint.Checkpoint) []map[string]int {
	n := 1
	if c.PerRank {
		n = c.Stages
	}
	out := make([]map[string]int, n)
	for i := range out {
		out[i] = map[string]int{}
	}
	for i := range c.Tensors {
		s := 0
		if c.PerRank {
			s = c.Tensors[i].Places[0].Stage
		}
		out[s][c.Tensors[i].Name] = i
	}
	return out
}

// neededStages is the source stages that hold any parameter which the target's
// strategy puts into a stage, ascending: MindSpore reads the files of those
// (facts 8.2). Without strategies it is all.
func (m *maker) neededStages(target int) []int {
	if m.Source.PerRank {
		return []int{target}
	}
	all := make([]int, m.Source.Stages)
	for i := range all {
		all[i] = i
	}
	if m.strat == nil || m.Source.Stages == 1 {
		return all
	}
	need := make([]bool, m.Source.Stages)
	for i := range m.Source.Tensors {
		t := m.target[i]
		if t < 0 || m.strat.InStage(m.Tensors[t].Name, target) == nil {
			continue
		}
		for _, pl := range m.Source.Tensors[i].Places {
			need[pl.Stage] = true
		}
	}
	out := slices.DeleteFunc(all, func(s int) bool { return !need[s] })
	if len(out) == 0 {
		return []int{0}
	}
	return out
}

// order lists the source tensors that stages hold, in MindSpore's order: names
// as first seen in the files of the needed ranks, the highest rank first.
func (m *maker) order(stages []int) []int {
	seen := map[int]bool{}
	var out []int
	for k := len(stages) - 1; k >= 0; k-- {
		s := stages[k]
		names := m.indexOf[0]
		if m.Source.PerRank {
			names = m.indexOf[s]
		}
		for _, h := range m.stages[s].headers {
			for i := range h.Index.Entries {
				if i%64 == 0 {
					m.Yield()
				}
				j := names[h.Index.Entries[i].Name]
				if !seen[j] {
					seen[j] = true
					out = append(out, j)
				}
			}
		}
	}
	return out
}

// placeIn is the place from which a tensor is read: the lowest stage that
// holds it. With MindSpore's rule for copies that differ, only the stages that
// MindSpore would read count.
func (m *maker) placeIn(s *checkpoint.Global, stages []int) int {
	if m.Replicas == ByRank {
		for i, pl := range s.Places {
			if slices.Contains(stages, pl.Stage) {
				return i
			}
		}
	}
	return 0
}
