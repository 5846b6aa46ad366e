package mindspore

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
)

// id names a parameter in a stage.
type id struct {
	stage int64
	name  string
}

// union is the parameters of several files, each once.
type union struct {
	params []param
	at     map[id]int
}

// merge picks the parameters of the parts. Files of one stage must agree. A
// merged file among the files of stages is what an earlier merge left in the
// folder: it counts alone where it holds all that they hold, else not at all.
func (m *merger) merge(parts []part) ([]param, error) {
	if len(parts) == 1 {
		u, err := m.unite(parts)
		return u.params, err
	}
	var single, merged []part
	for _, p := range parts {
		switch {
		case p.merged:
			merged = append(merged, p)
		case !p.staged:
			return nil, diag.Errorf(diag.Damaged, "the strategy file names no operator, so it does not tell its stage").InFile(p.file).
				WithHint("give it alone if the run had one stage")
		default:
			single = append(single, p)
		}
	}
	if len(merged) > 0 {
		return m.choose(single, merged)
	}
	u, err := m.unite(single)
	if err != nil {
		return nil, err
	}
	m.noteGaps(u, single)
	slices.SortStableFunc(u.params, func(a, b param) int { return int(a.stage - b.stage) })
	return u.params, nil
}

// unite puts the parameters of all parts together.
func (m *merger) unite(parts []part) (*union, error) {
	u := &union{at: map[id]int{}}
	for i := range parts {
		for n, x := range parts[i].params {
			if n%64 == 0 {
				m.yield()
			}
			k := id{x.stage, x.name}
			j, ok := u.at[k]
			if !ok {
				u.at[k] = len(u.params)
				u.params = append(u.params, x)
				continue
			}
			if err := agree(&u.params[j], &x); err != nil {
				return u, err
			}
		}
	}
	return u, nil
}

// same reports whether two files, or two places of one, say the same of a
// parameter.
func same(a, b *param) bool {
	return a.key() == b.key() && (a.shape == nil || b.shape == nil || slices.Equal(a.shape, b.shape))
}

func agree(a, b *param) error {
	switch {
	case same(a, b):
		return nil
	case a.file == b.file:
		return b.at(diag.Errorf(diag.Damaged, "the strategy file has two different layouts of `%s` in stage %d", b.name, b.stage))
	}
	return b.at(diag.Errorf(diag.Damaged, "the strategy files of stage %d differ: `%s` lies otherwise in `%s`", b.stage, b.name, a.file)).
		WithHint("they are of different runs; leave in the folder only the files of one run")
}

// noteGaps warns of files that lack a parameter which another file of their
// stage names: all ranks of a stage run the same graph.
func (m *merger) noteGaps(u *union, parts []part) {
	for _, p := range parts {
		m.yield()
		mine := make(map[id]bool, len(p.params))
		for _, x := range p.params {
			mine[id{x.stage, x.name}] = true
		}
		stage, lacks, first := p.params[0].stage, 0, ""
		for i := range u.params {
			if x := &u.params[i]; x.stage == stage && !mine[id{x.stage, x.name}] {
				if lacks++; lacks == 1 {
					first = x.name
				}
			}
		}
		if lacks > 0 {
			m.notes = append(m.notes, diag.Warnf("the strategy file lacks %d parameters that other files of stage %d name, such as `%s`", lacks, stage, first).
				InFile(p.file).OfTensor(first))
		}
	}
}

