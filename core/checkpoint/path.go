package checkpoint

import (
	"strconv"
	"strings"
)

// PartKind is the kind of one step of a path.
type PartKind uint8

// The kinds of steps. KeyPart and IndexPart are what an ordinary container has;
// the others say how Python reaches the value.
const (
	KeyPart    PartKind = iota // a string key of a dict
	IndexPart                  // an index of a list or tuple, or an int key of a dict
	AttrPart                   // an attribute set on an object, such as a state dict's _metadata
	StatePart                  // a part of a quantized or wrapped tensor's state: "scales"
	SparsePart                 // a part of a sparse tensor: "indices", "values"
	OtherPart                  // a dict key of another type, in Python's notation
)

// Part is one step of a path.
type Part struct {
	Kind  PartKind
	Text  string // of all kinds but IndexPart
	Index int64
}

// Path is the identity of a tensor or leaf in a nested checkpoint. Joining it
// with dots gives a label, which may be ambiguous.
type Path []Part

// Keys makes a path of string keys.
func Keys(keys ...string) Path {
	p := make(Path, len(keys))
	for i, k := range keys {
		p[i] = Part{Kind: KeyPart, Text: k}
	}
	return p
}

// Label joins the bare parts with dots.
func (p Path) Label() string {
	if len(p) == 1 && p[0].Kind != IndexPart {
		return p[0].Text
	}
	var b strings.Builder
	for i, x := range p {
		if i > 0 {
			b.WriteByte('.')
		}
		if x.Kind == IndexPart {
			b.WriteString(strconv.FormatInt(x.Index, 10))
		} else {
			b.WriteString(x.Text)
		}
	}
	return b.String()
}

// Equal reports whether two paths are the same, kinds included.
func (p Path) Equal(q Path) bool {
	if len(p) != len(q) {
		return false
	}
	for i := range p {
		if p[i] != q[i] {
			return false
		}
	}
	return true
}

// ValueKind is the kind of a leaf's value.
type ValueKind uint8

// The kinds of values.
const (
	None ValueKind = iota
	Boolean
	Integer
	Float
	Text   // a string
	Bytes  // a byte string
	Sized  // a container or other value of which only Len is known
	Opaque // an object that is not interpreted; Text names its class
)

// Value is the value of a leaf.
type Value struct {
	Kind  ValueKind
	Bool  bool
	Int   int64
	Big   string // decimal digits of an Integer that int64 cannot hold, else ""
	Float float64
	Text  string
	Len   int // elements of a container
}

// Leaf is anything in a checkpoint that is no tensor: a step counter, a
// learning rate, the state of a generator, a container.
//
// Containers come as leaves too, before what they hold, so that the whole tree
// can be built again.
type Leaf struct {
	Path  Path
	Type  string // as its framework calls it: "int", "float", "dict", "OrderedDict"
	Value Value
	Seq   int // place among all entries and leaves of the checkpoint
}
