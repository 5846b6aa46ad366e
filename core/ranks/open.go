package ranks

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/weightmap"
)

// Open reads the headers of the checkpoint at root: a file, a folder of rank
// folders, or a folder with one checkpoint of one or several files.
func Open(ctx context.Context, root string, o Options) (*checkpoint.Checkpoint, error) {
	e, err := o.FS.Stat(ctx, root)
	if err != nil {
		return nil, notThere(err, root)
	}
	found := &finder{Options: o, root: root}
	switch {
	case !e.Dir:
		dir, base := path.Split(root)
		found.root = strings.TrimSuffix(dir, "/")
		if found.root == "" {
			found.root = "."
		}
		r, err := found.single(ctx, base)
		if err != nil {
			return nil, err
		}
		found.ranks = []checkpoint.Rank{r}
	default:
		if err := found.folder(ctx); err != nil {
			return nil, err
		}
	}
	return found.join(ctx)
}

func notThere(err error, name string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return diag.Errorf(diag.Usage, "there is no `%s`", name).WithHint("paths in a job are relative to the job file's folder")
	}
	return diag.Errorf(diag.Failed, "cannot open `%s`", name).Wrap(err)
}

type finder struct {
	Options
	root     string
	ranks    []checkpoint.Rank
	warnings diag.List
}

func (f *finder) warn(d *diag.Diagnostic) { f.warnings = append(f.warnings, d) }

// folder finds the files of a checkpoint that is a folder.
func (f *finder) folder(ctx context.Context) error {
	list, err := f.FS.List(ctx, f.root)
	if err != nil {
		return notThere(err, f.root)
	}
	ids := map[int]string{}
	for _, e := range list {
		id, ok := rankFolder(e.Name)
		if !e.Dir || !ok {
			continue
		}
		if other, twice := ids[id]; twice {
			return diag.Errorf(diag.Usage, "rank %d has two folders, `%s` and `%s`", id, other, e.Name)
		}
		if id >= maxRanks {
			return diag.Errorf(diag.Usage, "folder `%s` is of a rank beyond %d", e.Name, maxRanks-1)
		}
		ids[id] = e.Name
	}
	if len(ids) > 0 {
		return f.rankFolders(ctx, ids)
	}
	if m, ok, err := f.weightMap(ctx, ".", names(list)); err != nil || ok {
		if err != nil {
			return err
		}
		r, err := f.several(ctx, m)
		if err != nil {
			return err
		}
		f.ranks = []checkpoint.Rank{r}
		return nil
	}
	cand, other, err := f.candidates(ctx, ".", list)
	if err != nil {
		return err
	}
	if len(cand) == 0 && other != nil {
		return diag.Errorf(diag.Usage, "folder `%s` holds no checkpoint", f.root).WithHint("`%s`: %s", other.Subject.File, advice(other))
	}
	choice, err := f.choose(map[int][]candidate{0: cand}, map[int]string{0: "."})
	if err != nil {
		return err
	}
	r, err := f.single(ctx, choice[0])
	if err != nil {
		return err
	}
	f.ranks = []checkpoint.Rank{r}
	return nil
}

// rankFolder parses "rank_12".
func rankFolder(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "rank_")
	if !ok || digits == "" || len(digits) > 9 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

func names(list []entry) []string {
	var out []string
	for _, e := range list {
		if !e.Dir {
			out = append(out, e.Name)
		}
	}
	return out
}

