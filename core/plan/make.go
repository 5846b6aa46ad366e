package plan

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mapping"
	"github.com/seed-e934e81e/convert/core/mesh"
)

// Make plans a request. It fails where a target byte would have no source, or
// a source tensor no place, unless the request has a rule for it.
func Make(ctx context.Context, q Request) (*Plan, error) {
	if q.Yield == nil {
		q.Yield = func() {}
	}
	p := &Plan{Request: q, Stages: 1, Devices: 1}
	m := &maker{Plan: p, ctx: ctx}
	p.indexOf = indexNames(q.Source)
	m.surveyStages()
	if err := m.mapNames(); err != nil {
		return nil, err
	}
	if err := m.targetStrategy(); err != nil {
		return nil, err
	}
	if err := m.missing(); err != nil {
		return nil, err
	}
	if err := m.groups(); err != nil {
		return nil, err
	}
	if err := m.checkLayouts(); err != nil {
		return nil, err
	}
	if err := m.coverage(); err != nil {
		return nil, err
	}
	m.uncomparable()
	m.classify()
	if err := m.split(); err != nil {
		return nil, err
	}
	if err := m.blueprintAll(); err != nil {
		return nil, err
	}
	m.totals()
	p.Digest = p.digest()
	return p, nil
}

type maker struct {
	*Plan
	ctx     context.Context
	byName  map[string]int // target name → index into Tensors
	target  []int          // source tensor → index into Tensors, −1 if dropped
	strat   *layout.Strategy
	written []int64 // bytes of the files of each group
}

// mapNames names every source tensor's target and finds clashes.
func (m *maker) mapNames() error {
	m.byName = map[string]int{}
	var clashes diag.List
	for i := range m.Source.Tensors {
		if i%64 == 0 {
			m.Yield()
			if err := m.ctx.Err(); err != nil {
				return err
			}
		}
		s := &m.Source.Tensors[i]
		t := Tensor{Source: i, Name: s.Name, Path: s.Path, DType: s.DType, Shape: s.Shape, Note: s.Note, Seq: s.Seq}
		r := mapping.Result{To: s.Name}
		if m.Mapping != nil {
			r = m.Mapping.Apply(s.Name)
		}
		if r.Drop {
			m.target = append(m.target, -1)
			m.drop(s, fmt.Sprintf("rule %d of [[map]]", r.Rule+1))
			continue
		}
		if r.To == "" && s.Name != "" { // a file may hold one tensor and no name for it
			return diag.Errorf(diag.Usage, "rule %d of [[map]] leaves `%s` without a name", r.Rule+1, s.Name).OfTensor(s.Name)
		}
		if r.To != s.Name {
			t.Name, t.Path = r.To, nil
		}
		var err error
		if t.DType, err = r.Type(s.DType, s.Shape, m.DType); err != nil {
			return diag.Errorf(diag.Usage, "`%s` cannot be cast", s.Name).OfTensor(s.Name).Wrap(err).WithHint("only f64, f32, f16 and bf16 are cast")
		}
		key := t.Name
		if m.Source.PerRank {
			key = fmt.Sprintf("%d\x00%s", s.Places[0].Stage, t.Name)
		}
		if j, twice := m.byName[key]; twice {
			clashes = append(clashes, diag.Errorf(diag.Usage, "`%s` and `%s` would both become `%s`", m.Source.Tensors[m.Tensors[j].Source].Name, s.Name, t.Name).
				OfTensor(s.Name).WithHint("change the [[map]] rules, or drop one of them"))
		}
		m.byName[key] = len(m.Tensors)
		m.target = append(m.target, len(m.Tensors))
		m.Tensors = append(m.Tensors, t)
	}
	return clashes.Err()
}

func (m *maker) drop(s *checkpoint.Global, reason string) {
	d := Dropped{Name: s.Name, Kind: "tensor", Reason: reason}
	if m.Source.PerRank {
		d.Rank = s.Places[0].Stage
	}
	m.Dropped = append(m.Dropped, d)
}

// targetStrategy makes the target's strategy of the job's rules, or takes the
// one that was read.
func (m *maker) targetStrategy() error {
	switch {
	case m.Source.PerRank:
		m.Stages, m.Devices = m.Source.Stages, 1
		return nil
	case m.Request.Strategy != nil:
		m.strat = m.Request.Strategy
	case m.Rules != nil:
		var params []layout.Param
		for _, t := range m.Tensors {
			p, err := m.Rules.Place(t.Name, len(t.Shape), nil)
			if err != nil {
				return err
			}
			params = append(params, p...)
		}
		s, err := layout.NewStrategy(m.Rules.Stages(), m.Rules.Devices(), params)
		if err != nil {
			return err
		}
		m.strat = s
	default:
		return nil
	}
	m.Stages, m.Devices = m.strat.Stages, m.strat.Devices
	return nil
}

