package ranks

import (
	"context"
	"math"
	"slices"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mesh"
)

// join makes one checkpoint of the ranks that were found.
func (f *finder) join(ctx context.Context) (*checkpoint.Checkpoint, error) {
	strategy, err := f.strategy(ctx)
	if err != nil {
		return nil, err
	}
	c, err := Join(f.ranks, strategy, f.Options)
	if err != nil {
		return nil, err
	}
	c.Warnings = append(f.warnings, c.Warnings...)
	return c, nil
}

// Join makes one checkpoint of indexed ranks, ascending by ID, and a strategy,
// nil if there is none. It opens nothing.
func Join(ranks []checkpoint.Rank, strategy *layout.Strategy, o Options) (*checkpoint.Checkpoint, error) {
	c := &checkpoint.Checkpoint{Format: ranks[0].Header.Index.Format, Stages: 1, Devices: 1, Ranks: ranks, PerRank: o.PerRank}
	for _, r := range ranks {
		if got := r.Header.Index.Format; got != c.Format {
			return nil, diag.Errorf(diag.Usage, "rank %d is %s, rank %d is %s", ranks[0].ID, c.Format, r.ID, got).
				WithHint("set `source.format` to read files of one format only")
		}
	}
	j := &joiner{Checkpoint: c, opt: o}
	switch {
	case strategy != nil && !o.PerRank:
		c.Stages, c.Devices, c.Strategy = strategy.Stages, strategy.Devices, strategy
	case o.Rules != nil && !o.PerRank:
		c.Stages, c.Devices = o.Rules.Stages(), o.Rules.Devices()
	case o.PerRank:
		c.Stages = ranks[len(ranks)-1].ID + 1
	case len(ranks) > 1:
		if !o.TargetPlaced {
			return nil, diag.Errorf(diag.Usage, "the source has %d rank folders, but neither source nor target has a strategy or mesh", len(ranks)).
				WithHint("set `source.strategy` (or `source.mesh` and `[[source.layout]]`); to convert every rank's file as it is, use `--per-rank`")
		}
		c.Devices = ranks[len(ranks)-1].ID + 1
	case ranks[0].ID != 0:
		return nil, diag.Errorf(diag.Usage, "the source has rank %d alone, and no strategy", ranks[0].ID).
			WithHint("set `source.strategy`, or give the file's own path")
	}
	if err := j.ranksFit(); err != nil {
		return nil, err
	}
	j.survey()
	if c.Strategy == nil && o.Rules != nil && !o.PerRank {
		if err := j.applyRules(); err != nil {
			return nil, err
		}
	}
	if err := j.tensors(); err != nil {
		return nil, err
	}
	j.absent()
	j.leaves()
	for _, h := range j.headers {
		c.Warnings = append(c.Warnings, h.header.Index.Warnings...)
	}
	return c, nil
}

// group is the ranks of one stage that share a header.
type group struct {
	stage  int
	header *checkpoint.Header
	ranks  []int // indices into Checkpoint.Ranks, ascending
}

type joiner struct {
	*checkpoint.Checkpoint
	opt     Options
	headers []*group // by stage ascending, then by highest rank descending
}

// ranksFit drops ranks that the strategy does not have.
func (j *joiner) ranksFit() error {
	if j.PerRank {
		return nil
	}
	n := j.Stages * j.Devices
	keep := slices.DeleteFunc(slices.Clone(j.Ranks), func(r checkpoint.Rank) bool { return r.ID >= n })
	if len(keep) == 0 {
		return diag.Errorf(diag.Usage, "the strategy has %d ranks, none of them has a folder", n)
	}
	if d := len(j.Ranks) - len(keep); d > 0 {
		j.Warnings = append(j.Warnings, diag.Warnf("the source has %d rank folders, its strategy %d ranks: those from rank %d on are not read", len(j.Ranks), n, n).
			WithHint("if the run had more than %d ranks, the strategy is of another run, and what is written is wrong", n))
	}
	j.Ranks = keep
	return nil
}

// survey groups ranks by stage and header.
func (j *joiner) survey() {
	type key struct {
		stage  int
		header *checkpoint.Header
	}
	at := map[key]*group{}
	for i, r := range j.Ranks {
		k := key{r.ID / j.Devices, r.Header}
		g := at[k]
		if g == nil {
			g = &group{stage: k.stage, header: k.header}
			at[k] = g
			j.headers = append(j.headers, g)
		}
		g.ranks = append(g.ranks, i)
	}
	slices.SortFunc(j.headers, func(a, b *group) int {
		if a.stage != b.stage {
			return a.stage - b.stage
		}
		return b.ranks[len(b.ranks)-1] - a.ranks[len(a.ranks)-1]
	})
}

