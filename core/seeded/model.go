package seeded

import (
	"fmt"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mesh"
)

// Model is the shape of a GPT-like network with Adam states.
type Model struct {
	Layers, Hidden, FFN, Vocab int
	States                     int // 0, 1 or 2: adam_m, adam_v
	DType                      dtype.Type
}

// Parallel is how a run was cut: pipeline stages, data and tensor parallel
// ranks, and the size of the optimizer shard (0 none, layout.All the group).
type Parallel struct{ PP, DP, TP, Opt int }

// Ranks is the number of ranks.
func (p Parallel) Ranks() int { return p.PP * p.DP * p.TP }

// Bytes is the size of the model's tensors, states included.
func (m Model) Bytes() int64 {
	h, f, v, l := int64(m.Hidden), int64(m.FFN), int64(m.Vocab), int64(m.Layers)
	n := 2*v*h + h + l*(2*h+3*h*h+h*h+2*f*h+h*f)
	return n*m.DType.Size() + n*int64(m.States)*4
}

// Fit is the model with as many layers as make about that many bytes. Where
// one layer is too much, the model becomes narrower.
func (m Model) Fit(bytes int64) Model {
	m.Layers = 1
	for m.Bytes() > bytes && m.Hidden >= 256 && m.Hidden%2+m.FFN%2+m.Vocab%2 == 0 {
		m.Hidden, m.FFN, m.Vocab = m.Hidden/2, m.FFN/2, m.Vocab/2
	}
	one := m.Bytes()
	m.Layers = 0
	base := m.Bytes()
	one -= base
	m.Layers = int(max((bytes-base+one/2)/one, 1))
	return m
}

// Tensors lists the model's tensors as they lie on the ranks.
func (m Model) Tensors(p Parallel) ([]Tensor, error) {
	if p.PP < 1 || p.DP < 1 || p.TP < 1 {
		return nil, diag.Errorf(diag.Usage, "every axis of the mesh has at least one rank")
	}
	ms, err := mesh.New([]string{"dp", "tp"}, []int{p.DP, p.TP})
	if err != nil {
		return nil, err
	}
	b := builder{model: m, mesh: ms, parallel: p}
	h, f, v := int64(m.Hidden), int64(m.FFN), int64(m.Vocab)
	const tp = 1 // the mesh is [dp, tp]
	rows, cols, none := [][]int{{tp}, nil}, [][]int{nil, {tp}}, [][]int{nil}
	b.add("embedding.word_embeddings.weight", 0, rows, v, h)
	for i := range m.Layers {
		s := i * p.PP / m.Layers
		n := fmt.Sprintf("decoder.layers.%d.", i)
		b.add(n+"input_layernorm.weight", s, none, h)
		b.add(n+"self_attention.linear_qkv.weight", s, rows, 3*h, h)
		b.add(n+"self_attention.linear_proj.weight", s, cols, h, h)
		b.add(n+"pre_mlp_layernorm.weight", s, none, h)
		b.add(n+"mlp.linear_fc1.weight", s, rows, 2*f, h)
		b.add(n+"mlp.linear_fc2.weight", s, cols, h, f)
	}
	b.add("decoder.final_layernorm.weight", p.PP-1, none, h)
	b.add("output_layer.weight", p.PP-1, rows, v, h)
	weights := b.out
	for _, state := range []string{"adam_m", "adam_v"}[:m.States] {
		for _, t := range weights {
			t.Name, t.DType = state+"."+t.Name, dtype.F32
			b.out = append(b.out, t)
		}
	}
	return b.out, b.err
}

type builder struct {
	model    Model
	mesh     mesh.Mesh
	parallel Parallel
	out      []Tensor
	err      error
}

// add places a tensor; norms have no optimizer shard.
func (b *builder) add(name string, stage int, dims [][]int, shape ...int64) {
	opt := b.parallel.Opt
	if len(shape) == 1 {
		opt = 0
	}
	l, err := layout.New(b.mesh, dims, opt)
	if err == nil {
		err = l.Check(shape)
	}
	if err != nil && b.err == nil {
		b.err = diag.Errorf(diag.Usage, "`%s` of shape %v does not fit the mesh %s", name, shape, b.mesh).Wrap(err)
	}
	b.out = append(b.out, Tensor{Name: name, DType: b.model.DType, Shape: shape, Stage: stage, Layout: l})
}

// Strategy is how the tensors lie, as a strategy.
func Strategy(tensors []Tensor, p Parallel) (*layout.Strategy, error) {
	params := make([]layout.Param, len(tensors))
	for i, t := range tensors {
		params[i] = layout.Param{Name: t.Name, Stage: t.Stage, Layout: t.Layout}
	}
	return layout.NewStrategy(p.PP, p.DP*p.TP, params)
}
