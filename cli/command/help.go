package command

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-e934e81e/convert/cli/help"
	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/job"
)

func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:         "help [TOPIC]",
		Short:       "explain a topic or a command",
		Annotations: map[string]string{synopsis: "convert help TOPIC"},
		ValidArgs:   help.Names(),
		Long:        "Topics: " + strings.Join(help.Names(), ", "),
		RunE: func(_ *cobra.Command, args []string) error {
			a.json = false // help is for people
			return a.print(nil, func(w io.Writer, _ view.Style) error { return a.explain(w, args) })
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || a.topic(args[0]) {
				return nil
			}
			d := diag.Errorf(diag.Usage, "no help on `%s`", args[0])
			names := help.Names()
			for _, c := range a.commands {
				names = append(names, c.Name())
			}
			if near, ok := job.Nearest(args[0], names); ok {
				return d.WithHint("did you mean `convert help %s`?", near)
			}
			return d.WithHint("topics: %s", strings.Join(help.Names(), ", "))
		},
	}
}

// topic reports whether there is help on a word.
func (a *app) topic(word string) bool {
	_, ok := help.Find(word)
	return ok || a.command(word) != nil
}

func (a *app) command(name string) *cobra.Command {
	for _, c := range a.commands {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

func (a *app) explain(w io.Writer, args []string) error {
	if len(args) == 0 {
		return a.helpOf(w, a.root)
	}
	if text, ok := help.Find(args[0]); ok {
		_, err := io.WriteString(w, text)
		return err
	}
	return a.helpOf(w, a.command(args[0]))
}