// applyRules makes a strategy of the job's declaration and the names and dims
// that the headers show.
func (j *joiner) applyRules() error {
	var params []layout.Param
	stages := map[string][]int{}
	dims := map[string]int{}
	var order []string
	for _, g := range j.headers {
		for _, e := range g.header.Index.Entries {
			if len(stages[e.Name]) == 0 {
				order = append(order, e.Name)
				dims[e.Name] = len(e.Shape)
			}
			if !slices.Contains(stages[e.Name], g.stage) {
				stages[e.Name] = append(stages[e.Name], g.stage)
			}
		}
	}
	for _, name := range order {
		p, err := j.opt.Rules.Place(name, dims[name], stages[name])
		if err != nil {
			return err
		}
		params = append(params, p...)
	}
	s, err := layout.NewStrategy(j.Stages, j.Devices, params)
	j.Strategy = s
	return err
}

// tensors makes the global tensors, in MindSpore's order: the highest stage
// first, in a stage the highest rank's file first (facts 8.4).
func (j *joiner) tensors() error {
	at := map[string]int{}
	down := slices.Clone(j.headers)
	slices.SortStableFunc(down, func(a, b *group) int { return b.stage - a.stage })
	for n, g := range down {
		if j.PerRank && n > 0 && down[n-1].stage != g.stage {
			clear(at)
		}
		for i := range g.header.Index.Entries {
			e := &g.header.Index.Entries[i]
			if g.header.Find(e.Name) != e {
				return diag.Errorf(diag.Damaged, "tensor `%s` stands twice in one file", e.Name).InFile(j.file(g)).OfTensor(e.Name)
			}
			k, seen := at[e.Name]
			if !seen {
				k = len(j.Tensors)
				at[e.Name] = k
				j.Tensors = append(j.Tensors, checkpoint.Global{Name: e.Name, Path: e.Path, DType: e.DType, Note: e.Note, Seq: e.Seq})
			}
			if err := j.place(&j.Tensors[k], g, e); err != nil {
				return err
			}
		}
	}
	if j.PerRank {
		slices.SortStableFunc(j.Tensors, func(a, b checkpoint.Global) int { return a.Places[0].Stage - b.Places[0].Stage })
	}
	return nil
}

func (j *joiner) file(g *group) string { return j.Ranks[g.ranks[0]].Files[0].Name }

// place adds what one header says of a tensor, and proves that it agrees with
// what is known already.
func (j *joiner) place(t *checkpoint.Global, g *group, e *checkpoint.Entry) error {
	if e.DType != t.DType {
		return j.disagree(t, g, "has type %s", "has type %s", e.DType, t.DType)
	}
	if j.elsewhere(t.Name, g.stage) {
		t.Named = true
		return nil
	}
	l, err := j.layoutOf(t, g, e)
	if err != nil {
		return err
	}
	shape, ok := l.Global(e.Shape)
	switch {
	case !ok && t.Shape != nil && len(e.Shape) != len(t.Shape):
		return j.disagree(t, g, "has a part of shape %v", "makes it %v", e.Shape, t.Shape)
	case !ok:
		return diag.Errorf(diag.Damaged, "tensor `%s`: a part of shape %v does not fit its layout %s", t.Name, e.Shape, l).
			InFile(j.file(g)).OfRank(j.Ranks[g.ranks[0]].ID).OfTensor(t.Name)
	}
	if t.Shape == nil {
		t.Shape = shape
		if _, ok := t.DType.Bytes(shape); !ok {
			return diag.Errorf(diag.Damaged, "global shape %v is not possible", shape).InFile(j.file(g)).OfTensor(t.Name)
		}
	} else if !slices.Equal(shape, t.Shape) {
		return j.disagree(t, g, "has a part of a tensor of shape %v", "makes it %v", shape, t.Shape)
	}
	i, found := slices.BinarySearchFunc(t.Places, g.stage, func(p checkpoint.Place, s int) int { return p.Stage - s })
	if !found {
		t.Places = slices.Insert(t.Places, i, checkpoint.Place{Stage: g.stage, Layout: l})
	}
	return j.partsFit(t, g, e, t.Places[i].Layout, l)
}

// partsFit proves that the ranks of a group hold what the layout of their stage
// gives them. Even parts are all alike; then the layouts agree, or the shapes
// of two ranks tell of different ones.
func (j *joiner) partsFit(t *checkpoint.Global, g *group, e *checkpoint.Entry, stage, own *layout.Layout) error {
	for _, k := range g.ranks {
		r := &j.Ranks[k]
		if stage.Even() && stage.Equal(own) {
			return nil
		}
		want := stage.Box(t.Shape, r.ID%j.Devices).Ext
		if !slices.Equal(want, e.Shape) {
			return diag.Errorf(diag.Damaged, "tensor `%s` has a part of shape %v, the layout %s of its stage gives the rank %v", t.Name, e.Shape, stage, want).
				InFile(r.Files[0].Name).OfRank(r.ID).OfTensor(t.Name).WithHint("the files may be of different runs, or the strategy of another network")
		}
	}
	return nil
}

