// Package pipeline is the way from a job to a plan and to the engine's
// options: it opens the source, reads the strategies, and names the outputs.
// The command line, and whatever else runs jobs, goes through it.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/engine"
	"github.com/seed-e934e81e/convert/core/job"
	"github.com/seed-e934e81e/convert/core/mapping"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/core/storage"
)

// Env is what a job is run in.
type Env struct {
	FS         storage.FS
	Formats    []checkpoint.Format
	Strategies ranks.StrategyReader
	Strict     bool
	PerRank    bool
	Yield      func()
}

// format finds a format by the word that jobs use.
func (e *Env) format(name string) (checkpoint.Format, error) {
	var known []string
	for _, f := range e.Formats {
		d := f.Describe()
		if d.Name == name {
			return f, nil
		}
		known = append(known, d.Name)
	}
	return nil, diag.Errorf(diag.Usage, "there is no format `%s`", name).WithHint("formats are %s", strings.Join(known, ", "))
}

// Source opens the source of a job.
func Source(ctx context.Context, j *job.Job, e Env) (*checkpoint.Checkpoint, error) {
	if j.Source.Format != "" {
		if _, err := e.format(j.Source.Format); err != nil {
			return nil, At(err, j, "source.format")
		}
	}
	o := ranks.Options{
		FS: e.FS, Formats: e.Formats, Format: j.Source.Format, Strategies: e.Strategies, Strategy: full(j.Source.Strategy),
		Select: string(j.Source.Select.Rule), Strict: e.Strict, PerRank: e.perRank(j),
		TargetPlaced: len(j.Target.Strategy) > 0 || j.Target.Mesh != nil,
	}
	if j.Source.Select.Rule == job.SelectGlob {
		o.Select, o.Match = j.Source.Select.Glob.String(), j.Source.Select.Glob.Match
	}
	if r, ok := j.SourceRules(); ok {
		o.Rules = r
	}
	if err := local(j); err != nil {
		return nil, err
	}
	if err := e.alone(j); err != nil {
		return nil, err
	}
	c, err := ranks.Open(ctx, j.Source.Path.Full, o)
	if s := (*ranks.StrategyError)(nil); errors.As(err, &s) {
		return nil, At(err, j, "source.strategy")
	}
	if err != nil {
		return nil, At(err, j, "source.path")
	}
	if e.PerRank && (len(j.Source.Strategy) > 0 || j.Source.Mesh != nil) {
		c.Warnings = append(slices.Clip(c.Warnings), diag.Warnf("the source's strategy is not used with `--per-rank`"))
	}
	return c, nil
}

// local refuses paths that look like something else than a file's: they would
// be taken for folders of strange names.
func local(j *job.Job) error {
	var bad diag.List
	check := func(key string, paths ...job.Path) {
		for _, p := range paths {
			text := p.String()
			switch {
			case strings.Contains(text, "://"):
				bad = append(bad, diag.Errorf(diag.Usage, "`%s` = `%s`: only local files are read and written", key, text).
					WithHint("mount the store, or copy the files first"))
			case text == "~" || strings.HasPrefix(text, "~/"):
				bad = append(bad, diag.Errorf(diag.Usage, "`%s` = `%s`: `~` is not expanded", key, text).
					WithHint("write `${HOME}%s`", text[1:]))
			}
		}
	}
	check("source.path", j.Source.Path)
	check("source.strategy", j.Source.Strategy...)
	check("target.path", j.Target.Path)
	check("target.strategy", j.Target.Strategy...)
	if len(bad) == 0 {
		return nil
	}
	return At(bad, j, "")
}

// alone refuses a job that cuts anew what is to be converted rank by rank.
func (e *Env) alone(j *job.Job) error {
	key := placed(j)
	if !e.PerRank || key == "target" {
		return nil
	}
	return At(diag.Errorf(diag.Usage, "`--per-rank` converts each rank's file for itself, and `%s` asks for other ranks", key).
		WithHint("leave one of them out"), j, key)
}

// perRank: every rank's file is converted as it is, because the user says so
// or names the ranks, and no strategy tells how they belong together.
func (e *Env) perRank(j *job.Job) bool {
	none := len(j.Source.Strategy) == 0 && j.Source.Mesh == nil && len(j.Target.Strategy) == 0 && j.Target.Mesh == nil
	return e.PerRank || none && j.Target.Ranks != nil
}

func full(paths []job.Path) []string {
	var out []string
	for _, p := range paths {
		out = append(out, p.Full)
	}
	return out
}

// named is a key of the job that a summary names.
var named = regexp.MustCompile("`((?:source|target|run|verify)\\.[a-z_]+)`")

// At gives a mistake in the job its place in the job file: at the key that its
// summary names, else at the one given.
func At(err error, j *job.Job, key string) error {
	for _, d := range diag.From(err) {
		if d.Code == diag.Usage && d.Subject.Line == 0 && d.Subject.File == "" {
			tensor, rank, has := d.Subject.Tensor, d.Subject.Rank, d.Subject.HasRank
			key := key
			if m := named.FindStringSubmatch(d.Summary); m != nil {
				key = m[1]
			}
			d.Subject = j.Place(key)
			d.Subject.Tensor, d.Subject.Rank, d.Subject.HasRank = tensor, rank, has
		}
	}
	return err
}

// placed is the key that says how the target's tensors lie.
func placed(j *job.Job) string {
	switch {
	case len(j.Target.Strategy) > 0:
		return "target.strategy"
	case j.Target.Mesh != nil:
		return "target.mesh"
	}
	return "target"
}

