package seeded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/storage"
)

// Project is a checkpoint, its strategy, and a job that converts it.
type Project struct {
	Model  Model
	Source Parallel
	Target *Parallel // nil: no job is written
	Format checkpoint.Format
	Seed   uint64

	// Strategy writes a strategy file.
	Strategy func(*layout.Strategy) []byte

	// Progress is told how many ranks of how many are written. It may be nil.
	Progress func(done, total int, bytes int64)
}

// Write writes the project below root: src/rank_N/, src_strategy.ckpt, and for
// a target dst_strategy.ckpt, job.toml and truth.json, which has the digest of
// every whole tensor.
func (p *Project) Write(ctx context.Context, fs storage.FS, root string) (bytes int64, err error) {
	tensors, err := p.Model.Tensors(p.Source)
	if err != nil {
		return 0, err
	}
	if p.Target != nil {
		if _, err := p.Model.Tensors(*p.Target); err != nil {
			return 0, err
		}
	}
	if _, err := fs.Stat(ctx, path.Join(root, "src")); err == nil {
		return 0, diag.Errorf(diag.Usage, "`%s` exists", path.Join(root, "src")).WithHint("choose a folder without a checkpoint in it")
	}
	ext := p.Format.Describe().Extensions[0]
	for r := range p.Source.Ranks() {
		name := path.Join(root, "src", fmt.Sprintf("rank_%d", r), fmt.Sprintf("seeded_rank_%d-1_%d%s", r, Step, ext))
		n, err := WriteRank(ctx, fs, name, p.Format, tensors, p.Source, r, p.Seed)
		if err != nil {
			return bytes, err
		}
		bytes += n
		if p.Progress != nil {
			p.Progress(r+1, p.Source.Ranks(), bytes)
		}
	}
	if err := p.strategy(ctx, fs, path.Join(root, "src_strategy.ckpt"), p.Source); err != nil {
		return bytes, err
	}
	if p.Target == nil {
		return bytes, nil
	}
	if err := p.strategy(ctx, fs, path.Join(root, "dst_strategy.ckpt"), *p.Target); err != nil {
		return bytes, err
	}
	if err := put(ctx, fs, path.Join(root, "job.toml"), []byte(jobText)); err != nil {
		return bytes, err
	}
	return bytes, put(ctx, fs, path.Join(root, "truth.json"), Truth(tensors, p.Seed))
}

const jobText = `# Written by "convert generate"; run it with "convert -f job.toml".
version = 1

[source]
path     = "src"
strategy = "src_strategy.ckpt"

[target]
path     = "out"
strategy = "dst_strategy.ckpt"
`

func (p *Project) strategy(ctx context.Context, fs storage.FS, name string, par Parallel) error {
	t, err := p.Model.Tensors(par)
	if err != nil {
		return err
	}
	s, err := Strategy(t, par)
	if err != nil {
		return err
	}
	return put(ctx, fs, name, p.Strategy(s))
}

// Truth is the digests of the whole tensors, as JSON: {"tensors": {name: hex}}.
func Truth(tensors []Tensor, seed uint64) []byte {
	d := struct {
		Digest  string            `json:"digest"`
		Tensors map[string]string `json:"tensors"`
	}{"crc64nvme", make(map[string]string, len(tensors))}
	for i := range tensors {
		d.Tensors[tensors[i].Name] = fmt.Sprintf("%016x", tensors[i].Digest(seed))
	}
	b, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		panic("internal error: a map of strings is JSON: " + err.Error())
	}
	return append(b, '\n')
}

// put writes a small file.
func put(ctx context.Context, fs storage.FS, name string, p []byte) (err error) {
	w, err := fs.Create(ctx, name, int64(len(p)), storage.CreateOptions{Replace: true})
	if err != nil {
		return diag.Errorf(diag.Failed, "cannot create").InFile(name).Wrap(err)
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	if _, err := w.WriteAt(p, 0); err != nil {
		return diag.Errorf(diag.Failed, "cannot write").InFile(name).Wrap(err)
	}
	if err := w.Sync(); err != nil {
		return diag.Errorf(diag.Failed, "cannot make durable").InFile(name).Wrap(err)
	}
	return w.Publish()
}

// ParseParallel reads "pp=1,dp=2,tp=4"; axes that are left out are 1.
func ParseParallel(s string) (Parallel, error) {
	p := Parallel{PP: 1, DP: 1, TP: 1}
	for _, part := range strings.Split(s, ",") {
		k, v, ok := strings.Cut(strings.TrimSpace(part), "=")
		n := 0
		if _, err := fmt.Sscanf(v, "%d", &n); !ok || err != nil || n < 1 || n > 1<<20 {
			return p, diag.Errorf(diag.Usage, "`%s` is no mesh", s).WithHint("write it as pp=1,dp=2,tp=4")
		}
		switch k {
		case "pp":
			p.PP = n
		case "dp":
			p.DP = n
		case "tp":
			p.TP = n
		default:
			return p, diag.Errorf(diag.Usage, "a seeded mesh has no axis `%s`", k).WithHint("its axes are pp, dp and tp")
		}
	}
	return p, nil
}
