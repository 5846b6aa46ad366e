package command

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/diag"
)

func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:         "completion SHELL",
		Short:       "print completions for " + strings.Join(shells[:3], ", ") + " or " + shells[3],
		Annotations: map[string]string{synopsis: "convert completion SHELL"},
		ValidArgs:   shells,
		Example: `  source <(convert completion bash)
  convert completion zsh > "${fpath[1]}/_convert"
  convert completion fish > ~/.config/fish/completions/convert.fish`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return diag.Errorf(diag.Usage, "`convert completion` takes one SHELL").WithHint("it can be %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			write := map[string]func(io.Writer) error{
				"bash":       func(w io.Writer) error { return a.root.GenBashCompletionV2(w, true) },
				"zsh":        a.root.GenZshCompletion,
				"fish":       func(w io.Writer) error { return a.root.GenFishCompletion(w, true) },
				"powershell": a.root.GenPowerShellCompletionWithDesc,
			}[args[0]]
			if write == nil {
				return diag.Errorf(diag.Usage, "no completions for `%s`", args[0]).WithHint("it can be %s", strings.Join(shells, ", "))
			}
			a.json = false // a script is a script
			return a.print(nil, func(w io.Writer, _ view.Style) error { return write(w) })
		},
	}
}
