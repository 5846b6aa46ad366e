package command

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-e934e81e/convert/cli/help"
	"github.com/seed-e934e81e/convert/cli/view"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/job"
)

// synopsis is the annotation with the line that the help shows of a command.
const synopsis = "synopsis"

// build makes the tree of commands.
func (a *app) build() {
	a.root = a.runCommand("convert")
	r := a.root
	r.Short = "convert reshards and converts distributed checkpoints, bit for bit"
	r.Long = ""
	r.SilenceErrors, r.SilenceUsage = true, true
	r.CompletionOptions.DisableDefaultCmd = true
	r.Version = about().line()
	r.SetVersionTemplate("{{.Version}}\n")
	r.SetOut(a.Stdout)
	r.SetErr(a.Stderr)
	r.SetFlagErrorFunc(flagError)
	r.SetHelpFunc(func(c *cobra.Command, _ []string) { _ = a.helpOf(a.Stdout, c) })
	r.Args = a.rootArgs
	r.PersistentFlags().BoolVar(&a.json, "json", false, "write the result as JSON")
	r.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "show errors only")
	r.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "show more")
	r.PersistentFlags().Var(&word{(*string)(&a.color), []string{"auto", "always", "never"}, "WHEN"}, "color", "colours: auto, always or never")
	r.PersistentFlags().Var(&word{(*string)(&a.progress), []string{"auto", "tty", "plain", "json", "none"}, "HOW"}, "progress", "progress: auto, tty, plain, json or none")

	a.commands = []*cobra.Command{
		a.runCommand("run"),
		a.planCommand(),
		a.inspectCommand(),
		a.formatsCommand(),
	}
	if a.core.Generate != nil {
		a.commands = append(a.commands, a.generateCommand())
	}
	a.commands = append(a.commands, a.versionCommand(), a.completionCommand(), a.helpCommand())
	r.AddCommand(a.commands...)
	r.SetHelpCommand(a.commands[len(a.commands)-1])
}

// rootArgs refuses what is no command, and says what may have been meant.
func (a *app) rootArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	word := args[0]
	d := diag.Errorf(diag.Usage, "unknown command `%s`", word)
	names := make([]string, len(a.commands))
	for i, x := range a.commands {
		names[i] = x.Name()
	}
	if near, ok := job.Nearest(word, names); ok {
		return d.WithHint("did you mean `convert %s`?", near)
	}
	switch strings.ToLower(filepath.Ext(word)) {
	case ".toml":
		return d.WithHint("a job is given by `-f`: `convert -f %s`", word)
	case ".ckpt", ".safetensors", ".pt", ".pth", ".bin":
		return d.WithHint("to see what a checkpoint holds: `convert inspect %s`", word)
	case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".pdf", ".tif", ".tiff", ".bmp", ".ico":
		return d.WithHint("this program converts checkpoints; ImageMagick has a `convert` too, call it as `magick`")
	}
	return d.WithHint("`convert help` lists the commands")
}

// flagError gives the flag parser's errors the form of all others.
func flagError(c *cobra.Command, err error) error {
	hint := fmt.Sprintf("`%s --help` lists the flags", c.CommandPath())
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		why := value.Unwrap()
		if number := (*strconv.NumError)(nil); errors.As(why, &number) {
			why = number.Err
		}
		return diag.Errorf(diag.Usage, "`--%s` cannot be `%s`", value.GetFlag().Name, value.GetValue()).Wrap(why).WithHint("%s", hint)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return diag.Errorf(diag.Usage, "%v", err).WithHint("%s", hint)
	}
	name := unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		return diag.Errorf(diag.Usage, "unknown flag `-%s`", name).WithHint("%s", hint)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near, ok := job.Nearest(name, names); ok {
		hint = fmt.Sprintf("did you mean `--%s`?", near)
	}
	return diag.Errorf(diag.Usage, "unknown flag `--%s`", name).WithHint("%s", hint)
}

// word is a flag that takes one of several words.
type word struct {
	dst   *string
	words []string
	kind  string // what the help calls the value
}

func (w *word) String() string {
	if w.dst == nil {
		return ""
	}
	return *w.dst
}

func (w *word) Set(s string) error {
	for _, x := range w.words {
		if s == x {
			*w.dst = s
			return nil
		}
	}
	return fmt.Errorf("it can be %s", strings.Join(w.words, ", "))
}

func (w *word) Type() string { return w.kind }

// helpOf writes the help of a command.
func (a *app) helpOf(out io.Writer, c *cobra.Command) error {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	var b strings.Builder
	if c == a.root {
		a.rootHelp(&b)
	} else {
		fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", c.Short, c.Annotations[synopsis])
		if c.Long != "" {
			fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.Long))
		}
		if c.Example != "" {
			fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
		}
	}
	if f := c.LocalNonPersistentFlags().FlagUsages(); f != "" {
		fmt.Fprintf(&b, "\nFlags:\n%s", f)
	}
	fmt.Fprintf(&b, "\nFlags everywhere:\n%s", a.root.PersistentFlags().FlagUsages())
	_, err := io.WriteString(out, b.String())
	return err
}

func (a *app) rootHelp(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n\nUsage:\n", a.root.Short)
	t := view.Table{Columns: make([]view.Column, 2)}
	for _, c := range a.commands {
		t.Rows = append(t.Rows, []string{"  " + c.Annotations[synopsis], c.Short})
	}
	_ = t.Write(b, view.Style{}) // a strings.Builder takes everything
	b.WriteString("\nStart here:\n  convert inspect ./ckpt && convert help job\n")
	fmt.Fprintf(b, "\nTopics: convert help %s\n", strings.Join(help.Names(), " | "))
}