// choose takes one of several merged files, or none of them where there are
// files of stages that it does not cover.
func (m *merger) choose(single, merged []part) ([]param, error) {
	rest, err := m.unite(single)
	if err != nil {
		return nil, err
	}
	if len(single) == 0 { // then the merged files must agree
		rest, err = m.unite(merged)
		if err != nil {
			return nil, err
		}
	}
	best := slices.IndexFunc(merged, func(p part) bool {
		u, err := m.unite([]part{p})
		return err == nil && covers(u, rest)
	})
	switch {
	case best < 0 && len(single) == 0:
		return rest.params, nil
	case best < 0:
		for _, p := range merged {
			m.notes = append(m.notes, diag.Warnf("the merged strategy file is passed over: it does not hold what the files of the stages hold").InFile(p.file))
		}
		return m.merge(single)
	}
	for _, p := range slices.Concat(merged[:best], merged[best+1:]) {
		m.notes = append(m.notes, diag.Warnf("the merged strategy file is passed over: `%s` holds it all", merged[best].file).InFile(p.file))
	}
	u, err := m.unite(merged[best : best+1])
	return u.params, err
}

// covers reports whether u says all that v says.
func covers(u, v *union) bool {
	for i := range v.params {
		x := &v.params[i]
		j, ok := u.at[id{x.stage, x.name}]
		if !ok || !same(&u.params[j], x) {
			return false
		}
	}
	return true
}

// strategy makes the layouts and puts them together.
func (m *merger) strategy(params []param) (*layout.Strategy, error) {
	stages, err := stageCount(params)
	if err != nil {
		return nil, err
	}
	m.noteTwice(params)
	out := make([]layout.Param, len(params))
	devices := 0
	for i := range params {
		if i%64 == 0 {
			m.yield()
		}
		p := &params[i]
		b, err := m.build(p)
		if err != nil {
			return nil, checkpoint.Diagnose(err, p.file)
		}
		if b.misfit != "" {
			m.notes = append(m.notes, p.at(diag.Warnf("the manual split of `%s` is not kept, it would count as evenly cut: %s", p.name, b.misfit)))
		}
		if i == 0 {
			devices = b.l.Ranks()
		}
		if n := b.l.Ranks(); n != devices {
			return nil, p.at(diag.Errorf(diag.Damaged, "the device matrix %v of `%s` has %d ranks, that of `%s` has %d", p.matrix, p.name, n, params[0].name, devices)).
				WithHint("all stages of a run have the same number of ranks; the files are of different runs")
		}
		out[i] = layout.Param{
			Name: p.name, Stage: int(p.stage), Layout: b.l,
			Shape: p.shape, Field: p.field, OptUnknown: optUnknown(p.name),
		}
	}
	return layout.NewStrategy(stages, devices, out)
}

// build makes the layout of a parameter, once for all that are alike.
func (m *merger) build(p *param) (built, error) {
	k := p.key()
	b, ok := m.layouts[k]
	if !ok {
		l, misfit, err := p.layout()
		if err != nil {
			return b, err
		}
		b = built{l, misfit}
		m.layouts[k] = b
	}
	return b, p.checkShape(b.l)
}

// stageCount checks that the stages are 0 to k−1 and returns k.
func stageCount(params []param) (int, error) {
	has := map[int64]bool{}
	last := int64(0)
	for i := range params {
		has[params[i].stage] = true
		last = max(last, params[i].stage)
	}
	if int64(len(has)) == last+1 {
		return len(has), nil
	}
	var here []string
	for s := int64(0); s <= last && len(here) < 8; s++ {
		if has[s] {
			here = append(here, strconv.FormatInt(s, 10))
		}
	}
	missing := int64(0)
	for has[missing] {
		missing++
	}
	return 0, diag.Errorf(diag.Damaged, "the strategy is not of all stages: it has stage %s, not stage %d", strings.Join(here, ", "), missing).
		InFile(params[0].file).WithHint("give the strategy files of all pipeline stages, or the merged file")
}

// noteTwice warns of names that still begin with a stage in a strategy of
// several stages: a merged file that was merged again with its parts.
func (m *merger) noteTwice(params []param) {
	for i := range params {
		if _, _, ok := cutStage(params[i].name); !ok {
			return
		}
	}
	m.notes = append(m.notes, diag.Warnf("all names begin with a number and `-`, such as `%s`: the file seems to be merged twice", params[0].name).
		InFile(params[0].file).WithHint("merge the files of the stages again, without the merged file among them"))
}
