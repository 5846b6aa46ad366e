package torch

import (
	"context"
	"math"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

// Bounds of the listing. A pickle can share, so its tree may be far larger
// than its bytes.
const (
	maxDepth   = 1000    // as deep as Python can write
	maxItems   = 1 << 22 // tensors and leaves
	maxParts   = 1 << 24 // steps of all paths together
	maxSharing = 4       // the tree may be larger than the graph by this factor …
	smallTree  = 1 << 16 // … or have as many nodes
	maxLabels  = 64 << 20
)

// walker turns the graph of a pickle into entries and leaves, depth first:
// a container is a leaf before what it holds.
type walker struct {
	ctx      context.Context
	r        *reader
	storages map[string]*store
	inline   map[*pickle.Node][]byte
	ties     map[string]checkpoint.Path

	// once says that the tree is too large to follow shared containers more
	// than once; first then has where each was.
	once  bool
	first map[*pickle.Node]checkpoint.Path

	open   map[*pickle.Node]bool // containers that are being walked
	path   checkpoint.Path       // of the value at work, for messages
	items  int
	parts  int
	labels int
	limit  int // of labels, in bytes
}

func newWalker(ctx context.Context, r *reader, p *pickle.Result, size int) *walker {
	w := &walker{
		ctx: ctx, r: r,
		storages: map[string]*store{},
		inline:   map[*pickle.Node][]byte{},
		ties:     map[string]checkpoint.Path{},
		first:    map[*pickle.Node]checkpoint.Path{},
		open:     map[*pickle.Node]bool{},
		limit:    maxLabels + 16*size,
	}
	if p.Shared > 0 {
		tree := treeSize(p.Root)
		w.once = tree > smallTree && tree/maxSharing > int64(p.Nodes)
	}
	return w
}

func (w *walker) run(root *pickle.Node) error {
	if w.once {
		w.r.warn(diag.Warnf("the pickle shares containers so often that each is listed in one place only").
			WithHint("a tree of this size is made to exhaust who reads it"))
	}
	return w.visit(root, checkpoint.Path{}, 0, nil)
}

// treeSize is the number of nodes of the tree that a graph stands for, as far
// as int64 can count; a cycle counts once.
func treeSize(root *pickle.Node) int64 {
	type frame struct {
		n    *pickle.Node
		kids []*pickle.Node
		sum  int64
	}
	sizes := map[*pickle.Node]int64{}
	kids := func(n *pickle.Node) (out []*pickle.Node) {
		n.Each(func(k *pickle.Node) { out = append(out, k) })
		return out
	}
	stack := []frame{{n: root, kids: kids(root), sum: 1}}
	for {
		f := &stack[len(stack)-1]
		if len(f.kids) == 0 {
			sum := f.sum
			sizes[f.n] = sum
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				return sum
			}
			f = &stack[len(stack)-1]
			f.sum = addSizes(f.sum, sum)
			continue
		}
		k := f.kids[0]
		f.kids = f.kids[1:]
		size, seen := sizes[k]
		switch {
		case seen:
			f.sum = addSizes(f.sum, max(size, 1))
		case len(k.Items) == 0 && k.Obj == nil:
			f.sum = addSizes(f.sum, 1)
		default:
			sizes[k] = 0 // open
			stack = append(stack, frame{n: k, kids: kids(k), sum: 1})
		}
	}
}

func addSizes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// bad is a FormatError at the opcode that made n, about the value at work.
func (w *walker) bad(n *pickle.Node, format string, args ...any) error {
	e := bad(w.r.at(int(n.At)), format, args...)
	e.Tensor = w.label()
	if e.Tensor != "" {
		e.Msg = "`" + e.Tensor + "`: " + e.Msg
	}
	return e
}

func (w *walker) label() string {
	const most = 200
	if s := w.path.Label(); len(s) > most {
		return s[:most] + "…"
	} else {
		return s
	}
}

// spend counts a value against the bounds.
func (w *walker) spend(n *pickle.Node, path checkpoint.Path, depth int) error {
	w.path = path
	w.items++
	w.parts += len(path)
	if w.items%64 == 0 {
		w.r.in.Yield()
		if err := w.ctx.Err(); err != nil {
			return err
		}
	}
	switch {
	case depth > maxDepth:
		return w.bad(n, "values are nested more than %d deep", maxDepth)
	case w.items > maxItems:
		return w.bad(n, "more than %d values", maxItems)
	case w.parts > maxParts:
		return w.bad(n, "the paths of all values have more than %d steps", maxParts)
	}
	return nil
}

// child is path with one more step.
func child(path checkpoint.Path, p checkpoint.Part) checkpoint.Path {
	out := make(checkpoint.Path, len(path)+1)
	copy(out, path)
	out[len(path)] = p
	return out
}

func (w *walker) seq() int { return len(w.r.index.Entries) + len(w.r.index.Leaves) }

func (w *walker) leaf(path checkpoint.Path, typ string, v checkpoint.Value) error {
	w.r.index.Leaves = append(w.r.index.Leaves, checkpoint.Leaf{Path: path, Type: typ, Value: v, Seq: w.seq()})
	return nil
}

