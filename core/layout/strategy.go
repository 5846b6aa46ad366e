package layout

import (
	"sort"

	"github.com/seed-e934e81e/convert/core/diag"
)

// Param is where one parameter lies in one stage.
type Param struct {
	Name   string
	Stage  int
	Layout *Layout

	// Shape is the global shape where the strategy records it, else nil. Where
	// it has more dims than the tensor, two mesh axes cut one dim and the file
	// shows the dim expanded (MindSpore's JSON); see Regroup.
	Shape []int64

	// Field is MindSpore's field size of a field-sliced table, 0 for none.
	Field int64

	// OptUnknown: the file does not say whether the optimizer shard applies to
	// the stored tensor; the shapes decide.
	OptUnknown bool
}

// Strategy is how all parameters of a run lie on its ranks. Stage s owns the
// ranks s·Devices to (s+1)·Devices−1. It is immutable once made.
type Strategy struct {
	Stages  int
	Devices int // ranks of each stage
	Params  []Param

	byName map[string][]int
}

// MaxStages bounds the pipeline stages of a strategy; real ones have tens.
const MaxStages = 4096

// NewStrategy makes a strategy of stages with an equal number of devices. A
// parameter may stand once in each stage.
func NewStrategy(stages, devices int, params []Param) (*Strategy, error) {
	if stages > MaxStages {
		return nil, diag.Errorf(diag.Usage, "a strategy of %d stages is not possible; at most %d are", stages, MaxStages)
	}
	s := &Strategy{Stages: stages, Devices: devices, Params: params, byName: make(map[string][]int, len(params))}
	for i, p := range params {
		if p.Stage < 0 || p.Stage >= stages {
			return nil, diag.Errorf(diag.Damaged, "strategy puts the parameter in stage %d of %d", p.Stage, stages).OfTensor(p.Name)
		}
		if n := p.Layout.Ranks(); n != devices {
			return nil, diag.Errorf(diag.Damaged, "strategy gives `%s` a device matrix of %d ranks, the stage has %d", p.Name, n, devices).OfTensor(p.Name)
		}
		at := s.byName[p.Name]
		for _, j := range at {
			if params[j].Stage == p.Stage {
				return nil, diag.Errorf(diag.Damaged, "strategy names `%s` twice in stage %d", p.Name, p.Stage).OfTensor(p.Name)
			}
		}
		at = append(at, i)
		sort.Slice(at, func(a, b int) bool { return params[at[a]].Stage < params[at[b]].Stage })
		s.byName[p.Name] = at
	}
	return s, nil
}

// Ranks is the number of ranks of all stages.
func (s *Strategy) Ranks() int { return s.Stages * s.Devices }

// Has reports whether the strategy names a parameter.
func (s *Strategy) Has(name string) bool { return len(s.byName[name]) > 0 }

// Find gives the places of a parameter, the lowest stage first.
func (s *Strategy) Find(name string) []*Param {
	at := s.byName[name]
	out := make([]*Param, len(at))
	for i, j := range at {
		out[i] = &s.Params[j]
	}
	return out
}

// InStage gives the place of a parameter in one stage, or nil.
func (s *Strategy) InStage(name string, stage int) *Param {
	for _, j := range s.byName[name] {
		if s.Params[j].Stage == stage {
			return &s.Params[j]
		}
	}
	return nil
}