// rankFolders finds, chooses and indexes the file of every rank.
func (f *finder) rankFolders(ctx context.Context, ids map[int]string) error {
	order := make([]int, 0, len(ids))
	for id := range ids {
		order = append(order, id)
	}
	slices.Sort(order)
	cands := make([][]candidate, len(order))
	others := make([]*diag.Diagnostic, len(order))
	err := parallel(ctx, len(order), func(i int) error {
		list, err := f.FS.List(ctx, path.Join(f.root, ids[order[i]]))
		if err != nil {
			return ofRank(cannotOpen(ids[order[i]], err), order[i])
		}
		cands[i], others[i], err = f.candidates(ctx, ids[order[i]], list)
		return ofRank(err, order[i])
	})
	if err != nil {
		return err
	}
	byRank := make(map[int][]candidate, len(order))
	for i, id := range order {
		if len(cands[i]) == 0 {
			w := diag.Warnf("folder `%s` holds no checkpoint", ids[id]).OfRank(id)
			if o := others[i]; o != nil {
				w.InFile(o.Subject.File).WithHint("%s", advice(o))
			}
			f.warn(w)
			delete(ids, id)
			continue
		}
		byRank[id] = cands[i]
	}
	order = slices.DeleteFunc(order, func(id int) bool { return byRank[id] == nil })
	if len(order) == 0 {
		d := diag.Errorf(diag.Usage, "no rank folder of `%s` holds a checkpoint", f.root)
		if i := slices.IndexFunc(others, func(o *diag.Diagnostic) bool { return o != nil }); i >= 0 {
			d.WithHint("`%s`: %s", others[i].Subject.File, advice(others[i]))
		}
		return d
	}
	choice, err := f.choose(byRank, ids)
	if err != nil {
		return err
	}
	f.ranks = make([]checkpoint.Rank, len(order))
	share := newSharing()
	return parallel(ctx, len(order), func(i int) error {
		r, err := f.single(ctx, choice[order[i]])
		if err != nil {
			return ofRank(err, order[i])
		}
		r.ID = order[i]
		r.Header = share.header(r.Header)
		f.ranks[i] = r
		return nil
	})
}

// ofRank names the rank that an error is of.
func ofRank(err error, rank int) error {
	for _, d := range diag.From(err) {
		if !d.Subject.HasRank {
			d.OfRank(rank)
		}
	}
	return err
}

// advice is what a file is instead of a checkpoint, and what to do about it.
func advice(d *diag.Diagnostic) string {
	if d.Hint == "" {
		return d.Summary
	}
	return d.Summary + "; " + d.Hint
}

// single indexes one file as a whole checkpoint or a rank's part.
func (f *finder) single(ctx context.Context, name string) (checkpoint.Rank, error) {
	x, ref, err := f.index(ctx, name)
	if err != nil {
		return checkpoint.Rank{}, err
	}
	return checkpoint.Rank{Files: []checkpoint.FileRef{ref}, Header: checkpoint.NewHeader(x, []int64{ref.Size}), Checks: x.Checks}, nil
}

// weightMap reads the index file of a checkpoint of several files, if the
// folder has one.
func (f *finder) weightMap(ctx context.Context, dir string, files []string) (weightmap.WeightMap, bool, error) {
	var found []string
	for _, n := range files {
		if strings.HasSuffix(n, ".index.json") || n == "param_name_map.json" {
			found = append(found, n)
		}
	}
	switch {
	case len(found) == 0:
		return weightmap.WeightMap{}, false, nil
	case len(found) > 1 && f.Format == "":
		return weightmap.WeightMap{}, false, diag.Errorf(diag.Usage, "`%s` holds several checkpoints: %s", path.Join(f.root, dir), quoted(found)).
			WithHint("give the path of one index file's folder alone, or set `source.format`")
	case len(found) > 1:
		found = slices.DeleteFunc(found, func(n string) bool { return (f.Format == "torch") != strings.Contains(n, ".bin") })
		if len(found) != 1 {
			return weightmap.WeightMap{}, false, nil
		}
	}
	name := path.Join(dir, found[0])
	b, err := f.FS.ReadFile(ctx, path.Join(f.root, name), 256<<20)
	if err != nil {
		return weightmap.WeightMap{}, false, diag.Errorf(diag.Failed, "cannot read the index").InFile(name).Wrap(err)
	}
	m, err := weightmap.ParseWeightMap(b)
	if err != nil {
		d := diag.Errorf(diag.Damaged, "the index is damaged").InFile(name).Wrap(err)
		return weightmap.WeightMap{}, false, d.WithHint("copy the checkpoint again")
	}
	return m, true, nil
}

