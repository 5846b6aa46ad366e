package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/plan"
)

// PlanSchema names the form of a plan's document.
const PlanSchema = "convert/plan/v1"

// PlanDocument is a plan for programs. Bytes are of files where it speaks of
// files, and of payload where it speaks of tensors.
type PlanDocument struct {
	Schema     string            `json:"schema"`
	Digest     string            `json:"digest"`
	Source     PlanSide          `json:"source"`
	Target     PlanSide          `json:"target"`
	Totals     PlanTotals        `json:"totals"`
	PeakMemory int64             `json:"peak_memory"`
	Classes    []PlanClass       `json:"classes"`
	Tensors    []PlanTensor      `json:"tensors"`
	Files      []PlanFile        `json:"files"`
	Dropped    []PlanDropped     `json:"dropped"`
	Missing    []string          `json:"missing"`
	Warnings   []WarningDocument `json:"warnings"`
}

// PlanSide is one side of a plan.
type PlanSide struct {
	Format  string `json:"format"`
	Ranks   int    `json:"ranks"`
	Stages  int    `json:"stages"`
	Devices int    `json:"ranks_per_stage"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
}

// PlanTotals are sums over all tensors.
type PlanTotals struct {
	Tensors    int   `json:"tensors"`
	Payload    int64 `json:"payload_bytes"`
	Read       int64 `json:"read_bytes"`
	Compare    int64 `json:"compare_bytes"`
	Uncompared int64 `json:"uncompared_bytes"`
	Write      int64 `json:"write_bytes"`
	Cast       int   `json:"cast_tensors"`
}

// PlanClass is the tensors to which the same thing happens.
type PlanClass struct {
	Class   string `json:"class"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
}

// PlanTensor is one tensor of the target.
type PlanTensor struct {
	Name   string  `json:"name"`
	From   string  `json:"from,omitempty"`
	DType  string  `json:"dtype"`
	Cast   string  `json:"cast_from,omitempty"`
	Shape  []int64 `json:"shape"`
	Bytes  int64   `json:"nbytes"`
	Class  string  `json:"class"`
	Source string  `json:"source_layout"`
	Target string  `json:"target_layout"`
	Stages []int   `json:"stages"`
}

// PlanFile is one file of the target and what it is made of.
type PlanFile struct {
	Rank  int        `json:"rank"`
	Name  string     `json:"name"`
	Bytes int64      `json:"bytes"`
	Reads []PlanRead `json:"reads,omitempty"`
}

// PlanRead is what a target file needs of a source rank. Ranges are byte
// ranges of the file, [offset, length], that hold the bytes needed; where the
// needed bytes are cut out of rows, a range spans more than them.
type PlanRead struct {
	Rank   int        `json:"rank"`
	File   string     `json:"file"`
	Bytes  int64      `json:"bytes"`
	Ranges [][2]int64 `json:"ranges"`
}

// PlanDropped is what does not go into the target.
type PlanDropped struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// WarningDocument is a warning for programs.
type WarningDocument struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Hint     string `json:"hint,omitempty"`
	Tensor   string `json:"tensor,omitempty"`
	File     string `json:"file,omitempty"`
}

// Warnings turns diagnostics into their documents.
func Warnings(l diag.List) []WarningDocument {
	out := make([]WarningDocument, 0, len(l))
	for _, d := range l {
		out = append(out, WarningDocument{d.Severity.String(), d.Summary, d.Hint, checkpoint.JSONName(d.Subject.Tensor), checkpoint.JSONName(d.Subject.File)})
	}
	return out
}

// maxPairs is the number of (target file, tensor) pairs up to which a document
// lists what each file reads; larger plans do so on request.
const maxPairs = 1 << 20

// jsonNames are names as JSON documents hold them; never nil.
func jsonNames(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = checkpoint.JSONName(n)
	}
	return out
}

