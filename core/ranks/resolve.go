package ranks

import (
	"slices"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
)

// resolve gives the layout by which a part is really stored. In two cases the
// strategy file does not say it (facts 7.2): gradients in accumulation carry
// an optimizer shard that the tensor does not have, and the factored states of
// AdaFactor and CAME have one that is not recorded. The shapes decide, held
// against those of the weight.
func (j *joiner) resolve(p *layout.Param, e *checkpoint.Entry, g *group) (*layout.Layout, error) {
	l := p.Layout
	if l.NDim() > len(e.Shape) && len(p.Shape) == l.NDim() {
		var ok bool
		if l, ok = layout.Regroup(l, p.Shape, e.Shape); !ok {
			return nil, diag.Errorf(diag.Damaged, "strategy shows `%s` with shape %v, which does not make a part of shape %v", p.Name, p.Shape, e.Shape).
				InFile(j.file(g)).OfTensor(p.Name)
		}
		return l, nil
	}
	if p.OptUnknown {
		l = j.byWeight(p, e, g)
	}
	if p.Shape != nil && len(p.Shape) == len(e.Shape) {
		if got, ok := l.Global(e.Shape); ok && !slices.Equal(got, p.Shape) {
			return nil, diag.Errorf(diag.Damaged, "tensor `%s` has a part of shape %v, which makes %v; the strategy says %v", p.Name, e.Shape, got, p.Shape).
				InFile(j.file(g)).OfRank(j.Ranks[g.ranks[0]].ID).OfTensor(p.Name)
		}
	}
	return l, nil
}

// byWeight chooses the optimizer shard of a state so that its global shape is
// the one that follows from its weight; the recorded layout stays where the
// weight is not to be found.
func (j *joiner) byWeight(p *layout.Param, e *checkpoint.Entry, g *group) *layout.Layout {
	prefix, weight, ok := strings.Cut(p.Name, ".")
	if !ok {
		return p.Layout
	}
	we := g.header.Find(weight)
	wp := j.Strategy.InStage(weight, g.stage)
	if we == nil || wp == nil {
		return p.Layout
	}
	want, ok := wp.Layout.Global(we.Shape)
	if !ok {
		return p.Layout
	}
	want, ok = stateShape(prefix, want)
	if !ok {
		return p.Layout
	}
	try := []*layout.Layout{p.Layout, p.Layout.WithoutOpt()}
	if p.Layout.NDim() > 0 {
		if with, err := p.Layout.WithOpt(wp.Layout.Opt()); err == nil {
			try = append(try, with)
		}
	}
	for _, l := range try {
		if got, ok := l.Global(e.Shape); ok && slices.Equal(got, want) {
			return l
		}
	}
	return p.Layout
}

// stateShape is the shape of an optimizer state of a weight.
func stateShape(prefix string, w []int64) ([]int64, bool) {
	n := len(w)
	switch prefix {
	case "accu_grads":
		return w, true
	case "exp_avg_sq_row", "exp_avg_insta_row":
		if n < 2 {
			return nil, false
		}
		return w[:n-1], true
	case "exp_avg_sq_col", "exp_avg_insta_col":
		if n < 2 {
			return nil, false
		}
		return append(slices.Clone(w[:n-2]), w[n-1]), true
	case "exp_avg_sq", "exp_avg":
		return w, true
	}
	return nil, false
}
