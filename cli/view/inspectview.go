package view

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/seed-e934e81e/convert/core/checkpoint"
)

// InspectSchema names the form of an inspection's document.
const InspectSchema = "convert/inspect/v1"

// InspectDocument is what a checkpoint holds.
type InspectDocument struct {
	Schema   string            `json:"schema"`
	Format   string            `json:"format"`
	Tensors  []TensorDocument  `json:"tensors"`
	Leaves   []LeafDocument    `json:"leaves"`
	Metadata map[string]string `json:"metadata"`
	Warnings []WarningDocument `json:"warnings"`
}

// TensorDocument is one tensor. Rank is there where several ranks are listed.
type TensorDocument struct {
	Name   string `json:"name"`
	Path   []any  `json:"path"`
	DType  string `json:"dtype"`
	Shape  Dims   `json:"shape"`
	Bytes  int64  `json:"nbytes"`
	SHA256 string `json:"sha256,omitempty"`
	Rank   *int   `json:"rank,omitempty"`
}

// LeafDocument is something that is no tensor.
type LeafDocument struct {
	Path  []any  `json:"path"`
	Type  string `json:"type"`
	Value any    `json:"value"`
	Rank  *int   `json:"rank,omitempty"`
}

// PathDocument is a typed path: a string for a string key, a number for an
// index, an object for the other steps.
func PathDocument(p checkpoint.Path) []any {
	out := make([]any, len(p))
	for i, x := range p {
		text := checkpoint.JSONName(x.Text)
		switch x.Kind {
		case checkpoint.KeyPart:
			out[i] = text
		case checkpoint.IndexPart:
			out[i] = Integer(x.Index)
		case checkpoint.AttrPart:
			out[i] = map[string]string{"attr": text}
		case checkpoint.StatePart:
			out[i] = map[string]string{"state": text}
		case checkpoint.SparsePart:
			out[i] = map[string]string{"sparse": text}
		default:
			out[i] = map[string]string{"key": text}
		}
	}
	return out
}

// exact is the greatest integer up to which every one has a float64 of its
// own; JSON readers lose what lies beyond.
const exact = 1 << 53

// Integer is an integer as JSON documents hold it: a string beyond 2^53.
func Integer(n int64) any {
	if n > exact || n < -exact {
		return strconv.FormatInt(n, 10)
	}
	return n
}

// Dims is a shape. Dims beyond 2^53, which only tensors without elements have,
// are written as strings.
type Dims []int64

// MarshalJSON writes the shape.
func (d Dims) MarshalJSON() ([]byte, error) {
	out := make([]any, len(d))
	for i, n := range d {
		out[i] = Integer(n)
	}
	return json.Marshal(out)
}

// ValueDocument is the value of a leaf.
func ValueDocument(v checkpoint.Value) any {
	switch v.Kind {
	case checkpoint.Boolean:
		return v.Bool
	case checkpoint.Integer:
		if v.Big != "" {
			return v.Big
		}
		return Integer(v.Int)
	case checkpoint.Float:
		switch {
		case math.IsNaN(v.Float):
			return "nan"
		case math.IsInf(v.Float, 1):
			return "inf"
		case math.IsInf(v.Float, -1):
			return "-inf"
		}
		return v.Float
	case checkpoint.Text, checkpoint.Bytes:
		return checkpoint.JSONName(v.Text)
	case checkpoint.Opaque:
		return map[string]string{"class": checkpoint.JSONName(v.Text)}
	case checkpoint.Sized:
		return map[string]int{"len": v.Len}
	}
	return nil
}

// InspectText draws an inspection for people.
func InspectText(w io.Writer, s Style, d *InspectDocument, where string, size int64) error {
	var n int64
	types := map[string]int{}
	ranked := false
	for _, t := range d.Tensors {
		n += t.Bytes
		types[t.DType]++
		ranked = ranked || t.Rank != nil
	}
	names := make([]string, 0, len(types))
	for k := range types {
		names = append(names, k)
	}
	slices.Sort(names)
	fmt.Fprintf(w, "%s · %s", d.Format, Plural(int64(len(d.Tensors)), "tensor", "tensors"))
	for _, k := range names {
		fmt.Fprintf(w, " · %s %s", k, Count(int64(types[k])))
	}
	fmt.Fprintf(w, " · %s in tensors, %s in files\n\n", Bytes(n), Bytes(size))
	t := Table{}
	if ranked {
		t.Columns = append(t.Columns, Column{Head: "RANK", Right: true})
	}
	t.Columns = append(t.Columns, Column{Head: "NAME", Least: 24}, Column{Head: "DTYPE"}, Column{Head: "SHAPE"}, Column{Head: "BYTES", Right: true})
	sums := slices.ContainsFunc(d.Tensors, func(t TensorDocument) bool { return t.SHA256 != "" })
	if sums {
		t.Columns = append(t.Columns, Column{Head: "SHA256"})
	}
	for _, x := range d.Tensors {
		var row []string
		if ranked {
			row = append(row, fmt.Sprint(*x.Rank))
		}
		row = append(row, x.Name, x.DType, Shape(x.Shape), Bytes(x.Bytes))
		if sums {
			row = append(row, x.SHA256)
		}
		t.Rows = append(t.Rows, row)
	}
	if err := t.Write(w, s); err != nil {
		return err
	}
	if len(d.Leaves) > 0 {
		fmt.Fprintf(w, "\n%s\n", Plural(int64(len(d.Leaves)), "leaf", "leaves"))
		l := Table{Columns: []Column{{Least: 16}, {}, {Least: 16}}}
		for _, x := range d.Leaves {
			l.Rows = append(l.Rows, []string{"  " + pathText(x.Path), x.Type, valueText(x.Value)})
		}
		if err := l.Write(w, s); err != nil {
			return err
		}
	}
	keys := make([]string, 0, len(d.Metadata))
	for k := range d.Metadata {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if len(keys) > 0 {
		fmt.Fprintf(w, "\nmetadata\n")
	}
	for _, k := range keys {
		fmt.Fprintf(w, "  %s = %s\n", Clean(k), Cut(Clean(d.Metadata[k]), 120))
	}
	return nil
}

// valueText writes the value of a leaf for people.
func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case map[string]int:
		return Plural(int64(v["len"]), "item", "items")
	case map[string]string:
		return v["class"]
	}
	return fmt.Sprint(v)
}

func pathText(p []any) string {
	if len(p) == 0 {
		return "(root)"
	}
	out := ""
	for i, x := range p {
		if i > 0 {
			out += "."
		}
		if m, ok := x.(map[string]string); ok {
			for _, v := range m {
				out += v
			}
			continue
		}
		out += fmt.Sprint(x)
	}
	return out
}