// NewPlanDocument describes a plan. all lists the reads of every file of a
// large plan too.
func NewPlanDocument(p *plan.Plan, peak int64, w diag.List, all bool) *PlanDocument {
	d := &PlanDocument{
		Schema: PlanSchema, Digest: p.Digest, PeakMemory: peak,
		Source:  PlanSide{Format: p.Source.Format, Ranks: p.Source.Stages * p.Source.Devices, Stages: p.Source.Stages, Devices: p.Source.Devices, Files: p.Totals.SourceFiles, Bytes: p.Totals.SourceBytes},
		Target:  PlanSide{Format: p.Format.Describe().Name, Ranks: p.Stages * p.Devices, Stages: p.Stages, Devices: p.Devices, Files: p.Totals.TargetFiles, Bytes: p.Totals.WriteBytes},
		Totals:  PlanTotals{p.Totals.Tensors, p.Totals.Payload, p.Totals.ReadBytes, p.Totals.CompareBytes, p.Totals.Uncompared, p.Totals.WriteBytes, p.Totals.CastTensors},
		Classes: Classes(p), Tensors: []PlanTensor{}, Files: []PlanFile{}, Dropped: []PlanDropped{}, Missing: jsonNames(p.Absent), Warnings: Warnings(w),
	}
	first := map[int]int{}
	pairs := 0
	for _, g := range p.Groups {
		pairs += len(g.Items) * len(g.Ranks)
		for _, it := range g.Items {
			if at, seen := first[it.Tensor]; seen {
				d.Tensors[at].Stages = append(d.Tensors[at].Stages, g.Stage)
				continue
			}
			first[it.Tensor] = len(d.Tensors)
			d.Tensors = append(d.Tensors, planTensor(p, g.Stage, it))
		}
	}
	for gi := range p.Groups {
		for _, r := range p.Groups[gi].Ranks {
			d.Files = append(d.Files, planFile(p, gi, r, all || pairs <= maxPairs))
		}
	}
	for _, x := range p.Extra {
		d.Files = append(d.Files, PlanFile{Name: x.Name, Bytes: int64(len(x.Bytes))})
	}
	for _, x := range p.Dropped {
		d.Dropped = append(d.Dropped, PlanDropped{checkpoint.JSONName(x.Name), x.Kind, x.Reason})
	}
	return d
}

func planTensor(p *plan.Plan, stage int, it plan.Item) PlanTensor {
	t := &p.Tensors[it.Tensor]
	s := &p.Source.Tensors[t.Source]
	n, _ := t.DType.Bytes(t.Shape)
	x := PlanTensor{
		Name: checkpoint.JSONName(t.Name), DType: t.DType.String(), Shape: append([]int64{}, t.Shape...), Bytes: n, Class: string(t.Class),
		Source: s.Places[it.From].Layout.String(), Target: it.Layout.String(), Stages: []int{stage},
	}
	if s.Name != t.Name {
		x.From = checkpoint.JSONName(s.Name)
	}
	if s.DType != t.DType {
		x.Cast = s.DType.String()
	}
	return x
}

func planFile(p *plan.Plan, gi, rank int, reads bool) PlanFile {
	g := &p.Groups[gi]
	f := PlanFile{Rank: rank, Name: p.FileName(g, rank), Bytes: p.FileSize(gi)}
	if reads {
		f.Reads = Reads(p, g, rank)
	}
	return f
}

// Reads is what one target file needs of each source rank, ascending.
func Reads(p *plan.Plan, g *plan.Group, rank int) []PlanRead {
	type key struct{ rank, file int }
	at := map[key]int{}
	var out []PlanRead
	p.Needs(g, rank, func(n plan.Need) bool {
		s := &p.Source.Tensors[p.Tensors[g.Items[n.Item].Tensor].Source]
		file, off, length, ok := n.Span(s)
		k := key{n.Rank, file}
		i, seen := at[k]
		if !seen {
			i = len(out)
			at[k] = i
			out = append(out, PlanRead{Rank: n.Rank, File: p.Source.Rank(n.Rank).Files[file].Name, Ranges: [][2]int64{}})
		}
		out[i].Bytes += n.Bytes
		if ok {
			out[i].Ranges = append(out[i].Ranges, [2]int64{off, length})
		}
		return true
	})
	for i := range out {
		out[i].Ranges = joinRanges(out[i].Ranges)
	}
	slices.SortFunc(out, func(a, b PlanRead) int {
		if a.Rank != b.Rank {
			return a.Rank - b.Rank
		}
		return strings.Compare(a.File, b.File)
	})
	return out
}

