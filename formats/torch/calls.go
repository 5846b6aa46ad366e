package torch

import (
	"maps"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

// call lists what a call would return: a tensor, a container or scalar that is
// known, or else an opaque object with all that it holds.
func (w *walker) call(n *pickle.Node, path checkpoint.Path, depth int, note map[string]string) error {
	fn := fullName(n.Obj.Fn)
	args := n.Obj.Args.Items
	switch {
	case strings.HasPrefix(fn, "torch._utils._rebuild_"), fn == "torch._tensor._rebuild_from_type_v2":
		if done, err := w.rebuild(n, fn, args, path, depth, note); done || err != nil {
			return err
		}
	case strings.HasPrefix(fn, "numpy."):
		if done, err := w.numpy(n, fn, args, path, depth); done || err != nil {
			return err
		}
	}
	switch fn {
	case "collections.OrderedDict", "collections.Counter", "builtins.dict":
		pairs, ok := initialPairs(args)
		if ok {
			return w.mapping(n, path, depth, checkpoint.Leaf{Type: typeName(fn)}, append(pairs, n.Obj.Pairs...))
		}
	case "collections.defaultdict":
		as := checkpoint.Leaf{Type: "defaultdict", Value: checkpoint.Value{Text: "None"}}
		if len(args) > 0 {
			as.Value.Text = fullName(args[0])
			args = args[1:]
		}
		if pairs, ok := initialPairs(args); ok {
			return w.mapping(n, path, depth, as, append(pairs, n.Obj.Pairs...))
		}
	case "builtins.set", "builtins.frozenset", "builtins.list", "builtins.tuple", "collections.deque":
		items, ok := initialItems(args)
		if ok && (len(n.Obj.States) == 0 && len(n.Obj.Pairs) == 0) {
			return w.sequence(n, path, depth, typeName(fn), append(items, n.Obj.Appends...))
		}
	}
	if len(n.Obj.States) == 0 && len(n.Obj.Pairs) == 0 && len(n.Obj.Appends) == 0 {
		if typ, v, ok := textOf(fn, args); ok {
			return w.leaf(path, typ, v)
		}
		if b, ok := bytesOf(n); ok {
			typ := "bytes"
			if fn == "builtins.bytearray" {
				typ = "bytearray"
			}
			return w.leaf(path, typ, checkpoint.Value{Kind: checkpoint.Bytes, Text: b})
		}
	}
	return w.object(n, path, depth)
}

// typeName is what a container of the standard library is listed as.
func typeName(full string) string { return full[strings.LastIndexByte(full, '.')+1:] }

// initialPairs reads the argument of dict and its kin: none, a dict, or a list
// of pairs (as Python 2 pickled an OrderedDict).
func initialPairs(args []*pickle.Node) ([]*pickle.Node, bool) {
	if len(args) == 0 {
		return nil, true
	}
	if len(args) > 1 {
		return nil, false
	}
	switch a := args[0]; a.Kind {
	case pickle.Dict:
		return a.Items[:len(a.Items):len(a.Items)], true
	case pickle.List, pickle.Tuple:
		out := make([]*pickle.Node, 0, 2*len(a.Items))
		for _, p := range a.Items {
			if p.Kind != pickle.List && p.Kind != pickle.Tuple || len(p.Items) != 2 {
				return nil, false
			}
			out = append(out, p.Items...)
		}
		return out, true
	}
	return nil, false
}

// initialItems reads the argument of list and its kin; deque has a second.
func initialItems(args []*pickle.Node) ([]*pickle.Node, bool) {
	if len(args) == 0 {
		return nil, true
	}
	switch a := args[0]; a.Kind {
	case pickle.List, pickle.Tuple, pickle.Set, pickle.FrozenSet:
		return a.Items[:len(a.Items):len(a.Items)], true
	}
	return nil, false
}

// object lists an instance of a class that is not known, and all that it
// holds: arguments, attributes, keys and elements.
func (w *walker) object(n *pickle.Node, path checkpoint.Path, depth int) error {
	class, args, pairs := fullName(n.Obj.Fn), n.Obj.Args, n.Obj.Pairs
	if class == "" {
		class = n.Obj.Fn.Kind.String()
	}
	if class == "copyreg._reconstructor" && len(args.Items) == 3 && fullName(args.Items[0]) != "" {
		// (class, base, what the base is made of)
		class = fullName(args.Items[0])
		if base := args.Items[2]; base.Kind == pickle.Dict {
			pairs = append(base.Items[:len(base.Items):len(base.Items)], pairs...)
			args = nil
		} else {
			args = &pickle.Node{Kind: pickle.Tuple, At: args.At, Items: args.Items[2:]}
			if base.Kind == pickle.None {
				args = nil
			}
		}
	}
	return w.inside(n, path, func() error {
		if err := w.leaf(path, "object", checkpoint.Value{Kind: checkpoint.Opaque, Text: class}); err != nil {
			return err
		}
		if n.Obj.Fn.Kind != pickle.Global {
			if err := w.visitState(n.Obj.Fn, path, depth, "call"); err != nil {
				return err
			}
		}
		if args != nil && (args.Kind != pickle.Tuple || len(args.Items) > 0) {
			if err := w.visitState(args, path, depth, "args"); err != nil {
				return err
			}
		}
		if n.Obj.Kwargs != nil {
			if err := w.visitState(n.Obj.Kwargs, path, depth, "kwargs"); err != nil {
				return err
			}
		}
		if err := w.pairs(path, depth, lastWins(pairs), keyPart); err != nil {
			return err
		}
		elements := path
		if len(pairs) > 0 && len(n.Obj.Appends) > 0 {
			elements = child(path, checkpoint.Part{Kind: checkpoint.StatePart, Text: "items"})
		}
		if err := w.elements(elements, depth, n.Obj.Appends); err != nil {
			return err
		}
		return w.states(n, path, depth, checkpoint.AttrPart)
	})
}

func (w *walker) visitState(n *pickle.Node, path checkpoint.Path, depth int, part string) error {
	return w.visit(n, child(path, checkpoint.Part{Kind: checkpoint.StatePart, Text: part}), depth+1, nil)
}

// rebuild lists what a rebuild function of torch would make. It is false for
// one that is not known.
func (w *walker) rebuild(n *pickle.Node, fn string, args []*pickle.Node, path checkpoint.Path, depth int, note map[string]string) (bool, error) {
	short := fn[strings.LastIndexByte(fn, '.')+1:]
	switch short {
	case "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3":
		t, err := w.plain(n, fn, args)
		if err != nil {
			return true, err
		}
		return true, w.finish(n, t, path, depth, note)
	case "_rebuild_qtensor":
		return true, w.quantized(n, args, path, depth, note)
	case "_rebuild_parameter", "_rebuild_parameter_with_state":
		if len(args) < 2 {
			return true, w.bad(n, "a parameter is rebuilt from %d arguments, at least 2 are wanted", len(args))
		}
		note = with(note, "parameter", "true")
		if args[1].Kind == pickle.Bool && args[1].Int == 0 {
			note["requires_grad"] = "false"
		}
		if err := w.visit(args[0], path, depth+1, note); err != nil {
			return true, err
		}
		if len(args) > 3 {
			return true, w.tensorState(args[3:4], path, depth)
		}
		return true, w.tensorState(n.Obj.States, path, depth)
	case "_rebuild_from_type_v2":
		if len(args) < 4 || args[2].Kind != pickle.Tuple {
			return true, w.bad(n, "a tensor of a class is rebuilt from %d arguments, 4 are wanted", len(args))
		}
		if class := fullName(args[1]); class != "torch.Tensor" && class != "torch.nn.parameter.Parameter" {
			note = with(note, "class", class)
		}
		inner := &pickle.Node{Kind: pickle.Reduce, At: n.At, Obj: &pickle.Obj{Fn: args[0], Args: args[2]}}
		if err := w.visit(inner, path, depth+1, note); err != nil {
			return true, err
		}
		return true, w.tensorState(args[3:4], path, depth)
	case "_rebuild_sparse_tensor", "_rebuild_sparse_csr_tensor":
		return true, w.sparse(n, args, path, depth)
	case "_rebuild_device_tensor_from_numpy", "_rebuild_xla_tensor", "_rebuild_device_tensor_from_cpu_tensor":
		if len(args) > 0 {
			return true, w.visit(args[0], path, depth+1, note)
		}
	case "_rebuild_meta_tensor_no_storage", "_rebuild_wrapper_subclass":
		if short == "_rebuild_wrapper_subclass" && len(args) > 0 {
			args = args[1:] // the class
		}
		if len(args) >= 2 {
			_, size, _ := textOf("torch.Size", args[1:2])
			text := strings.TrimPrefix(fullName(args[0]), "torch.") + " " + size.Text
			return true, w.leaf(path, "meta tensor", checkpoint.Value{Kind: checkpoint.Opaque, Text: text})
		}
	}
	return false, nil
}

func with(note map[string]string, key, value string) map[string]string {
	out := maps.Clone(note)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

// finish lists a tensor with what is known of it, and its attributes.
func (w *walker) finish(n *pickle.Node, t *tensor, path checkpoint.Path, depth int, note map[string]string) error {
	for k, v := range note {
		t.setNote(k, v)
	}
	if t.note["parameter"] == "true" && t.note["requires_grad"] == "" {
		t.setNote("requires_grad", "true")
	}
	if err := w.entry(t, path); err != nil {
		return err
	}
	return w.tensorState(n.Obj.States, path, depth)
}

// tensorState lists attributes of a tensor as parts of its state.
func (w *walker) tensorState(states []*pickle.Node, path checkpoint.Path, depth int) error {
	holder := &pickle.Node{Kind: pickle.Object, Obj: &pickle.Obj{States: states}}
	return w.states(holder, path, depth, checkpoint.StatePart)
}

// quantized lists a tensor of stored integers and the parameters that give
// them meaning: arguments (storage, offset, size, stride, (scheme, …), …).
func (w *walker) quantized(n *pickle.Node, args []*pickle.Node, path checkpoint.Path, depth int, note map[string]string) error {
	t, err := w.view(n, args)
	if err != nil {
		return err
	}
	if len(args) < 5 || args[4].Kind != pickle.Tuple || len(args[4].Items) == 0 {
		return w.bad(n, "a quantized tensor without parameters")
	}
	if err := w.finish(n, t, path, depth, note); err != nil {
		return err
	}
	params := args[4].Items
	scheme := strings.TrimPrefix(fullName(params[0]), "torch.")
	at := child(path, checkpoint.Part{Kind: checkpoint.StatePart, Text: "qscheme"})
	if err := w.leaf(at, "qscheme", checkpoint.Value{Kind: checkpoint.Text, Text: scheme}); err != nil {
		return err
	}
	names := []string{"scale", "zero_point"}
	if strings.HasPrefix(scheme, "per_channel") {
		names = []string{"scales", "zero_points", "axis"}
	}
	for i, p := range params[1:] {
		part := "parameter"
		if i < len(names) {
			part = names[i]
		}
		if err := w.visitState(p, path, depth, part); err != nil {
			return err
		}
	}
	return nil
}

// bare lists a storage that stands as a value, as a tensor of one dim.
func (w *walker) bare(n *pickle.Node, path checkpoint.Path) error {
	s, err := w.storage(n)
	if err != nil {
		return err
	}
	t := &tensor{at: n, dtype: s.dtype, shape: []int64{s.numel}, strides: []int64{1}, store: s}
	if s.dtype.Size() == 0 {
		t.dtype, t.shape[0] = dtype.U8, s.bytes
	}
	t.setNote("storage", s.class)
	return w.entry(t, path)
}
