package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"time"

	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/engine"
	"github.com/seed-e934e81e/convert/core/job"
	"github.com/seed-e934e81e/convert/core/manifest"
	"github.com/seed-e934e81e/convert/core/pipeline"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/all"
)

// Builtin is the core with the formats that are built in.
func Builtin() Core {
	b := builtin{fs: storage.NewLocal(storage.LocalOptions{}), formats: all.Formats()}
	return Core{Formats: b.formats, Run: b.run, Plan: b.plan, Inspect: b.inspect, Generate: b.generate}
}

// builtin joins the commands and the core.
type builtin struct {
	fs      storage.FS
	formats []checkpoint.Format
}

func (b builtin) env(o Options) pipeline.Env {
	return pipeline.Env{FS: b.fs, Formats: b.formats, Strategies: all.Strategies, Strict: o.Strict, PerRank: o.PerRank, Yield: runtime.Gosched}
}

func (b builtin) plan(ctx context.Context, j *job.Job, o PlanOptions) (*Report, error) {
	r, err := pipeline.Make(ctx, j, b.env(o.Options))
	if err != nil {
		return nil, err
	}
	d := view.NewPlanDocument(r.Plan, engine.PeakMemory(r.Plan, r.Options), r.Warnings, o.All)
	return &Report{
		Document: d, Warnings: r.Warnings,
		Text: func(w io.Writer, s view.Style) error {
			return view.PlanText(w, s, r.Plan, d, j.Source.Path.String(), j.Target.Path.String(), o.By, o.All)
		},
	}, nil
}

func (b builtin) run(ctx context.Context, j *job.Job, o Options) (*Report, error) {
	b.fs = storage.NewLocal(storage.LocalOptions{Mode: j.Run.IO})
	r, err := pipeline.Make(ctx, j, b.env(o))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(j.Text)
	e := r.Options
	e.Now = time.Now
	e.Program = manifest.Program{Name: "convert", Version: about().Version}
	e.Job = manifest.Job{Name: path.Base(j.Name), SHA256: hex.EncodeToString(sum[:])}
	e.Events = func(v engine.Event) {
		o.Progress(view.Progress{Done: v.Done, Total: v.Total, FilesDone: v.FilesDone, Files: v.Files, File: v.File, Tensor: v.Tensor})
	}
	if limit, ok := storage.MemoryLimit(); ok && e.Memory > limit*3/4 {
		r.Warnings = append(r.Warnings, diag.Warnf("`run.memory` is %s, the container has %s: %s are used", view.Bytes(e.Memory), view.Bytes(limit), view.Bytes(limit*3/4)))
		e.Memory = limit * 3 / 4
	}
	if least := engine.MinMemory(e.Workers); e.Memory < least {
		r.Warnings = append(r.Warnings, diag.Warnf("`run.memory` = %s is not enough for %d workers, which take %s", view.Bytes(e.Memory), e.Workers, view.Bytes(least)).
			WithHint("use fewer workers, or give them more memory"))
	}
	res, err := engine.Run(ctx, r.Plan, e)
	if err != nil {
		return nil, pipeline.At(err, j, "target.path")
	}
	if l, ok := b.fs.(*storage.Local); ok && o.Verbose {
		res.Warnings = append(res.Warnings, transfers(l.Stats()))
	}
	d := view.NewRunDocument(r.Plan, e, res)
	warnings := append(r.Warnings, res.Warnings...)
	d.Warnings = view.Warnings(warnings)
	return &Report{
		Done: true, Document: d, Warnings: warnings,
		Text: func(w io.Writer, s view.Style) error { return view.RunText(w, s, r.Plan, e, res) },
	}, nil
}

// transfers tells which way the bytes went.
func transfers(s storage.Stats) *diag.Diagnostic {
	text := fmt.Sprintf("read %s around the page cache and %s through it, wrote %s around it and %s through it",
		view.Bytes(s.DirectRead), view.Bytes(s.BufferedRead), view.Bytes(s.DirectWrite), view.Bytes(s.BufferedWrite))
	if s.Refused > 0 {
		text += fmt.Sprintf("; the file system refused direct transfers %s", view.Plural(s.Refused, "time", "times"))
	}
	return &diag.Diagnostic{Severity: diag.Note, Summary: text}
}

func (b builtin) inspect(ctx context.Context, name string, o InspectOptions) (*Report, error) {
	if _, err := b.fs.Stat(ctx, name); errors.Is(err, fs.ErrNotExist) {
		return nil, diag.Errorf(diag.Usage, "there is no `%s`", name)
	}
	c, err := ranks.Open(ctx, name, ranks.Options{
		FS: b.fs, Formats: b.formats, Strategies: all.Strategies, Strict: o.Strict, Select: "newest", PerRank: true,
	})
	if err != nil {
		return nil, err
	}
	d := &view.InspectDocument{Schema: view.InspectSchema, Format: c.Format, Tensors: []view.TensorDocument{}, Leaves: []view.LeafDocument{}, Metadata: map[string]string{}, Warnings: view.Warnings(c.Warnings)}
	reader := engine.NewReader(b.fs, c)
	defer reader.Close() //nolint:errcheck // files that were only read
	var size int64
	for i := range c.Ranks {
		r := &c.Ranks[i]
		for _, f := range r.Files {
			size += f.Size
		}
		if err := b.rank(ctx, d, reader, r, len(c.Ranks) > 1, o); err != nil {
			return nil, err
		}
	}
	return &Report{
		Document: d, Warnings: c.Warnings,
		Text: func(w io.Writer, s view.Style) error { return view.InspectText(w, s, d, name, size) },
	}, nil
}

// rank adds what one rank holds.
func (b builtin) rank(ctx context.Context, d *view.InspectDocument, reader *engine.Reader, r *checkpoint.Rank, several bool, o InspectOptions) error {
	var id *int
	if several {
		id = &r.ID
	}
	x := r.Header.Index
	for i := range x.Entries {
		e := &x.Entries[i]
		if o.Match != nil && !o.Match.Match(e.Name) {
			continue
		}
		n, _ := e.DType.Bytes(e.Shape)
		t := view.TensorDocument{
			Name: checkpoint.JSONName(e.PathOrName().Label()), Path: view.PathDocument(e.PathOrName()), DType: e.DType.String(),
			Shape: append([]int64{}, e.Shape...), Bytes: n, Rank: id,
		}
		if o.SHA256 {
			h := sha256.New()
			err := reader.Stream(ctx, r.ID, e, func(p []byte) error { h.Write(p); return nil })
			if err != nil {
				return fmt.Errorf("`%s`: %w", e.Name, err)
			}
			t.SHA256 = hex.EncodeToString(h.Sum(nil))
		}
		d.Tensors = append(d.Tensors, t)
	}
	for _, l := range x.Leaves {
		d.Leaves = append(d.Leaves, view.LeafDocument{Path: view.PathDocument(l.Path), Type: l.Type, Value: view.ValueDocument(l.Value), Rank: id})
	}
	for _, m := range x.Metadata {
		d.Metadata[m.Key] = m.Value
	}
	return nil
}
