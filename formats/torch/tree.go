package torch

import (
	"sort"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
)

// node is one value of the tree that is to be written: a tensor or a leaf, and
// what it holds.
type node struct {
	part   checkpoint.Part // the step that leads here
	tensor int             // index into Output.Tensors, or -1
	leaf   *checkpoint.Leaf
	holds  bool    // a tensor is here or further down
	kids   []*node // in order
	byPart map[checkpoint.Part]*node
}

func newNode(p checkpoint.Part) *node { return &node{part: p, tensor: -1} }

// place is where a tensor or leaf belongs.
type place struct {
	path   checkpoint.Path
	tensor int
	leaf   *checkpoint.Leaf
	seq    int
}

// buildTree puts tensors and leaves where their paths say, in the order that
// the source had them.
func buildTree(out checkpoint.Output) (*node, error) {
	places := make([]place, 0, len(out.Tensors)+len(out.Leaves))
	for i, t := range out.Tensors {
		path := t.Path
		if path == nil {
			path = checkpoint.Keys(t.Name)
		}
		places = append(places, place{path: path, tensor: i, seq: t.Seq})
	}
	for i := range out.Leaves {
		l := &out.Leaves[i]
		places = append(places, place{path: l.Path, tensor: -1, leaf: l, seq: l.Seq})
	}
	sort.SliceStable(places, func(i, j int) bool { return places[i].seq < places[j].seq })
	root := newNode(checkpoint.Part{})
	for i, p := range places {
		if i%64 == 0 {
			out.Yield()
		}
		if len(p.path) > maxDepth {
			return nil, diag.Errorf(diag.Usage, "`%s` is nested more than %d deep", p.path.Label(), maxDepth).OfTensor(p.path.Label())
		}
		n := root
		n.holds = n.holds || p.tensor >= 0
		for _, part := range p.path {
			n = n.kid(part)
			n.holds = n.holds || p.tensor >= 0
		}
		if n.tensor >= 0 || n.leaf != nil {
			return nil, diag.Errorf(diag.Usage, "two values would be written as `%s`", p.path.Label()).OfTensor(p.path.Label())
		}
		n.tensor, n.leaf = p.tensor, p.leaf
	}
	return root, nil
}

func (n *node) kid(p checkpoint.Part) *node {
	if k := n.byPart[p]; k != nil {
		return k
	}
	if n.byPart == nil {
		n.byPart = map[checkpoint.Part]*node{}
	}
	k := newNode(p)
	n.byPart[p] = k
	n.kids = append(n.kids, k)
	return k
}

// split divides the kids into keys or elements, attributes, parts of a tensor's
// state, and parts of a sparse tensor.
func (n *node) split() (items, attrs, states, sparse []*node) {
	for _, k := range n.kids {
		switch k.part.Kind {
		case checkpoint.AttrPart:
			attrs = append(attrs, k)
		case checkpoint.StatePart:
			states = append(states, k)
		case checkpoint.SparsePart:
			sparse = append(sparse, k)
		default:
			items = append(items, k)
		}
	}
	return items, attrs, states, sparse
}

// state is the kid under that part of the state, or nil.
func (n *node) state(text string) *node {
	return n.byPart[checkpoint.Part{Kind: checkpoint.StatePart, Text: text}]
}