// disagree names a tensor, a rank, its file, and both values.
func (j *joiner) disagree(t *checkpoint.Global, g *group, here, there string, a, b any) error {
	other := j.firstHolder(t.Name)
	d := diag.Errorf(diag.Damaged, "tensor `%s` "+here+", rank %d "+there, t.Name, a, j.Ranks[other].ID, b)
	d.InFile(j.file(g)).OfRank(j.Ranks[g.ranks[0]].ID).OfTensor(t.Name)
	return d.WithHint("the files may be of different runs or steps, or the strategy of another run; rank %d is read from `%s`", j.Ranks[other].ID, j.Ranks[other].Files[0].Name)
}

func (j *joiner) firstHolder(name string) int {
	for s := j.Stages - 1; s >= 0; s-- {
		for _, g := range j.headers {
			if g.stage == s && g.header.Find(name) != nil {
				return g.ranks[0]
			}
		}
	}
	return 0
}

// elsewhere reports whether a stage's copy of a tensor is one of which the
// strategy records no layout: the runtime keeps copies of shared parameters
// (tied embeddings) in further stages. Such a copy is not read where the stage
// whose layout is recorded has the tensor.
func (j *joiner) elsewhere(name string, stage int) bool {
	if j.Strategy == nil || j.PerRank || j.Strategy.InStage(name, stage) != nil {
		return false
	}
	for _, p := range j.Strategy.Find(name) {
		for _, g := range j.headers {
			if g.stage == p.Stage && g.header.Find(name) != nil {
				return true
			}
		}
	}
	return false
}

// layoutOf is how the ranks of a stage hold a tensor: as the strategy says, or
// whole on each rank that has it.
func (j *joiner) layoutOf(t *checkpoint.Global, g *group, e *checkpoint.Entry) (*layout.Layout, error) {
	var p *layout.Param
	if j.Strategy != nil {
		if p = j.Strategy.InStage(t.Name, g.stage); p == nil && j.Strategy.Has(t.Name) {
			// A shared copy, and the stage whose layout is recorded has no
			// file: its layout is the best guess; the shapes must agree with it.
			p = j.Strategy.Find(t.Name)[0]
		}
	}
	if p == nil {
		if pl := t.Place(g.stage); pl != nil {
			return pl.Layout, nil
		}
		m, err := mesh.New(nil, []int{j.Devices})
		if err != nil {
			return nil, err
		}
		return layout.Replicated(m, len(e.Shape)), nil
	}
	t.Named = true
	if p.Field != 0 {
		return nil, diag.Errorf(diag.Usage, "table `%s` is cut by fields (%d of them), which is not supported", t.Name, p.Field).OfTensor(t.Name)
	}
	l, err := j.resolve(p, e, g)
	if err != nil {
		return nil, err
	}
	if l.NDim() != len(e.Shape) {
		return nil, diag.Errorf(diag.Damaged, "tensor `%s` has %d dims, its strategy %d: shape %v, layout %s", t.Name, len(e.Shape), l.NDim(), e.Shape, l).
			InFile(j.file(g)).OfRank(j.Ranks[g.ranks[0]].ID).OfTensor(t.Name).WithHint("the strategy may be of another network")
	}
	return l, nil
}

// leaves takes over what is no tensor, from the lowest rank that has it. Leaves
// of other ranks that differ are kept out and named.
func (j *joiner) leaves() {
	first := j.Ranks[0].Header.Index
	j.Leaves = slices.Clip(first.Leaves)
	j.Meta = first.Metadata
	at := map[string][]int{} // by label, which paths may share
	for i, l := range j.Leaves {
		at[l.Path.Label()] = append(at[l.Path.Label()], i)
	}
	told := map[int]bool{}
	for _, g := range j.headers {
		if g.header.Index == first || j.PerRank {
			continue
		}
		for _, l := range g.header.Index.Leaves {
			label := l.Path.Label()
			k := slices.IndexFunc(at[label], func(i int) bool { return j.Leaves[i].Path.Equal(l.Path) })
			if k < 0 {
				at[label] = append(at[label], len(j.Leaves))
				j.Leaves = append(j.Leaves, l)
				continue
			}
			i := at[label][k]
			if o := &j.Leaves[i]; !told[i] && (o.Type != l.Type || !equal(o.Value, l.Value)) {
				told[i] = true
				j.Warnings = append(j.Warnings, diag.Warnf("leaf `%s` differs between ranks; rank %d's value is taken", label, j.Ranks[0].ID).
					InFile(j.file(g)).OfRank(j.Ranks[g.ranks[0]].ID))
			}
		}
	}
}

// equal compares values by their bits: a NaN is equal to itself.
func equal(a, b checkpoint.Value) bool {
	same := math.Float64bits(a.Float) == math.Float64bits(b.Float)
	a.Float, b.Float = 0, 0
	return same && a == b
}
