package view

import (
	"fmt"
	"io"
	"path"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/engine"
	"github.com/seed-e934e81e/convert/core/plan"
)

// RunSchema names the form of a run's document.
const RunSchema = "convert/run/v1"

// RunDocument is what a run did.
type RunDocument struct {
	Schema   string            `json:"schema"`
	Plan     string            `json:"plan"`
	Manifest string            `json:"manifest"`
	Files    int               `json:"files"`
	Linked   int               `json:"linked_files"`
	Tensors  int               `json:"tensors"`
	Written  int64             `json:"written_bytes"`
	Read     int64             `json:"read_bytes"`
	Compared int64             `json:"compared_bytes"`
	Overflow int64             `json:"cast_overflows"`
	Dropped  []PlanDropped     `json:"dropped"`
	Missing  []string          `json:"missing"`
	Verified string            `json:"verified"`
	Seconds  float64           `json:"seconds"`
	Buffers  int64             `json:"peak_buffer_bytes"`
	Warnings []WarningDocument `json:"warnings"`
}

// NewRunDocument describes a run.
func NewRunDocument(p *plan.Plan, o engine.Options, r *engine.Result) *RunDocument {
	d := &RunDocument{
		Schema: RunSchema, Plan: p.Digest, Manifest: path.Join(o.Target, o.Manifest), Files: p.Totals.TargetFiles, Linked: r.Linked,
		Tensors: p.Totals.Tensors, Written: r.Written, Read: r.Read, Compared: r.Compared, Overflow: r.Overflow,
		Dropped: []PlanDropped{}, Missing: jsonNames(p.Absent), Verified: string(o.Verify), Seconds: r.Elapsed.Seconds(), Buffers: r.Peak,
	}
	for _, x := range p.Dropped {
		d.Dropped = append(d.Dropped, PlanDropped{checkpoint.JSONName(x.Name), x.Kind, x.Reason})
	}
	return d
}

// how says what a mode of verification has done.
var how = map[engine.Verify]string{
	engine.VerifyNone:     "nothing was verified",
	engine.VerifyHeader:   "the headers of all files were read back",
	engine.VerifyDigest:   "every tensor has one digest on both sides; headers were read back",
	engine.VerifyReadBack: "every tensor has one digest on both sides; all files were read back",
}

// RunText draws a run for people.
func RunText(w io.Writer, s Style, p *plan.Plan, o engine.Options, r *engine.Result) error {
	t := p.Totals
	rate := ""
	if sec := r.Elapsed.Seconds(); sec > 0.05 {
		rate = " (" + Rate(float64(t.WriteBytes)/sec) + ")"
	}
	fmt.Fprintf(w, "converted %s, %s, into %s in %s%s\n", Plural(int64(t.Tensors), "tensor", "tensors"), Bytes(t.WriteBytes), Plural(int64(t.TargetFiles), "file", "files"), Duration(r.Elapsed), rate)
	fmt.Fprintf(w, "verified  %s\n", how[o.Verify])
	if r.Compared > 0 || t.Uncompared > 0 {
		equal := " and equal"
		if p.Replicas == plan.First {
			equal = "" // those that were not are among the warnings
		}
		fmt.Fprintf(w, "copies    %s compared%s, %s not compared\n", Bytes(r.Compared), equal, Bytes(t.Uncompared))
	}
	if n := len(p.Dropped); n > 0 {
		fmt.Fprintf(w, "dropped   %s, listed with the reason in the manifest\n", Plural(int64(n), "item", "items"))
	}
	if n := len(p.Absent); n > 0 {
		fmt.Fprintf(w, "missing   %s of the target without a source\n", Plural(int64(n), "parameter", "parameters"))
	}
	_, err := fmt.Fprintf(w, "manifest  %s\n", Clean(path.Join(o.Target, o.Manifest)))
	return err
}
