package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-e934e81e/convert/cli/view"
)

func (a *app) planCommand() *cobra.Command {
	var f jobFlags
	var all bool
	var by string
	c := &cobra.Command{
		Use:         "plan",
		Short:       "show what would be read and written",
		Annotations: map[string]string{synopsis: "convert plan -f job.toml"},
		Args:        none,
		Long: `
Only headers are read, and nothing is written. The plan's digest is the same on
every machine for the same job and the same source files.`,
		Example: `  convert plan -f job.toml
  convert plan -f job.toml --by rank
  convert plan -f job.toml --json | jq -r .digest`,
	}
	f.add(c)
	c.Flags().BoolVar(&all, "all", false, "show lists whole")
	c.Flags().Var(&word{&by, []string{string(view.ByTensor), string(view.ByRank), string(view.ByFile)}, "WHAT"}, "by", "break down by tensor, rank or file")
	c.RunE = func(c *cobra.Command, _ []string) error {
		j, err := a.load(c, &f)
		if err != nil {
			return err
		}
		return a.report(c.Context(), func(ctx context.Context, progress func(view.Progress)) (*Report, error) {
			return a.core.Plan(ctx, j, PlanOptions{Options: f.options(a, progress), All: all, By: view.By(by)})
		})
	}
	return c
}
