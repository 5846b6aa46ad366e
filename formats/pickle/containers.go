package pickle

import "slices"

func (m *machine) container(op byte) error {
	switch op {
	case opEmptyList:
		return m.make(Node{Kind: List})
	case opEmptyTuple:
		return m.make(Node{Kind: Tuple})
	case opEmptyDict:
		return m.make(Node{Kind: Dict})
	case opEmptySet:
		return m.make(Node{Kind: Set})
	case opTuple1, opTuple2, opTuple3:
		return m.tuple(int(op-opTuple1) + 1)
	case opList, opTuple, opFrozenSet, opDict:
		return m.gather(op)
	case opAppend:
		n, err := m.pop()
		if err != nil {
			return err
		}
		return m.add([]*Node{n}, List)
	case opAppends, opAddItems:
		items, err := m.popMark()
		if err != nil {
			return err
		}
		if op == opAddItems {
			return m.add(items, Set)
		}
		return m.add(items, List)
	case opSetItem:
		if len(m.stack)-m.floor() < 3 {
			return m.bad("the stack is empty")
		}
		k := len(m.stack) - 2
		pair := m.stack[k:]
		m.stack = m.stack[:k]
		return m.setItems(pair)
	case opSetItems:
		items, err := m.popMark()
		if err != nil {
			return err
		}
		return m.setItems(items)
	}
	return m.bad("opcode 0x%02x is not known", op)
}

func (m *machine) tuple(n int) error {
	if len(m.stack)-m.floor() < n {
		return m.bad("the stack is empty")
	}
	k := len(m.stack) - n
	items := slices.Clone(m.stack[k:])
	m.stack = m.stack[:k]
	return m.make(Node{Kind: Tuple, Items: items})
}

// gather makes a container of everything above the mark.
func (m *machine) gather(op byte) error {
	items, err := m.popMark()
	if err != nil {
		return err
	}
	kind := List
	switch op {
	case opTuple:
		kind = Tuple
	case opFrozenSet:
		kind = FrozenSet
	case opDict:
		kind = Dict
		if err := m.checkPairs(items); err != nil {
			return err
		}
	}
	return m.make(Node{Kind: kind, Items: slices.Clone(items)})
}

// add appends to the container on top of the stack: a list or set, or an
// object that would do it by a method.
func (m *machine) add(items []*Node, kind Kind) error {
	n, err := m.top()
	if err != nil {
		return err
	}
	switch n.Kind {
	case kind:
		n.Items = append(n.Items, items...)
	case Reduce, Object:
		n.Obj.Appends = append(n.Obj.Appends, items...)
	default:
		return m.bad("elements are added to a %s, a %s is wanted", n.Kind, kind)
	}
	return nil
}

func (m *machine) setItems(items []*Node) error {
	if err := m.checkPairs(items); err != nil {
		return err
	}
	n, err := m.top()
	if err != nil {
		return err
	}
	switch n.Kind {
	case Dict:
		n.Items = append(n.Items, items...)
	case Reduce, Object:
		n.Obj.Pairs = append(n.Obj.Pairs, items...)
	default:
		return m.bad("a key is set in a %s, a dict is wanted", n.Kind)
	}
	return nil
}

func (m *machine) checkPairs(items []*Node) error {
	if len(items)%2 != 0 {
		return m.bad("%d keys and values do not pair up", len(items))
	}
	for i := 0; i < len(items); i += 2 {
		if items[i].mutable() {
			return m.bad("a %s cannot be a key", items[i].Kind)
		}
	}
	return nil
}
