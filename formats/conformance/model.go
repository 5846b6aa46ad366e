package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
)

// model is a checkpoint to be written, with its data.
type model struct {
	out  checkpoint.Output
	data [][]byte
}

func (k *kit) newModel() *model {
	return &model{out: checkpoint.Output{From: k.about.Name, Yield: func() {}}}
}

// add appends a tensor with random bytes.
func (m *model) add(rng *rand.Rand, name string, path checkpoint.Path, t dtype.Type, shape ...int64) {
	n, ok := t.Bytes(shape)
	if !ok {
		// Elements of a few bits: four of any width fill whole bytes.
		shape = append(append([]int64{}, shape...), 4)
		n, _ = t.Bytes(shape)
	}
	if shape == nil {
		shape = []int64{}
	}
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(rng.Uint32())
		if t == dtype.Bool {
			data[i] &= 1
		}
	}
	m.out.Tensors = append(m.out.Tensors, checkpoint.Tensor{Name: name, Path: path, DType: t, Shape: shape, Seq: m.seq()})
	m.data = append(m.data, data)
}

func (m *model) leaf(path checkpoint.Path, typ string, v checkpoint.Value) {
	m.out.Leaves = append(m.out.Leaves, checkpoint.Leaf{Path: path, Type: typ, Value: v, Seq: m.seq()})
}

func (m *model) seq() int { return len(m.out.Tensors) + len(m.out.Leaves) }

// write lays the checkpoint out and assembles the file.
func (k *kit) write(ctx context.Context, m *model) ([]byte, *checkpoint.Blueprint, error) {
	bp, err := k.format.Blueprint(ctx, m.out)
	if err != nil {
		return nil, nil, fmt.Errorf("blueprint: %w", err)
	}
	if err := bp.Validate(m.out); err != nil {
		return nil, nil, fmt.Errorf("blueprint is not valid: %w", err)
	}
	file, err := Assemble(bp, func(i int) []byte { return m.data[i] })
	if err != nil {
		return nil, nil, fmt.Errorf("blueprint: %w", err)
	}
	return file, bp, nil
}

// types lists the element types that the format accepts; to refuse one it must
// name the tensor in a diagnostic.
func (k *kit) types(ctx context.Context) ([]dtype.Type, error) {
	var list []dtype.Type
	rng := rand.New(rand.NewPCG(1, 1))
	for t := dtype.Bool; int(t) < dtype.Count; t++ {
		m := k.newModel()
		m.add(rng, "probe", nil, t, 4)
		_, err := k.format.Blueprint(ctx, m.out)
		if err == nil {
			list = append(list, t)
		} else if err := refusal(err, "probe"); err != nil {
			return nil, fmt.Errorf("element type %s: %w", t, err)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("refuses every element type")
	}
	return list, nil
}

// refusal checks that err says in the user's words that a tensor cannot be
// written.
func refusal(err error, tensor string) error {
	var d *diag.Diagnostic
	if !errors.As(err, &d) || d.Code != diag.Usage {
		return fmt.Errorf("refused by %T %q, want a diagnostic of class %q", err, err, diag.Usage)
	}
	if d.Subject.Tensor != tensor {
		return fmt.Errorf("refused by %q, which names the tensor %q, want %q", err, d.Subject.Tensor, tensor)
	}
	return nil
}

// small is a checkpoint whose file has few bytes, so that it can be damaged at
// each of them.
func (k *kit) small(ctx context.Context) (*model, error) {
	types, err := k.types(ctx)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(2, 2))
	m := k.newModel()
	m.out.Trailer = k.about.Trailer
	m.add(rng, "layer.weight", nil, types[rng.IntN(len(types))], 2, 3)
	k.addLeaves(m)
	m.add(rng, "layer.bias", nil, types[rng.IntN(len(types))], 3)
	return m, nil
}

// random is the checkpoint of a seed: up to a dozen tensors of any type the
// format has, scalars and empty ones among them.
func (k *kit) random(types []dtype.Type, seed uint64) *model {
	rng := rand.New(rand.NewPCG(seed, 3))
	m := k.newModel()
	m.out.Trailer = k.about.Trailer && seed%2 == 1
	group := checkpoint.Keys("state")
	nested := 0
	if k.about.Nested && seed%3 == 1 {
		nested = 1 + rng.IntN(4)
		m.leaf(group, "dict", checkpoint.Value{Kind: checkpoint.Sized, Len: nested})
		for i := range nested {
			path := append(group[:1:1], checkpoint.Part{Text: fmt.Sprintf("part.%d", i)})
			m.add(rng, path.Label(), path, types[rng.IntN(len(types))], shape(rng)...)
		}
	}
	if seed%2 == 0 {
		k.addLeaves(m)
	}
	for i := range 1 + rng.IntN(12) {
		name := fmt.Sprintf("%s.%d.%s", []string{"layers", "blocks", "层"}[rng.IntN(3)], i, []string{"weight", "bias", "m"}[rng.IntN(3)])
		m.add(rng, name, nil, types[rng.IntN(len(types))], shape(rng)...)
	}
	if k.about.Metadata && seed%4 != 3 {
		m.out.Metadata = []checkpoint.KV{{Key: "note", Value: "a \"quoted\"\n line, 中文"}, {Key: "empty", Value: ""}}
	}
	return m
}

func shape(rng *rand.Rand) []int64 {
	dims := make([]int64, rng.IntN(5))
	for i := range dims {
		if dims[i] = 1 + rng.Int64N(5); rng.IntN(12) == 0 {
			dims[i] = 0
		}
	}
	return dims
}

// addLeaves adds a leaf of each kind that stands for itself.
func (k *kit) addLeaves(m *model) {
	if !k.about.Leaves {
		return
	}
	for _, l := range []struct {
		name, typ string
		value     checkpoint.Value
	}{
		{"step", "int", checkpoint.Value{Kind: checkpoint.Integer, Int: 12000}},
		{"least", "int", checkpoint.Value{Kind: checkpoint.Integer, Int: math.MinInt64}},
		{"big", "int", checkpoint.Value{Kind: checkpoint.Integer, Big: "-" + strings.Repeat("9", 40)}},
		{"lr", "float", checkpoint.Value{Kind: checkpoint.Float, Float: 0.1}},
		{"zero", "float", checkpoint.Value{Kind: checkpoint.Float, Float: math.Copysign(0, -1)}},
		{"inf", "float", checkpoint.Value{Kind: checkpoint.Float, Float: math.Inf(-1)}},
		{"nan", "float", checkpoint.Value{Kind: checkpoint.Float, Float: math.Float64frombits(0x7ff8000000000000)}},
		{"flag", "bool", checkpoint.Value{Kind: checkpoint.Boolean, Bool: true}},
		{"nothing", "NoneType", checkpoint.Value{Kind: checkpoint.None}},
		{"text", "str", checkpoint.Value{Kind: checkpoint.Text, Text: "a \"b\"\\\n\x00 层"}},
		{"no text", "str", checkpoint.Value{Kind: checkpoint.Text, Text: ""}},
		{"bytes", "bytes", checkpoint.Value{Kind: checkpoint.Bytes, Text: "\x00\xff\xfe"}},
	} {
		m.leaf(checkpoint.Keys(l.name), l.typ, l.value)
	}
}
