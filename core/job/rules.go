package job

import (
	"fmt"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mesh"
)

// Rules is a declared mesh with its layouts: what stands in for a strategy
// file.
type Rules struct {
	stages  int
	stage   mesh.Mesh
	layouts []LayoutRule
	table   string // "target.layout"
	place   func(key string) diag.Subject
}

// SourceRules is what the job declares of the source; false if it has no mesh.
func (j *Job) SourceRules() (*Rules, bool) {
	return j.rules("source", j.Source.Mesh, j.Source.Layouts)
}

// TargetRules is what the job declares of the target; false if it has no mesh.
func (j *Job) TargetRules() (*Rules, bool) {
	return j.rules("target", j.Target.Mesh, j.Target.Layouts)
}

func (j *Job) rules(side string, m *mesh.Mesh, l []LayoutRule) (*Rules, bool) {
	if m == nil {
		return nil, false
	}
	r := &Rules{layouts: l, table: side + ".layout", place: j.Place}
	r.stages, r.stage = StageMesh(*m)
	return r, true
}

// Stages is the number of pipeline stages.
func (r *Rules) Stages() int { return r.stages }

// Devices is the number of ranks of each stage.
func (r *Rules) Devices() int { return r.stage.Ranks() }

// Place gives the layouts of a parameter of ndim dims, one for each stage that
// holds it: those that its rule names, else those in which files hold it (in),
// else all. It is an error, at the place of the rule, where the rule does not
// fit the parameter or no rule matches.
func (r *Rules) Place(name string, ndim int, in []int) ([]layout.Param, error) {
	i, ok := FindLayout(r.layouts, name)
	if !ok {
		d := diag.Errorf(diag.Usage, "no `[[%s]]` matches `%s`", r.table, name).OfTensor(name).
			WithHint("add one with `match = \"*\"` and `shard = \"replicate\"` at the end, for whatever is not cut")
		d.Subject = at(r.place(fmt.Sprintf("%s[%d]", r.table, len(r.layouts)-1)), name)
		return nil, d
	}
	rule := &r.layouts[i]
	l, err := rule.Layout(r.stage, ndim)
	if err != nil {
		d := diag.From(err)[0]
		d.Summary = fmt.Sprintf("`%s` cannot lie as this layout says: %s", name, d.Summary)
		d.Subject = at(r.place(fmt.Sprintf("%s[%d].shard", r.table, i)), name)
		return nil, d
	}
	stages := rule.Stages
	if stages == nil {
		stages = in
	}
	if stages == nil {
		for s := range r.stages {
			stages = append(stages, s)
		}
	}
	out := make([]layout.Param, len(stages))
	for k, s := range stages {
		out[k] = layout.Param{Name: name, Stage: s, Layout: l}
	}
	return out, nil
}

func at(s diag.Subject, tensor string) diag.Subject {
	s.Tensor = tensor
	return s
}
