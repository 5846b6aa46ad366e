package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/diag"
)

// runCommand is `convert run`, and as the root `convert -f`.
func (a *app) runCommand(name string) *cobra.Command {
	var f jobFlags
	c := &cobra.Command{
		Use:         name,
		Short:       "plan, run and verify a job",
		Annotations: map[string]string{synopsis: "convert -f job.toml"},
		Args:        none,
		Long: `
Nothing is seen under the target's names before all of it is written: files are
made under temporary names, renamed at the end, the manifest last. An error or
an interruption leaves no half-written file.`,
		Example: `  convert -f job.toml
  convert -f job.toml --set target.path=/scratch/out --set run.workers=8
  convert run -f - --json < job.toml`,
	}
	f.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if c == a.root && f.file == "" {
			if err := a.helpOf(a.Stderr, a.root); err != nil {
				return err
			}
			return diag.Errorf(diag.Usage, "no job is given").WithHint("`convert -f job.toml` runs one, `convert help job` says how it is written")
		}
		j, err := a.load(c, &f)
		if err != nil {
			return err
		}
		return a.report(c.Context(), func(ctx context.Context, progress func(view.Progress)) (*Report, error) {
			return a.core.Run(ctx, j, f.options(a, progress))
		})
	}
	return c
}

// none refuses arguments.
func none(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return diag.Errorf(diag.Usage, "`convert %s` takes no `%s`", c.Name(), args[0]).WithHint("`convert %s --help` shows how it is called", c.Name())
}
