package torch

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

// emitter writes the tree as a pickle and notes the storages in the order in
// which it names them.
type emitter struct {
	ctx      context.Context
	out      checkpoint.Output
	w        *pickle.Writer
	storages []int // indices into out.Tensors
	dropped  []checkpoint.Dropped
	path     checkpoint.Path
	count    int
}

func (e *emitter) drop(reason string) {
	path := append(checkpoint.Path{}, e.path...)
	e.dropped = append(e.dropped, checkpoint.Dropped{Path: path, What: "leaf", Reason: reason})
}

// root writes the whole. Without a leaf that says otherwise a file is what
// state_dict() gives: an OrderedDict.
func (e *emitter) root(n *node) error {
	if n.leaf == nil && n.tensor < 0 {
		n.leaf = &checkpoint.Leaf{Type: "OrderedDict", Value: checkpoint.Value{Kind: checkpoint.Sized}}
	}
	if !e.writable(n) {
		e.w.None()
		return nil
	}
	return e.value(n)
}

// writable reports whether a value can be written; where not, it is noted as
// dropped.
func (e *emitter) writable(n *node) bool {
	if n.holds || n.leaf == nil {
		return true
	}
	v := n.leaf.Value
	switch {
	case v.Kind == checkpoint.Opaque && len(n.kids) == 0:
		what := v.Text
		if what == "" {
			what = n.leaf.Type
		}
		e.drop("an object of `" + what + "` cannot be written")
		return false
	case v.Kind == checkpoint.Text && n.leaf.Type != "str", v.Kind == checkpoint.Integer && v.Big != "":
		if !writeScalar(pickle.NewWriter(), n.leaf) {
			e.drop("a `" + n.leaf.Type + "` that cannot be written")
			return false
		}
	}
	return true
}

func (e *emitter) value(n *node) error {
	if e.count++; e.count%64 == 0 {
		e.out.Yield()
		if err := e.ctx.Err(); err != nil {
			return err
		}
	}
	if n.tensor >= 0 {
		return e.tensor(n)
	}
	items, attrs, states, sparse := n.split()
	if len(sparse) > 0 && n.leaf == nil && len(sparse) == len(n.kids) {
		if done, err := e.sparse(sparse); done || err != nil {
			return err
		}
	}
	if n.leaf != nil && n.leaf.Value.Kind != checkpoint.Sized && n.leaf.Value.Kind != checkpoint.Opaque && len(n.kids) == 0 {
		writeScalar(e.w, n.leaf)
		return nil
	}
	typ := "dict"
	if n.leaf != nil {
		typ = strings.TrimPrefix(n.leaf.Type, "collections.")
	}
	switch typ {
	case "list", "tuple", "set", "frozenset", "deque", "ndarray_object":
		if list, ok := elements(items); ok && len(items) == len(n.kids) {
			if strings.HasSuffix(typ, "set") && !hashable(list) {
				e.drop("a `" + typ + "` of objects is written as a list")
				typ = "list"
			}
			return e.sequence(typ, list)
		}
	case "OrderedDict":
		return e.ordered(items, append(states, sparse...), attrs)
	case "defaultdict", "Counter":
		if len(n.kids) == len(items) {
			return e.counted(typ, n.leaf, items)
		}
	case "dict", "object":
	default:
		if n.leaf.Value.Kind == checkpoint.Sized && n.leaf.Value.Len > 0 && len(n.kids) == 0 {
			e.drop("a `" + typ + "` of which only the size is known is written empty")
		}
	}
	if typ == "object" {
		e.drop("an object of `" + n.leaf.Value.Text + "` is written as a dict of what it holds")
	}
	return e.dict(n.kids)
}

// elements orders the elements of a sequence and fills gaps with nil; false
// where the steps are no plausible indices.
func elements(items []*node) ([]*node, bool) {
	size := int64(0)
	for _, k := range items {
		if k.part.Kind != checkpoint.IndexPart || k.part.Index < 0 {
			return nil, false
		}
		size = max(size, k.part.Index+1)
	}
	if size > int64(2*len(items)+1024) {
		return nil, false
	}
	list := make([]*node, size)
	for _, k := range items {
		list[k.part.Index] = k
	}
	return list, true
}

// under runs f one step further down.
func (e *emitter) under(p checkpoint.Part, f func() error) error {
	e.path = append(e.path, p)
	err := f()
	e.path = e.path[:len(e.path)-1]
	return err
}

func (e *emitter) sequence(typ string, list []*node) error {
	w := e.w
	switch typ {
	case "tuple":
		return e.tuple(list)
	case "set", "frozenset":
		w.Global("builtins", typ)
	case "deque":
		w.Global("collections", typ)
	}
	if err := e.list(list); err != nil {
		return err
	}
	if typ != "list" && typ != "ndarray_object" {
		w.Tuple1()
		w.Reduce()
	}
	return nil
}