func (w *walker) addEntry(e checkpoint.Entry, path checkpoint.Path) error {
	e.Path, e.Seq = path, w.seq()
	for _, p := range path {
		w.labels += len(p.Text) + 1
	}
	if w.labels > w.limit {
		return bad(w.r.pkl.data, "the names of all tensors have more than %d bytes", w.limit)
	}
	e.Name = path.Label()
	w.r.index.Entries = append(w.r.index.Entries, e)
	return nil
}

// visit lists a value. note is what is known of it from outside, if it turns
// out to be a tensor.
func (w *walker) visit(n *pickle.Node, path checkpoint.Path, depth int, note map[string]string) error {
	if err := w.spend(n, path, depth); err != nil {
		return err
	}
	switch n.Kind {
	case pickle.List, pickle.Tuple, pickle.Set, pickle.FrozenSet:
		return w.sequence(n, path, depth, n.Kind.String(), n.Items)
	case pickle.Dict:
		return w.mapping(n, path, depth, checkpoint.Leaf{Type: "dict"}, n.Items)
	case pickle.PersID:
		return w.bare(n, path)
	case pickle.Reduce, pickle.Object:
		return w.call(n, path, depth, note)
	case pickle.Global:
		return w.global(n, path)
	}
	typ, v := scalar(n)
	return w.leaf(path, typ, v)
}

// inside runs f for a container, unless it is open (it holds itself) or was
// listed in another place and may not be again: then it is a reference.
func (w *walker) inside(n *pickle.Node, path checkpoint.Path, f func() error) error {
	where, before := w.first[n]
	if w.open[n] || before {
		return w.leaf(path, "reference", checkpoint.Value{Kind: checkpoint.Opaque, Text: where.Label()})
	}
	if w.once {
		w.first[n] = path
	}
	w.open[n] = true
	err := f()
	delete(w.open, n)
	return err
}

// sequence lists a container whose elements have indices.
func (w *walker) sequence(n *pickle.Node, path checkpoint.Path, depth int, typ string, items []*pickle.Node) error {
	return w.inside(n, path, func() error {
		if err := w.leaf(path, typ, checkpoint.Value{Kind: checkpoint.Sized, Len: len(items)}); err != nil {
			return err
		}
		return w.elements(path, depth, items)
	})
}

func (w *walker) elements(path checkpoint.Path, depth int, items []*pickle.Node) error {
	for i, x := range items {
		if err := w.visit(x, child(path, checkpoint.Part{Kind: checkpoint.IndexPart, Index: int64(i)}), depth+1, nil); err != nil {
			return err
		}
	}
	return nil
}

// mapping lists a container whose elements have keys, and its attributes. as
// has its type and what is known of its value.
func (w *walker) mapping(n *pickle.Node, path checkpoint.Path, depth int, as checkpoint.Leaf, pairs []*pickle.Node) error {
	return w.inside(n, path, func() error {
		pairs := lastWins(pairs)
		as.Value.Kind, as.Value.Len = checkpoint.Sized, len(pairs)/2
		if err := w.leaf(path, as.Type, as.Value); err != nil {
			return err
		}
		if err := w.pairs(path, depth, pairs, keyPart); err != nil {
			return err
		}
		return w.states(n, path, depth, checkpoint.AttrPart)
	})
}

func (w *walker) pairs(path checkpoint.Path, depth int, pairs []*pickle.Node, part func(*pickle.Node) checkpoint.Part) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if err := w.visit(pairs[i+1], child(path, part(pairs[i])), depth+1, nil); err != nil {
			return err
		}
	}
	return nil
}

// states lists what BUILD would have set: the attributes in a dict, or in a
// pair of dicts where a class has slots; anything else as the part "state".
func (w *walker) states(n *pickle.Node, path checkpoint.Path, depth int, kind checkpoint.PartKind) error {
	if n.Obj == nil {
		return nil
	}
	var attrs []*pickle.Node
	for _, s := range n.Obj.States {
		list, ok := attributes(s)
		if !ok {
			if err := w.visit(s, child(path, checkpoint.Part{Kind: checkpoint.StatePart, Text: "state"}), depth+1, nil); err != nil {
				return err
			}
			continue
		}
		attrs = append(attrs, list...)
	}
	return w.pairs(path, depth, lastWins(attrs), func(key *pickle.Node) checkpoint.Part {
		if key.Kind == pickle.Str {
			return checkpoint.Part{Kind: kind, Text: key.Text}
		}
		return keyPart(key)
	})
}

// attributes gives the pairs of a state, if it has the form of attributes.
func attributes(s *pickle.Node) ([]*pickle.Node, bool) {
	switch {
	case s.Kind == pickle.Dict:
		return s.Items, true
	case s.Kind == pickle.None:
		return nil, true
	case s.Kind == pickle.Tuple && len(s.Items) == 2:
		var out []*pickle.Node
		for _, x := range s.Items {
			if x.Kind != pickle.Dict && x.Kind != pickle.None {
				return nil, false
			}
			out = append(out, x.Items...)
		}
		return out, true
	}
	return nil, false
}
