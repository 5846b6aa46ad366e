package command

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/seed-e934e81e/convert/cli/view"
)

// build is what the program knows of how it was built.
type build struct {
	Schema   string `json:"schema"`
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"`     // of the commit
	Modified bool   `json:"modified,omitempty"` // the tree had changes that no commit holds
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// about reads what the Go linker has written down.
func about() build {
	b := build{Schema: "convert/version/v1", Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) line() string {
	s := "convert " + b.Version
	if b.Commit != "" {
		s += fmt.Sprintf(" (commit %.12s)", b.Commit)
	}
	return s + fmt.Sprintf(" %s %s", b.Go, b.Platform)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:         "version",
		Short:       "print the version",
		Annotations: map[string]string{synopsis: "convert version"},
		Args:        none,
		RunE: func(*cobra.Command, []string) error {
			b := about()
			return a.print(b, func(w io.Writer, _ view.Style) error {
				_, err := fmt.Fprintln(w, b.line())
				return err
			})
		},
	}
}
