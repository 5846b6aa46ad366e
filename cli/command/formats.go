package command

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-e934e81e/convert/cli/view"
)

// formatDocument is one format in `convert formats --json`.
type formatDocument struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Read       bool     `json:"read"`
	Write      bool     `json:"write"`
	Extensions []string `json:"extensions"`
	Covers     string   `json:"covers"`
}

func (a *app) formatsCommand() *cobra.Command {
	return &cobra.Command{
		Use:         "formats",
		Short:       "list formats",
		Annotations: map[string]string{synopsis: "convert formats"},
		Args:        none,
		RunE: func(*cobra.Command, []string) error {
			doc := struct {
				Schema  string           `json:"schema"`
				Formats []formatDocument `json:"formats"`
			}{"convert/formats/v1", []formatDocument{}}
			for _, f := range a.core.Formats {
				d := f.Describe()
				doc.Formats = append(doc.Formats, formatDocument{d.Name, d.Title, d.Read, d.Write, append([]string{}, d.Extensions...), d.Covers})
			}
			return a.print(doc, func(w io.Writer, s view.Style) error { return formatsText(w, s, doc.Formats) })
		},
	}
}

func formatsText(w io.Writer, s view.Style, formats []formatDocument) error {
	t := view.Table{Columns: []view.Column{{Head: "NAME"}, {Head: "READ"}, {Head: "WRITE"}, {Head: "FILES"}, {Head: "COVERS", Least: 20}}}
	for _, f := range formats {
		t.Rows = append(t.Rows, []string{f.Name, yes(f.Read), yes(f.Write), strings.Join(f.Extensions, " "), f.Covers})
	}
	return t.Write(w, s)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
