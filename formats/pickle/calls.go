package pickle

import "slices"

// call runs the opcodes with which Python would import, call or build. Here
// they make nodes that say so.
func (m *machine) call(op byte) error {
	switch op {
	case opGlobal:
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		return m.global(string(module), string(name))
	case opStackGlobal:
		name, err := m.pop()
		if err != nil {
			return err
		}
		module, err := m.pop()
		if err != nil {
			return err
		}
		if name.Kind != Str || module.Kind != Str {
			return m.bad("a global is named by a %s and a %s, two strings are wanted", module.Kind, name.Kind)
		}
		return m.global(module.Text, name.Text)
	case opBinPersID:
		id, err := m.pop()
		if err != nil {
			return err
		}
		return m.make(Node{Kind: PersID, Items: []*Node{id}})
	case opBuild:
		return m.build()
	case opInst, opObj:
		return m.oldInstance(op)
	}
	var kwargs *Node
	var err error
	if op == opNewObjEx {
		if kwargs, err = m.pop(); err != nil {
			return err
		}
	}
	args, err := m.pop()
	if err != nil {
		return err
	}
	fn, err := m.pop()
	if err != nil {
		return err
	}
	if args.Kind != Tuple && args.Kind != Reduce && args.Kind != Object {
		return m.bad("the arguments of a call are a %s, a tuple is wanted", args.Kind)
	}
	kind := Object
	if op == opReduce {
		kind = Reduce
	}
	return m.instance(kind, fn, args, kwargs)
}

func (m *machine) global(module, name string) error {
	if !ValidText(module) || !ValidText(name) {
		return m.bad("the name of a global is not UTF-8")
	}
	key := Ref{Module: module, Name: name}
	if !m.seen[key] {
		m.seen[key] = true
		m.globals = append(m.globals, Ref{Module: module, Name: name, At: m.at})
	}
	return m.make(Node{Kind: Global, Obj: &Obj{Module: module, Name: name}})
}

// instance makes a call or an object. What is called is a name, or comes of a
// call itself.
func (m *machine) instance(kind Kind, fn, args, kwargs *Node) error {
	switch fn.Kind {
	case Global, Reduce, Object, PersID:
		return m.make(Node{Kind: kind, Obj: &Obj{Fn: fn, Args: args, Kwargs: kwargs}})
	}
	return m.bad("a %s is called", fn.Kind)
}

// oldInstance runs INST and OBJ, which make instances of classes of Python 2
// from everything above the mark.
func (m *machine) oldInstance(op byte) error {
	var fn *Node
	if op == opInst {
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		if err := m.global(string(module), string(name)); err != nil {
			return err
		}
		if fn, err = m.pop(); err != nil {
			return err
		}
	}
	items, err := m.popMark()
	if err != nil {
		return err
	}
	if op == opObj {
		if len(items) == 0 {
			return m.bad("the stack is empty")
		}
		fn, items = items[0], items[1:]
	}
	args := &Node{Kind: Tuple, At: uint32(m.at), Items: slices.Clone(items)}
	return m.instance(Object, fn, args, nil)
}

func (m *machine) build() error {
	state, err := m.pop()
	if err != nil {
		return err
	}
	n, err := m.top()
	if err != nil {
		return err
	}
	if n.Kind != Reduce && n.Kind != Object {
		return m.bad("a state is set on a %s, an object is wanted", n.Kind)
	}
	n.Obj.States = append(n.Obj.States, state)
	return nil
}