// Ready is a planned job, ready to run.
type Ready struct {
	Plan     *plan.Plan
	Options  engine.Options // FS, folders and settings; clock and events are the caller's
	Warnings diag.List
}

// Make plans a job.
func Make(ctx context.Context, j *job.Job, e Env) (*Ready, error) {
	src, err := Source(ctx, j, e)
	if err != nil {
		return nil, err
	}
	return Plan(ctx, j, e, src)
}

// Plan plans a job whose source is open.
func Plan(ctx context.Context, j *job.Job, e Env, src *checkpoint.Checkpoint) (*Ready, error) {
	name := j.Target.Format
	if name == "" {
		name = src.Format
	}
	f, err := e.format(name)
	if err != nil {
		return nil, At(err, j, "target.format")
	}
	if !f.Describe().Write {
		return nil, At(diag.Errorf(diag.Usage, "`%s` can be read, not written", name), j, "target.format")
	}
	m, err := mapping.Compile(j.Maps)
	if err != nil {
		return nil, At(diag.Errorf(diag.Usage, "%v", err), j, "map")
	}
	q := plan.Request{
		Source: src, Format: f, Mapping: m, DType: j.Target.DType, Yield: e.Yield, Ranks: j.Target.Ranks,
		Prefix: j.Target.Prefix, MaxFileSize: j.Target.MaxFileSize,
		Missing: plan.Policy(j.Target.Missing), Leftovers: plan.Policy(j.Target.Leftovers), Replicas: plan.Policy(j.Source.Replicas),
		Compare: plan.Compare(j.Verify.Replicas), Trailer: j.Target.CRC, Link: j.Target.Replicas == job.CopiesLink,
	}
	if j.Target.CRC && !f.Describe().Trailer {
		return nil, At(diag.Errorf(diag.Usage, "`target.crc` is MindSpore's trailer; %s files have none", name), j, "target.crc")
	}
	ready := &Ready{Warnings: src.Warnings}
	if len(j.Target.Strategy) > 0 {
		o := ranks.Options{FS: e.FS, Formats: e.Formats, Strategies: e.Strategies}
		s, w, err := ranks.ReadStrategy(ctx, o, full(j.Target.Strategy))
		if err != nil {
			return nil, At(err, j, "target.strategy")
		}
		q.Strategy = s
		ready.Warnings = append(slices.Clip(ready.Warnings), w...)
	}
	if r, ok := j.TargetRules(); ok {
		q.Rules = r
	}
	root, manifestName, err := outputs(j, &q, e)
	if err != nil {
		return nil, err
	}
	p, err := plan.Make(ctx, q)
	if cast := (*mapping.CastError)(nil); errors.As(err, &cast) {
		return nil, At(err, j, fmt.Sprintf("map[%d].dtype", cast.Rule))
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		// What was odd about the source may be why.
		return nil, append(diag.From(At(err, j, placed(j))), ready.Warnings...)
	}
	ready.Plan = p
	ready.Warnings = append(slices.Clip(ready.Warnings), p.Warnings...)
	if d := sparse(p); d != nil {
		ready.Warnings = append(ready.Warnings, d)
	}
	ready.Options = engine.Options{
		FS: e.FS, Root: j.Source.Path.Full, Target: root, Manifest: manifestName,
		Workers: j.Run.Workers, Memory: j.Run.Memory, IO: j.Run.IO, OnExists: engine.OnExists(j.Run.OnExists),
		Verify: engine.Verify(j.Verify.Mode), SHA256: j.Verify.SHA256, CRC: j.Source.CRC == job.CRCCheck, Strict: e.Strict,
	}
	return ready, nil
}

// sparse warns that another format keeps the parts of sparse tensors, and not
// what makes them one.
func sparse(p *plan.Plan) *diag.Diagnostic {
	if p.Format.Describe().Name == p.Source.Format {
		return nil
	}
	for i := range p.Tensors {
		if t := &p.Tensors[i]; slices.ContainsFunc(t.Path, func(x checkpoint.Part) bool { return x.Kind == checkpoint.SparsePart }) {
			return diag.Warnf("sparse tensors are written as their parts, such as `%s`: %s files do not tell that they are sparse, nor their shape", t.Name, p.Format.Describe().Name).
				OfTensor(t.Name)
		}
	}
	return nil
}

// outputs names the target's files (specs/job.md, "Names of outputs").
func outputs(j *job.Job, q *plan.Request, e Env) (root, manifest string, err error) {
	const name = "convert.manifest.json"
	p := j.Target.Path.Full
	q.Folder = q.Strategy != nil || q.Rules != nil || j.Target.HasPrefix || q.Source.PerRank
	if q.Folder {
		return p, name, nil
	}
	for _, f := range e.Formats {
		for _, x := range f.Describe().Extensions {
			if !strings.HasSuffix(p, x) || path.Base(p) == x {
				continue
			}
			if f.Describe().Name != q.Format.Describe().Name {
				d := diag.Errorf(diag.Usage, "`target.path` ends in %s, the target's format is %s", x, q.Format.Describe().Name)
				return "", "", At(d.WithHint("set `target.format`, or change the path"), j, "target.path")
			}
			q.File = path.Base(p)
			return path.Dir(p), q.File + ".manifest.json", nil
		}
	}
	q.File = "model" + q.Format.Describe().Extensions[0]
	return p, name, nil
}
