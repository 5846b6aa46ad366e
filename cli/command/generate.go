package command

import (
	"github.com/spf13/cobra"

	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/job"
)

func (a *app) generateCommand() *cobra.Command {
	var o GenerateOptions
	var size string
	c := &cobra.Command{
		Use:         "generate PATH",
		Short:       "write a checkpoint of random weights to try things with",
		Annotations: map[string]string{synopsis: "convert generate PATH"},
		Example:     "  convert generate /tmp/try --format mindspore --size \"64 MiB\" --seed 7",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return diag.Errorf(diag.Usage, "`convert generate` takes one PATH, got %d", len(args))
			}
			return nil
		},
	}
	c.Flags().StringVar(&o.Format, "format", "safetensors", "the `FORMAT` of the files")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "the same seed gives the same bytes")
	c.Flags().StringVar(&size, "size", "16 MiB", "about how many bytes")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if o.Size, err = job.ParseSize(size); err != nil {
			return diag.Errorf(diag.Usage, "`--size %s`: %v", size, err)
		}
		var r *Report
		err = a.watch(func(progress func(view.Progress)) (err error) {
			o.Verbose, o.Progress = a.verbose, progress
			r, err = a.core.Generate(c.Context(), args[0], o)
			return err
		})
		if err != nil {
			return err
		}
		return a.show(r)
	}
	return c
}