// list writes elements; one that cannot be written, or was taken out, is None,
// so that the others keep their places.
func (e *emitter) list(list []*node) error {
	e.w.EmptyList()
	if len(list) == 0 {
		return nil
	}
	e.w.Mark()
	if err := e.each(list); err != nil {
		return err
	}
	e.w.Appends()
	return nil
}

func (e *emitter) tuple(list []*node) error {
	if len(list) == 0 {
		e.w.EmptyTuple()
		return nil
	}
	e.w.Mark()
	if err := e.each(list); err != nil {
		return err
	}
	e.w.Tuple()
	return nil
}

func (e *emitter) each(list []*node) error {
	for i, k := range list {
		err := e.under(checkpoint.Part{Kind: checkpoint.IndexPart, Index: int64(i)}, func() error {
			if k == nil || !e.writable(k) {
				e.w.None()
				return nil
			}
			return e.value(k)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *emitter) dict(kids []*node) error {
	e.w.EmptyDict()
	return e.pairs(kids)
}

// ordered writes an OrderedDict; attributes such as _metadata are its state.
func (e *emitter) ordered(items, others, attrs []*node) error {
	e.orderedDict()
	if err := e.pairs(append(items, others...)); err != nil {
		return err
	}
	if len(attrs) == 0 {
		return nil
	}
	if err := e.dict(attrs); err != nil {
		return err
	}
	e.w.Build()
	return nil
}

func (e *emitter) orderedDict() {
	e.w.Global("collections", "OrderedDict")
	e.w.EmptyTuple()
	e.w.Reduce()
}

// counted writes a Counter or a defaultdict. The maker of a defaultdict's
// values is a name; only Python's own containers and numbers are written.
func (e *emitter) counted(typ string, leaf *checkpoint.Leaf, items []*node) error {
	w := e.w
	if typ == "Counter" {
		w.Global("collections", "Counter")
		if err := e.dict(items); err != nil {
			return err
		}
		w.Tuple1()
		w.Reduce()
		return nil
	}
	maker := strings.TrimPrefix(leaf.Value.Text, "builtins.")
	switch maker {
	case "dict", "list", "set", "int", "float", "str", "bool", "tuple":
		w.Global("collections", "defaultdict")
		w.Global("builtins", maker)
		w.Tuple1()
		w.Reduce()
	case "None", "":
		w.Global("collections", "defaultdict")
		w.EmptyTuple()
		w.Reduce()
	default:
		e.drop("a defaultdict of `" + maker + "` is written as a dict")
		w.EmptyDict()
	}
	return e.pairs(items)
}

// pairs sets the kids that can be written in the dict before.
func (e *emitter) pairs(kids []*node) error {
	begun := false
	for _, k := range kids {
		err := e.under(k.part, func() error {
			if !e.writable(k) {
				return nil
			}
			if k.part.Kind == checkpoint.OtherPart && !writeLiteral(pickle.NewWriter(), k.part.Text) {
				if k.holds {
					return e.cannot("its key `%s` cannot be written", k.part.Text)
				}
				e.drop("its key cannot be written")
				return nil
			}
			if !begun {
				e.w.Mark()
				begun = true
			}
			e.key(k.part)
			return e.value(k)
		})
		if err != nil {
			return err
		}
	}
	if begun {
		e.w.SetItems()
	}
	return nil
}

func (e *emitter) key(p checkpoint.Part) {
	switch p.Kind {
	case checkpoint.IndexPart:
		e.w.Int(p.Index)
	case checkpoint.OtherPart:
		writeLiteral(e.w, p.Text)
	default:
		e.w.Str(p.Text)
	}
}

// hashable reports whether all elements can stand in a set once written.
func hashable(list []*node) bool {
	for _, k := range list {
		if k == nil {
			continue
		}
		if items, ok := elements(k.kids); k.holds || len(k.kids) > 0 && (k.leaf == nil || k.leaf.Type != "tuple" || !ok || !hashable(items)) {
			return false
		}
		if k.leaf != nil && k.leaf.Value.Kind == checkpoint.Sized && k.leaf.Type != "tuple" && k.leaf.Type != "frozenset" {
			return false
		}
	}
	return true
}

// cannot is the error for a tensor that a torch file cannot hold.
func (e *emitter) cannot(format string, args ...any) error {
	label := e.path.Label()
	return diag.Errorf(diag.Usage, "`%s` cannot be written to a torch file: %s", label, fmt.Sprintf(format, args...)).OfTensor(label)
}
