package view

import (
	"fmt"
	"io"
	"strings"
)

// Column is one column of a table.
type Column struct {
	Head  string
	Right bool // numbers stand on the right
	Least int  // the least width that it is cut to; 0 if it is never cut
}

// Table is rows of text under heads. It is drawn to fit the terminal: where it
// is too wide, the columns that may be cut lose what is over, the widest
// first. Cells are cleaned.
type Table struct {
	Columns []Column // without any Head the table has no first line
	Rows    [][]string
}

const gap = 2 // between columns

// Write draws the table.
func (t Table) Write(w io.Writer, s Style) error {
	cells := make([][]string, 0, len(t.Rows)+1)
	heads := make([]string, len(t.Columns))
	headed := false
	for i, c := range t.Columns {
		heads[i] = c.Head
		headed = headed || c.Head != ""
	}
	if headed {
		cells = append(cells, heads)
	}
	for _, r := range t.Rows {
		row := make([]string, len(t.Columns))
		for i := range row {
			if i < len(r) {
				row[i] = Clean(r[i])
			}
		}
		cells = append(cells, row)
	}
	widths := t.widths(cells, s.Width)
	var b strings.Builder
	for i, row := range cells {
		line := t.line(row, widths)
		if headed && i == 0 {
			line = s.paint(faint, line)
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Table) line(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		cell = Cut(cell, widths[i])
		pad := strings.Repeat(" ", max(widths[i]-Width(cell), 0))
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		if t.Columns[i].Right {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

func (t Table) widths(cells [][]string, limit int) []int {
	widths := make([]int, len(t.Columns))
	total := gap * (len(t.Columns) - 1)
	for i := range widths {
		for _, row := range cells {
			widths[i] = max(widths[i], Width(row[i]))
		}
		total += widths[i]
	}
	for limit > 0 && total > limit {
		widest := -1
		for i, c := range t.Columns {
			if c.Least > 0 && widths[i] > c.Least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	return widths
}

// More is the line that ends a list of which only the first are shown: "… and
// 61 more (`--all`)". It is empty if there are none.
func More(n int, flag string) string {
	switch {
	case n <= 0:
		return ""
	case flag == "":
		return fmt.Sprintf("… and %s more", Count(int64(n)))
	}
	return fmt.Sprintf("… and %s more (`%s`)", Count(int64(n)), flag)
}

// Head is the first of a list and the line that says how many are left out.
// A list that is longer by one only is shown whole.
func Head(list []string, most int, flag string) []string {
	if len(list) <= most+1 {
		return list
	}
	return append(append([]string{}, list[:most]...), More(len(list)-most, flag))
}
