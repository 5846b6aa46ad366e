package pickle

import "math"

// Kind is the kind of a node.
type Kind uint8

// The kinds of nodes.
const (
	None Kind = iota
	Bool
	Int
	Float
	Str
	Bytes
	ByteArray
	List
	Tuple
	Dict
	Set
	FrozenSet
	Global // a name of Python, not resolved
	Reduce // what a call would return, not called
	Object // an instance of a class, not made
	PersID // what the program that wrote the pickle keeps elsewhere
)

var kindNames = [...]string{
	"None", "bool", "int", "float", "str", "bytes", "bytearray", "list", "tuple",
	"dict", "set", "frozenset", "global", "call", "object", "persistent id",
}

// String names the kind as Python would.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// Node is one value of a pickle. Which fields mean something follows from Kind.
type Node struct {
	Kind Kind
	At   uint32 // offset of the opcode that made it; 0 for None, True and False

	// Int is the value of a Bool (0 or 1), of an Int that fits, and the bits of
	// a Float. For a Str it is 1 where the pickle holds a string of Python 2,
	// whose bytes may have been meant as such.
	Int int64

	// Text is the content of Str, Bytes and ByteArray; of an Int that int64
	// cannot hold the decimal digits, or "" where there are more than MaxDigits.
	Text string

	// Items are the elements of List, Tuple, Set and FrozenSet; keys and values
	// of a Dict in turn, a key that is set twice standing twice; the one id of a
	// PersID.
	Items []*Node

	Obj *Obj // of Global, Reduce and Object; of an Int that int64 cannot hold an empty one
}

// Obj is what a node has that names or calls.
type Obj struct {
	Module, Name string // of a Global

	Fn     *Node // the callable of a Reduce, the class of an Object
	Args   *Node // a Tuple, or what would have been one
	Kwargs *Node // of NEWOBJ_EX, else nil

	States  []*Node // what BUILD would have set, in order
	Pairs   []*Node // what SETITEM would have set: keys and values in turn
	Appends []*Node // what APPEND and ADDITEMS would have added
}

// MaxDigits is the number of decimal digits up to which large integers are
// kept. Python itself refuses to read longer ones from text.
const MaxDigits = 4300

// FloatValue is the value of a Float.
func (n *Node) FloatValue() float64 { return math.Float64frombits(uint64(n.Int)) }

// Big reports whether n is an Int that int64 cannot hold.
func (n *Node) Big() bool { return n.Kind == Int && n.Obj != nil }

// IsInt returns the value of an Int that fits int64.
func (n *Node) IsInt() (int64, bool) { return n.Int, n.Kind == Int && n.Obj == nil }

// IsGlobal reports whether n is the global of that full name.
func (n *Node) IsGlobal(full string) bool { return n.Kind == Global && n.FullName() == full }

// FullName is module and name of a Global joined by a dot; of all else "".
func (n *Node) FullName() string {
	if n.Kind != Global {
		return ""
	}
	return n.Obj.Module + "." + n.Obj.Name
}

// Each calls f with every node that n refers to directly.
func (n *Node) Each(f func(*Node)) {
	for _, x := range n.Items {
		f(x)
	}
	o := n.Obj
	if o == nil {
		return
	}
	for _, x := range [...]*Node{o.Fn, o.Args, o.Kwargs} {
		if x != nil {
			f(x)
		}
	}
	for _, list := range [...][]*Node{o.Pairs, o.Appends, o.States} {
		for _, x := range list {
			f(x)
		}
	}
}

// mutable reports whether Python could not hash n, so that it cannot be a key.
func (n *Node) mutable() bool {
	switch n.Kind {
	case List, Dict, Set, ByteArray:
		return true
	}
	return false
}