// joinRanges sorts ranges and joins those that touch.
func joinRanges(r [][2]int64) [][2]int64 {
	slices.SortFunc(r, func(a, b [2]int64) int { return int(min(max(a[0]-b[0], -1), 1)) })
	out := r[:0]
	for _, x := range r {
		if n := len(out); n > 0 && x[0] <= out[n-1][0]+out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], x[0]+x[1]-out[n-1][0])
			continue
		}
		out = append(out, x)
	}
	return out
}

// Classes counts the tensors of each class, in a fixed order.
func Classes(p *plan.Plan) []PlanClass {
	by := map[plan.Class]*PlanClass{}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Class == "" {
			continue
		}
		c := by[t.Class]
		if c == nil {
			c = &PlanClass{Class: string(t.Class)}
			by[t.Class] = c
		}
		n, _ := t.DType.Bytes(t.Shape)
		c.Tensors++
		c.Bytes += n
	}
	out := []PlanClass{}
	for _, c := range []plan.Class{plan.Same, plan.SplitFurther, plan.Merged, plan.ReCut, plan.Replicated} {
		if by[c] != nil {
			out = append(out, *by[c])
		}
	}
	return out
}

// By is what a plan is broken down by.
type By string

// The breakdowns.
const (
	ByNone   By = ""
	ByTensor By = "tensor"
	ByRank   By = "rank"
	ByFile   By = "file"
)

// PlanText draws a plan for people. root names where it reads, target where it
// writes.
func PlanText(w io.Writer, s Style, p *plan.Plan, d *PlanDocument, root, target string, by By, all bool) error {
	t := Table{Columns: []Column{{}, {}, {Right: true}, {}, {Right: true}, {Least: 20}}}
	side := func(name string, x PlanSide, files int, at string) []string {
		shape := fmt.Sprintf("%d × %d", x.Stages, x.Devices)
		return []string{name, x.Format, Plural(int64(x.Ranks), "rank", "ranks"), "stages × ranks " + shape, Bytes(x.Bytes), at}
	}
	t.Rows = append(t.Rows, side("source", d.Source, d.Source.Files, root), side("target", d.Target, d.Target.Files, target))
	if err := t.Write(w, s); err != nil {
		return err
	}
	fmt.Fprintln(w)
	c := Table{Columns: []Column{{Right: true}, {}, {Right: true}}}
	for _, x := range d.Classes {
		c.Rows = append(c.Rows, []string{"  " + Plural(int64(x.Tensors), "tensor", "tensors"), x.Class, Bytes(x.Bytes)})
	}
	if err := c.Write(w, s); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nreads %s from %s, each byte once; writes %s to %s; peak memory about %s\n",
		Bytes(d.Totals.Read), Plural(int64(d.Source.Files), "file", "files"), Bytes(d.Totals.Write), Plural(int64(d.Target.Files), "file", "files"), Bytes(d.PeakMemory))
	if d.Totals.Compare+d.Totals.Uncompared > 0 {
		fmt.Fprintf(w, "compares %s of copies; %s of copies stay uncompared\n", Bytes(d.Totals.Compare), Bytes(d.Totals.Uncompared))
	}
	if d.Totals.Cast > 0 {
		fmt.Fprintf(w, "casts %s\n", Plural(int64(d.Totals.Cast), "tensor", "tensors"))
	}
	if err := planLists(w, s, d, all); err != nil {
		return err
	}
	if err := planBy(w, s, p, d, by, all); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nplan %s\n", d.Digest[:8])
	return err
}

// planLists names what does not go across.
func planLists(w io.Writer, s Style, d *PlanDocument, all bool) error {
	if len(d.Dropped) > 0 {
		fmt.Fprintf(w, "\ndrops %s:\n", Plural(int64(len(d.Dropped)), "item", "items"))
		rows := make([]string, len(d.Dropped))
		for i, x := range d.Dropped {
			rows[i] = fmt.Sprintf("  %s `%s`: %s", x.Kind, Clean(x.Name), x.Reason)
		}
		writeList(w, rows, all)
	}
	if len(d.Missing) > 0 {
		fmt.Fprintf(w, "\nleaves out %s of the target that %s no source:\n", Plural(int64(len(d.Missing)), "parameter", "parameters"), map[bool]string{true: "has", false: "have"}[len(d.Missing) == 1])
		rows := make([]string, len(d.Missing))
		for i, x := range d.Missing {
			rows[i] = "  " + Clean(x)
		}
		writeList(w, rows, all)
	}
	return nil
}