// missing finds parameters of the target's strategy that no source tensor
// becomes.
func (m *maker) missing() error {
	if err := m.emptyStages(); err != nil {
		return err
	}
	if m.strat == nil {
		return nil
	}
	var out []string
	for i := range m.strat.Params {
		n := m.strat.Params[i].Name
		if _, ok := m.byName[n]; !ok {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) == 0 {
		return nil
	}
	if m.Missing == Skip {
		m.Absent = out
		return nil
	}
	return diag.Errorf(diag.Usage, "%s of the target's strategy %s no source: %s", count(len(out), "parameter"), has(len(out)), some(out)).
		OfTensor(out[0]).WithHint("the new network would keep its initial values there; if that is meant, set `target.missing = \"skip\"`")
}

// uncomparable warns of copies in several stages that are cut in different
// ways: they are not compared with each other, the lowest stage's are read.
func (m *maker) uncomparable() {
	var names []string
	for i := range m.Source.Tensors {
		s := &m.Source.Tensors[i]
		for _, pl := range s.Places[min(1, len(s.Places)):] {
			if !pl.Layout.Equal(s.Places[0].Layout) && m.Compared(s) {
				names = append(names, s.Name)
				break
			}
		}
	}
	if len(names) > 0 {
		m.Warnings = append(m.Warnings, diag.Warnf("%s cut differently in several stages; the copies of the lowest stage are read, the others are not compared: %s", count(len(names), "tensor")+" "+are(len(names)), some(names)).OfTensor(names[0]))
	}
}

// emptyStages finds stages of the source none of whose ranks has a file: what
// the strategy puts there alone is in no file at all, and would be missing from
// the target without a word. A target that names none of it does not need it,
// if leftovers are dropped.
func (m *maker) emptyStages() error {
	s := m.Source.Strategy
	if s == nil || m.Source.PerRank {
		return nil
	}
	here := m.indexOf[0]
	for i := range s.Params {
		p := &s.Params[i]
		if _, ok := here[p.Name]; ok || m.stages[p.Stage].ranks > 0 {
			continue
		}
		if m.strat != nil && !m.strat.Has(p.Name) && m.Leftovers == Drop {
			continue
		}
		first := p.Stage * s.Devices
		return diag.Errorf(diag.Damaged, "no rank of stage %d (ranks %d to %d) has a file, and the strategy puts `%s` there", p.Stage, first, first+s.Devices-1, p.Name).
			OfTensor(p.Name).OfRank(first).WithHint("copy the folders of these ranks from where the run was saved")
	}
	return nil
}

// groups decides for each stage of the target what its files hold, in which
// order.
func (m *maker) groups() error {
	ranks, err := m.selected()
	if err != nil {
		return err
	}
	used := make([]bool, len(m.Source.Tensors))
	for s := range m.Stages {
		n := sort.SearchInts(ranks, (s+1)*m.Devices)
		mine := slices.Clip(ranks[:n])
		ranks = ranks[n:]
		g := Group{Stage: s, Ranks: mine, Leaves: m.Source.Leaves, Meta: m.Source.Meta}
		m.fill(&g, used)
		if m.Source.PerRank {
			r := m.Source.Rank(s)
			if r == nil {
				continue
			}
			g.Leaves, g.Meta = r.Header.Index.Leaves, r.Header.Index.Metadata
		}
		switch {
		case len(mine) == 0:
		case len(g.Items) == 0 && m.strat != nil:
			// MindSpore writes no such file either, and loads no empty one.
			m.Notes = append(m.Notes, fmt.Sprintf("stage %d of the target holds nothing: its %s get no files", s, count(len(mine), "rank")))
		default:
			m.Groups = append(m.Groups, g)
		}
	}
	if len(m.Groups) == 0 && len(m.Notes) > 0 {
		return diag.Errorf(diag.Usage, "nothing is left to write: no target rank would hold a tensor").WithHint("look at the target's strategy, `[[map]]` and `target.ranks`")
	}
	if len(m.Groups) == 0 {
		return diag.Errorf(diag.Usage, "no target rank is left to write").WithHint("look at `target.ranks`")
	}
	if err := m.leftovers(); err != nil {
		return err
	}
	for i, u := range used {
		if !u && m.target[i] >= 0 && !m.leftover(i) {
			m.drop(&m.Source.Tensors[i], "no stage of the target that is written holds it")
		}
	}
	return nil
}

// selected is the target ranks that are written.
func (m *maker) selected() ([]int, error) {
	n := m.Stages * m.Devices
	if m.Ranks == nil {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all, nil
	}
	out := slices.Clone(m.Ranks)
	slices.Sort(out)
	out = slices.Compact(out)
	for _, r := range out {
		if r < 0 || r >= n {
			return nil, diag.Errorf(diag.Usage, "`target.ranks` has rank %d, the target has %s", r, count(n, "rank"))
		}
	}
	return out, nil
}

// fill lists the items of one stage's files.
func (m *maker) fill(g *Group, used []bool) {
	needed := m.neededStages(g.Stage)
	var placed, passed []Item
	order := m.order(needed)
	if m.Leftovers == Merge {
		order = append(order, m.elsewhere(order)...)
	}
	for _, i := range order {
		t := m.target[i]
		if t < 0 {
			continue
		}
		s := &m.Source.Tensors[i]
		from := m.placeIn(s, needed)
		name := m.Tensors[t].Name
		switch {
		case m.Source.PerRank || m.strat == nil:
			used[i] = true
			it := Item{Tensor: t, Layout: m.whole(len(s.Shape)), From: from}
			if s.Named {
				placed = append(placed, it)
			} else {
				passed = append(passed, it)
			}
		case m.strat.InStage(name, g.Stage) != nil:
			used[i] = true
			placed = append(placed, Item{Tensor: t, Layout: m.strat.InStage(name, g.Stage).Layout, From: from})
		case m.strat.Has(name): // of another stage
			used[i] = true
		case s.Named && m.Leftovers != Merge:
		default:
			used[i] = true
			passed = append(passed, Item{Tensor: t, Layout: m.whole(len(s.Shape)), From: from})
		}
	}
	if m.Source.Strategy == nil && m.strat == nil {
		g.Items = passed // no strategy anywhere: the source's own order
		return
	}
	g.Items = append(placed, passed...)
}

// leftover reports whether the source's strategy names a tensor and the
// target's does not.
func (m *maker) leftover(i int) bool {
	return m.strat != nil && m.target[i] >= 0 && m.Source.Tensors[i].Named && !m.strat.Has(m.Tensors[m.target[i]].Name)
}

// elsewhere lists the leftovers that only other stages hold.
func (m *maker) elsewhere(order []int) []int {
	here := make(map[int]bool, len(order))
	for _, i := range order {
		here[i] = true
	}
	var out []int
	for i := range m.Source.Tensors {
		if !here[i] && m.leftover(i) {
			out = append(out, i)
		}
	}
	return out
}

// whole is the layout in which each rank of a target stage has it all.
func (m *maker) whole(ndim int) *layout.Layout {
	ms, err := mesh.New(nil, []int{m.Devices})
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return layout.Replicated(ms, ndim)
}

// leftovers are tensors that the source's strategy cuts and the target's does
// not know. Their raw slices must never pass under the whole tensor's name.
func (m *maker) leftovers() error {
	if m.Leftovers == Merge {
		return nil
	}
	var names []string
	for i := range m.Source.Tensors {
		if m.leftover(i) {
			names = append(names, m.Source.Tensors[i].Name)
			if m.Leftovers == Drop {
				m.drop(&m.Source.Tensors[i], "the target's strategy does not name it (target.leftovers)")
			}
		}
	}
	if m.Leftovers == Drop || len(names) == 0 {
		return nil
	}
	return diag.Errorf(diag.Usage, "%s of the source's strategy %s unknown to the target's: %s", count(len(names), "tensor"), are(len(names)), some(names)).
		OfTensor(names[0]).WithHint("set `target.leftovers` to \"drop\" to leave them out, or to \"merge\" to write them whole on every rank")
}

// checkLayouts proves that every tensor splits as its target layout says.
func (m *maker) checkLayouts() error {
	var bad diag.List
	for gi := range m.Groups {
		g := &m.Groups[gi]
		for i, it := range g.Items {
			if i%64 == 0 {
				m.Yield()
			}
			t := &m.Tensors[it.Tensor]
			if it.Layout.NDim() != len(t.Shape) {
				bad = append(bad, diag.Errorf(diag.Usage, "tensor `%s` has %d dims, its target layout %s has %d", t.Name, len(t.Shape), it.Layout, it.Layout.NDim()).OfTensor(t.Name))
				continue
			}
			if err := it.Layout.Check(t.Shape); err != nil {
				d := diag.From(err)[0]
				bad = append(bad, diag.Errorf(diag.Usage, "`%s` %s", t.Name, strings.TrimPrefix(d.Summary, "layout ")).OfTensor(t.Name).
					WithHint("its shape is %v; use a size that divides the dim, or another layout for it", t.Shape))
				continue
			}
			if t.DType.Size() == 0 && (it.Layout.Blocks() > 1 || m.Source.Tensors[t.Source].Places[it.From].Layout.Blocks() > 1) {
				bad = append(bad, diag.Errorf(diag.Usage, "`%s` has elements of %d bits, which cannot be cut", t.Name, t.DType.Bits()).OfTensor(t.Name))
			}
		}
		for _, it := range g.Items {
			if p := m.strat; p != nil {
				if x := p.InStage(m.Tensors[it.Tensor].Name, g.Stage); x != nil && x.Field != 0 {
					bad = append(bad, diag.Errorf(diag.Usage, "target strategy cuts `%s` by fields, which is not supported", x.Name).OfTensor(x.Name))
				}
			}
		}
	}
	if len(bad) > 20 {
		bad = bad[:20]
	}
	return bad.Err()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// some lists the first names.
func some(names []string) string {
	const show = 5
	q := make([]string, 0, show)
	for _, n := range names[:min(show, len(names))] {
		q = append(q, "`"+n+"`")
	}
	s := strings.Join(q, ", ")
	if len(names) > show {
		s += fmt.Sprintf(" and %d more", len(names)-show)
	}
	return s
}
