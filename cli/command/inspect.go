package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/job"
)

func (a *app) inspectCommand() *cobra.Command {
	var o InspectOptions
	var match string
	c := &cobra.Command{
		Use:         "inspect PATH",
		Short:       "list tensors, leaves and metadata",
		Annotations: map[string]string{synopsis: "convert inspect PATH"},
		Long: `
PATH is a file, or a folder with one checkpoint. Only headers are read, and
nothing of what a file says is executed. --sha256 reads the tensors as well:
each sum is of the tensor's contiguous little-endian bytes.`,
		Example: `  convert inspect ckpt/rank_5
  convert inspect model.safetensors --match '*.attention.w[qkv].weight'
  convert inspect pytorch_model.bin --json --sha256`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return diag.Errorf(diag.Usage, "`convert inspect` takes one PATH, got %d", len(args)).WithHint("for instance `convert inspect ckpt/rank_0`")
			}
			return nil
		},
	}
	c.Flags().StringVar(&match, "match", "", "only tensors with names that match a `GLOB`")
	c.Flags().BoolVar(&o.SHA256, "sha256", false, "add the SHA-256 of each tensor's bytes")
	c.Flags().BoolVar(&o.Strict, "strict", false, "oddities in files are errors")
	c.RunE = func(c *cobra.Command, args []string) error {
		if match != "" {
			g, err := job.CompileGlob(match)
			if err != nil {
				return diag.Errorf(diag.Usage, "`--match %s` is no glob: %v", match, err)
			}
			o.Match = &g
		}
		return a.report(c.Context(), func(ctx context.Context, progress func(view.Progress)) (*Report, error) {
			o.Verbose, o.Progress = a.verbose, progress
			return a.core.Inspect(ctx, args[0], o)
		})
	}
	return c
}