// listed is how many lines of a list are shown where not all are asked for.
const listed = 10

func writeList(w io.Writer, rows []string, all bool) {
	n := len(rows)
	if !all && n > listed {
		n = listed
	}
	for _, r := range rows[:n] {
		fmt.Fprintln(w, r)
	}
	if n < len(rows) {
		fmt.Fprintf(w, "  … and %d more (`--all`)\n", len(rows)-n)
	}
}

// planBy breaks a plan down by tensor, target rank or source file.
func planBy(w io.Writer, s Style, p *plan.Plan, d *PlanDocument, by By, all bool) error {
	var t Table
	switch by {
	case ByTensor:
		t.Columns = []Column{{Head: "TENSOR", Least: 20}, {Head: "DTYPE"}, {Head: "SHAPE"}, {Head: "BYTES", Right: true}, {Head: "CLASS"}, {Head: "SOURCE"}, {Head: "TARGET"}}
		for _, x := range d.Tensors {
			dt := x.DType
			if x.Cast != "" {
				dt = x.Cast + " → " + x.DType
			}
			t.Rows = append(t.Rows, []string{x.Name, dt, Shape(x.Shape), Bytes(x.Bytes), x.Class, x.Source, x.Target})
		}
	case ByRank:
		t.Columns = []Column{{Head: "RANK", Right: true}, {Head: "FILE", Least: 16}, {Head: "BYTES", Right: true}, {Head: "READS", Right: true}, {Head: "FROM SOURCE RANKS", Least: 20}}
		for _, f := range d.Files {
			if len(f.Reads) == 0 && f.Bytes > 0 && p.Group(f.Rank) != nil && f.Name == p.FileName(p.Group(f.Rank), f.Rank) {
				f.Reads = Reads(p, p.Group(f.Rank), f.Rank)
			}
			var n int64
			ranks := make([]string, 0, len(f.Reads))
			for _, r := range f.Reads {
				n += r.Bytes
				ranks = append(ranks, fmt.Sprint(r.Rank))
			}
			t.Rows = append(t.Rows, []string{fmt.Sprint(f.Rank), f.Name, Bytes(f.Bytes), Bytes(n), strings.Join(ranks, " ")})
		}
	case ByFile:
		t.Columns = []Column{{Head: "SOURCE FILE", Least: 16}, {Head: "RANK", Right: true}, {Head: "NEEDED", Right: true}, {Head: "BY TARGET RANKS", Least: 20}}
		t.Rows = sourceRows(p, d)
	default:
		return nil
	}
	fmt.Fprintln(w)
	over := 0
	if !all && len(t.Rows) > 40 {
		over = len(t.Rows) - 40
		t.Rows = t.Rows[:40]
	}
	if err := t.Write(w, s); err != nil {
		return err
	}
	if over > 0 {
		fmt.Fprintf(w, "… and %d more (`--all`)\n", over)
	}
	return nil
}

// sourceRows turns what target files read into what source files give.
func sourceRows(p *plan.Plan, d *PlanDocument) [][]string {
	type given struct {
		rank  int
		name  string
		bytes int64
		to    []string
	}
	at := map[string]int{}
	var list []given
	for _, f := range d.Files {
		for _, r := range f.Reads {
			i, seen := at[r.File]
			if !seen {
				i = len(list)
				at[r.File] = i
				list = append(list, given{rank: r.Rank, name: r.File})
			}
			list[i].bytes += r.Bytes
			list[i].to = append(list[i].to, fmt.Sprint(f.Rank))
		}
	}
	slices.SortFunc(list, func(a, b given) int { return a.rank - b.rank })
	rows := make([][]string, len(list))
	for i, g := range list {
		rows[i] = []string{g.name, fmt.Sprint(g.rank), Bytes(g.bytes), strings.Join(g.to, " ")}
	}
	return rows
}

// Shape writes a shape: "4096 × 1024", "scalar".
func Shape(shape []int64) string {
	if len(shape) == 0 {
		return "scalar"
	}
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, " × ")
}