// several indexes the files that a weight map names and joins them.
func (f *finder) several(ctx context.Context, m weightmap.WeightMap) (checkpoint.Rank, error) {
	if len(m.Weights) == 0 {
		return checkpoint.Rank{}, diag.Errorf(diag.Damaged, "the index names no tensor").WithHint("copy the checkpoint again")
	}
	var order []string
	for _, e := range m.Weights {
		if !slices.Contains(order, e.File) {
			order = append(order, e.File)
		}
	}
	slices.Sort(order)
	parts := make([]*checkpoint.Index, len(order))
	refs := make([]checkpoint.FileRef, len(order))
	err := parallel(ctx, len(order), func(i int) error {
		var err error
		parts[i], refs[i], err = f.index(ctx, order[i])
		if errors.Is(err, fs.ErrNotExist) {
			return diag.Errorf(diag.Damaged, "the index names this file, and it is not there").InFile(order[i]).WithHint("copy the whole checkpoint again")
		}
		return err
	})
	if err != nil {
		return checkpoint.Rank{}, err
	}
	x, sizes, err := f.merge(parts, refs)
	if err != nil {
		return checkpoint.Rank{}, err
	}
	h := checkpoint.NewHeader(x, sizes)
	for _, e := range m.Weights {
		if en := h.Find(e.Name); en == nil || fileOf(en) >= 0 && refs[fileOf(en)].Name != e.File {
			return checkpoint.Rank{}, diag.Errorf(diag.Damaged, "the index puts `%s` into `%s`, which does not hold it", e.Name, e.File).
				InFile(e.File).OfTensor(e.Name).WithHint("the file may be of another version of the model; copy the whole checkpoint again")
		}
	}
	if len(m.Weights) < len(x.Entries) {
		f.warn(diag.Warnf("the files hold %d tensors, their index names %d; all are converted", len(x.Entries), len(m.Weights)))
	}
	return checkpoint.Rank{Files: refs, Header: h, Checks: x.Checks}, nil
}

func fileOf(e *checkpoint.Entry) int {
	if len(e.Data.Extents) == 0 {
		return -1
	}
	return e.Data.Extents[0].File
}

// merge makes one index of the indexes of several files.
func (f *finder) merge(parts []*checkpoint.Index, refs []checkpoint.FileRef) (*checkpoint.Index, []int64, error) {
	out := &checkpoint.Index{Format: parts[0].Format, Variant: "sharded"}
	sizes := make([]int64, len(parts))
	seen := map[string]int{}
	for i, x := range parts {
		sizes[i] = refs[i].Size
		if x.Format != out.Format {
			return nil, nil, diag.Errorf(diag.Usage, "`%s` is %s, `%s` is %s", refs[0].Name, out.Format, refs[i].Name, x.Format)
		}
		base := len(out.Entries) + len(out.Leaves)
		for _, e := range x.Entries {
			if j, twice := seen[e.Name]; twice {
				return nil, nil, diag.Errorf(diag.Damaged, "tensor `%s` is in two files, `%s` and `%s`", e.Name, refs[j].Name, refs[i].Name).OfTensor(e.Name)
			}
			seen[e.Name] = i
			e.Data.Extents = slices.Clone(e.Data.Extents)
			for j := range e.Data.Extents {
				e.Data.Extents[j].File = i
			}
			e.Seq += base
			out.Entries = append(out.Entries, e)
		}
		for _, l := range x.Leaves {
			l.Seq += base
			j := slices.IndexFunc(out.Leaves, func(o checkpoint.Leaf) bool { return o.Path.Equal(l.Path) })
			switch {
			case j < 0:
				out.Leaves = append(out.Leaves, l)
			case l.Value.Kind == checkpoint.Sized && out.Leaves[j].Value.Kind == checkpoint.Sized:
				// Each file has the containers of its own part of the tree.
			case l.Value != out.Leaves[j].Value:
				f.warn(diag.Warnf("leaf `%s` differs between the files of the checkpoint; the first value is taken", l.Path.Label()).InFile(refs[i].Name))
			}
		}
		for _, m := range x.Metadata {
			if !slices.ContainsFunc(out.Metadata, func(o checkpoint.KV) bool { return o.Key == m.Key }) {
				out.Metadata = append(out.Metadata, m)
			}
		}
		for _, c := range x.Checks {
			c.Range.File = i
			out.Checks = append(out.Checks, c)
		}
		out.Warnings = append(out.Warnings, x.Warnings...)
	}
	return out, sizes, nil
}

// strategy reads the strategy files that the options name; nil if they name
// none.
func (f *finder) strategy(ctx context.Context) (*layout.Strategy, error) {
	if len(f.Strategy) == 0 {
		return nil, nil
	}
	s, w, err := ReadStrategy(ctx, f.Options, f.Strategy)
	f.warnings = append(f.warnings, w...)
	if err != nil {
		return nil, &StrategyError{err}
	}
	return s, nil
}
