package command

import (
	"context"
	"fmt"
	"io"
	"path"

	"github.com/spf13/cobra"

	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/job"
	"github.com/seed-e934e81e/convert/core/seeded"
	"github.com/seed-e934e81e/convert/formats/mindspore"
)

func (a *app) generateCommand() *cobra.Command {
	var o GenerateOptions
	var size string
	c := &cobra.Command{
		Use:         "generate PATH",
		Short:       "write a checkpoint of random weights to try things with",
		Annotations: map[string]string{synopsis: "convert generate PATH"},
		Long: `
A GPT-like model with Adam states, cut as --mesh says, whose every byte follows
from the seed: PATH/src/rank_N/ and PATH/src_strategy.ckpt. With --to also the
strategy of a target, a job.toml that converts to it, and truth.json with the
digest of every tensor, which the job's manifest must repeat.`,
		Example: `  convert generate /tmp/try --size "1 GiB" --mesh dp=2,tp=4 --to dp=2,tp=2
  convert -f /tmp/try/job.toml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return diag.Errorf(diag.Usage, "`convert generate` takes one PATH, got %d", len(args))
			}
			return nil
		},
	}
	fs := c.Flags()
	fs.StringVar(&o.Words.Format, "format", "mindspore", "the `FORMAT` of the files")
	fs.StringVar(&o.Words.DType, "dtype", "f32", "the `TYPE` of the weights; states are f32")
	fs.StringVar(&o.Words.Mesh, "mesh", "dp=2,tp=4", "the source's `MESH`: pp, dp and tp")
	fs.StringVar(&o.Words.To, "to", "", "the target's `MESH`")
	fs.IntVar(&o.Opt, "optimizer-shard", -1, "slices of the source's optimizer shard: 0 none, -1 all")
	fs.IntVar(&o.ToOpt, "to-optimizer-shard", -1, "slices of the target's optimizer shard")
	fs.Uint64Var(&o.Seed, "seed", 1, "the same seed gives the same bytes")
	fs.StringVar(&size, "size", "", "about how many `BYTES` the model has, such as \"1 GiB\"; sets --layers")
	fs.IntVar(&o.Model.Layers, "layers", 4, "layers of the model")
	fs.IntVar(&o.Model.Hidden, "hidden", 1024, "width of the model")
	fs.IntVar(&o.Model.FFN, "ffn", 2816, "width of its feed-forward layers")
	fs.IntVar(&o.Model.Vocab, "vocab", 16000, "size of its vocabulary")
	fs.IntVar(&o.Model.States, "states", 2, "Adam states of each weight: 0, 1 or 2")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if size != "" {
			if o.Size, err = job.ParseSize(size); err != nil {
				return diag.Errorf(diag.Usage, "`--size %s`: %v", size, err)
			}
		}
		return a.report(c.Context(), func(ctx context.Context, progress func(view.Progress)) (*Report, error) {
			o.Verbose, o.Options.Progress = a.verbose, progress
			return a.core.Generate(ctx, args[0], o)
		})
	}
	return c
}

func (b builtin) generate(ctx context.Context, root string, o GenerateOptions) (*Report, error) {
	p := o.Project
	var err error
	if p.Format, err = formatOf(b.formats, o.Words.Format); err != nil {
		return nil, err
	}
	var ok bool
	if p.Model.DType, ok = dtype.Parse(o.Words.DType); !ok || p.Model.DType.Size() == 0 {
		return nil, diag.Errorf(diag.Usage, "`--dtype %s` is no type that can be generated", o.Words.DType).WithHint("for instance f32, f16 or bf16")
	}
	for _, n := range []int{p.Model.Layers, p.Model.Hidden, p.Model.FFN, p.Model.Vocab} {
		if n < 1 || n > 1<<24 {
			return nil, diag.Errorf(diag.Usage, "the model's sizes lie between 1 and %d", 1<<24)
		}
	}
	if p.Model.States < 0 || p.Model.States > 2 {
		return nil, diag.Errorf(diag.Usage, "`--states` is 0, 1 or 2")
	}
	if o.Size > 0 {
		p.Model = p.Model.Fit(o.Size)
	}
	if p.Source, err = seeded.ParseParallel(o.Words.Mesh); err != nil {
		return nil, err
	}
	p.Source.Opt = o.Opt
	if o.Words.To != "" {
		t, err := seeded.ParseParallel(o.Words.To)
		if err != nil {
			return nil, err
		}
		t.Opt = o.ToOpt
		p.Target = &t
	}
	p.Strategy = mindspore.WriteStrategy
	total := p.Model.Bytes()
	p.Progress = func(done, ranks int, bytes int64) {
		o.Options.Progress(view.Progress{Done: bytes, Total: max(total, bytes), FilesDone: done, Files: ranks})
	}
	n, err := p.Write(ctx, b.fs, root)
	if err != nil {
		return nil, err
	}
	doc := struct {
		Schema string `json:"schema"`
		Path   string `json:"path"`
		Ranks  int    `json:"ranks"`
		Layers int    `json:"layers"`
		Bytes  int64  `json:"bytes"`
	}{"convert/generate/v1", root, p.Source.Ranks(), p.Model.Layers, n}
	return &Report{Done: true, Document: doc, Text: func(w io.Writer, _ view.Style) error {
		fmt.Fprintf(w, "wrote %s in %s, %s, to %s\n", view.Bytes(n), view.Plural(int64(doc.Ranks), "file", "files"), view.Plural(int64(doc.Layers), "layer", "layers"), path.Join(root, "src"))
		if p.Target != nil {
			fmt.Fprintf(w, "convert it with `convert -f %s`\n", path.Join(root, "job.toml"))
		}
		return nil
	}}, nil
}

func formatOf(formats []checkpoint.Format, name string) (checkpoint.Format, error) {
	for _, f := range formats {
		if f.Describe().Name == name {
			return f, nil
		}
	}
	return nil, diag.Errorf(diag.Usage, "there is no format `%s`", name).WithHint("`convert formats` lists them")
}
