package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// inspection is `convert inspect --json`.
type inspection struct {
	Schema   string          `json:"schema"`
	Format   string          `json:"format"`
	Tensors  []tensorOf      `json:"tensors"`
	Leaves   []leafOf        `json:"leaves"`
	Metadata map[string]any  `json:"metadata"`
	Warnings []warningOf     `json:"warnings"`
	text     json.RawMessage // the document as it came
}

type tensorOf struct {
	Name   string  `json:"name"`
	Path   []any   `json:"path"`
	DType  string  `json:"dtype"`
	Shape  []int64 `json:"shape"`
	Bytes  int64   `json:"nbytes"`
	SHA256 string  `json:"sha256"`
	Rank   *int    `json:"rank"`
}

func (t *tensorOf) String() string {
	return fmt.Sprintf("%s %v %d bytes %.12s", t.DType, t.Shape, t.Bytes, t.SHA256)
}

type leafOf struct {
	Path  []any  `json:"path"`
	Type  string `json:"type"`
	Value any    `json:"value"`
}

type warningOf struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
}

// inspected lists a checkpoint with the SHA-256 of each tensor, through the
// program.
func inspected(t *testing.T, dir, path string, more ...string) *inspection {
	t.Helper()
	c := must(t, dir, append([]string{"inspect", path, "--json", "--sha256"}, more...)...)
	return inspectionOf(t, c.out)
}

func inspectionOf(t *testing.T, text string) *inspection {
	t.Helper()
	x := &inspection{text: json.RawMessage(text)}
	d := json.NewDecoder(bytes.NewReader(x.text))
	d.UseNumber()
	if err := d.Decode(x); err != nil {
		t.Fatalf("the document is no JSON: %v\n%s", err, text)
	}
	return x
}

func (x *inspection) find(name string) *tensorOf {
	i := slices.IndexFunc(x.Tensors, func(t tensorOf) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &x.Tensors[i]
}

// sameTensors compares names, types, shapes and bits, not the order.
func sameTensors(t *testing.T, what string, got, want *inspection) {
	t.Helper()
	if len(got.Tensors) != len(want.Tensors) || len(want.Tensors) == 0 {
		t.Errorf("%s: %d tensors, want %d", what, len(got.Tensors), len(want.Tensors))
	}
	for i := range want.Tensors {
		w := &want.Tensors[i]
		g := got.find(w.Name)
		switch {
		case g == nil:
			t.Errorf("%s: there is no `%s`", what, w.Name)
		case g.String() != w.String():
			t.Errorf("%s: `%s` is %s, want %s", what, w.Name, g, w)
		}
	}
}

// firstKey reports whether a document begins with a schema.
func firstKey(text string) bool {
	return strings.HasPrefix(text, "{\n  \"schema\": \"convert/")
}
