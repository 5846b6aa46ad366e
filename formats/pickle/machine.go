package pickle

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Limits bound what a pickle may cost. A zero field takes the default.
type Limits struct {
	Ops   int    // opcodes; default 1<<25
	Nodes int    // values made, height of the stack, places in the memo; default 1<<22
	Yield func() // called every few thousand opcodes; may be nil
}

// Result is a pickle that was read up to its STOP.
type Result struct {
	Root    *Node
	End     int // offset behind STOP
	Proto   int // what PROTO says, 0 without it
	Nodes   int // values made
	Shared  int // times that a value which can hold others was taken again; 0 for a tree
	Globals []Ref
}

// Ref is the first mention of a global.
type Ref struct {
	Module, Name string
	At           int
}

// Error says where the bytes are no pickle, or one that cannot be loaded.
type Error struct {
	At  int // offset of the opcode
	Msg string
}

func (e *Error) Error() string { return fmt.Sprintf("pickle: at byte %d: %s", e.At, e.Msg) }

// Parse reads the pickle at the beginning of data. What follows its STOP is
// not looked at. Every failure is an *Error.
func Parse(data []byte, lim Limits) (*Result, error) {
	if lim.Ops == 0 {
		lim.Ops = 1 << 25
	}
	if lim.Nodes == 0 {
		lim.Nodes = 1 << 22
	}
	if lim.Yield == nil {
		lim.Yield = func() {}
	}
	if uint64(len(data)) > math.MaxUint32 {
		return nil, &Error{Msg: fmt.Sprintf("%d bytes are more than a pickle may have here", len(data))}
	}
	m := &machine{data: data, lim: lim, memo: map[uint32]*Node{}, seen: map[Ref]bool{}}
	if err := m.run(); err != nil {
		return nil, err
	}
	return &Result{Root: m.root, End: m.pos, Proto: m.proto, Nodes: m.nodes, Shared: m.shared, Globals: m.globals}, nil
}

var (
	nodeNone  = &Node{Kind: None}
	nodeFalse = &Node{Kind: Bool}
	nodeTrue  = &Node{Kind: Bool, Int: 1}
)

type machine struct {
	data    []byte
	pos     int // next byte to read
	at      int // the opcode at work
	lim     Limits
	stack   []*Node
	marks   []int // heights of the stack
	memo    map[uint32]*Node
	nodes   int
	shared  int
	proto   int
	root    *Node
	globals []Ref
	seen    map[Ref]bool
}

func (m *machine) run() error {
	for ops := 0; m.root == nil; ops++ {
		m.at = m.pos
		if ops >= m.lim.Ops {
			return m.bad("more than %d opcodes", m.lim.Ops)
		}
		if ops&4095 == 0 {
			m.lim.Yield()
		}
		if m.pos >= len(m.data) {
			return m.bad("the pickle ends without STOP")
		}
		op := m.data[m.pos]
		m.pos++
		if err := m.step(op); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) bad(format string, args ...any) error {
	return &Error{At: m.at, Msg: fmt.Sprintf(format, args...)}
}

// step runs one opcode. Those of the text protocols, of containers and of
// calls are in their own files.
func (m *machine) step(op byte) error {
	switch op {
	case opProto:
		p, err := m.uint(1)
		if err != nil {
			return err
		}
		if p > highestProtocol {
			return m.bad("protocol %d is not known, the highest is %d", p, highestProtocol)
		}
		m.proto = int(p)
		return nil
	case opFrame:
		_, err := m.length(8)
		return err
	case opStop:
		n, err := m.pop()
		m.root = n
		return err
	case opMark:
		if len(m.marks) >= m.lim.Nodes {
			return m.bad("more than %d marks", m.lim.Nodes)
		}
		m.marks = append(m.marks, len(m.stack))
		return nil
	case opPop:
		if k := len(m.marks); k > 0 && m.marks[k-1] == len(m.stack) {
			m.marks = m.marks[:k-1]
			return nil
		}
		_, err := m.pop()
		return err
	case opPopMark:
		_, err := m.popMark()
		return err
	case opDup:
		n, err := m.top()
		if err != nil {
			return err
		}
		return m.again(n)
	case opNone:
		return m.push(nodeNone)
	case opNewTrue:
		return m.push(nodeTrue)
	case opNewFalse:
		return m.push(nodeFalse)
	case opExt1, opExt2, opExt4:
		return m.bad("the pickle refers to the extension registry of the program that wrote it")
	case opNextBuffer, opReadOnlyBuffer:
		return m.bad("the pickle refers to a buffer outside of it")
	case opInt, opLong, opFloat, opString, opUnicode, opPersID, opGet, opPut:
		return m.text(op)
	case opBinInt, opBinInt1, opBinInt2, opLong1, opLong4, opBinFloat:
		return m.number(op)
	case opBinString, opShortBinString, opBinUnicode, opShortBinUnicode, opBinUnicode8,
		opBinBytes, opShortBinBytes, opBinBytes8, opByteArray8:
		return m.bytes(op)
	case opBinGet, opLongBinGet, opBinPut, opLongBinPut, opMemoize:
		return m.memory(op)
	case opGlobal, opStackGlobal, opReduce, opBuild, opNewObj, opNewObjEx, opInst, opObj, opBinPersID:
		return m.call(op)
	}
	return m.container(op)
}

// take returns the next n bytes.
func (m *machine) take(n int) ([]byte, error) {
	if n > len(m.data)-m.pos {
		return nil, m.bad("%d bytes are wanted, the pickle has %d left", n, len(m.data)-m.pos)
	}
	b := m.data[m.pos : m.pos+n]
	m.pos += n
	return b, nil
}

// uint reads an unsigned little-endian integer of 1, 2, 4 or 8 bytes.
func (m *machine) uint(width int) (uint64, error) {
	b, err := m.take(width)
	if err != nil {
		return 0, err
	}
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:]), nil
}

// length reads a length and compares it with what is left.
func (m *machine) length(width int) (int, error) {
	n, err := m.uint(width)
	if err != nil {
		return 0, err
	}
	if left := len(m.data) - m.pos; n > uint64(left) {
		return 0, m.bad("claims %d bytes, the pickle has %d left", n, left)
	}
	return int(n), nil
}

// line returns the bytes up to the next newline, which is consumed.
func (m *machine) line() ([]byte, error) {
	for i := m.pos; i < len(m.data); i++ {
		if m.data[i] == '\n' {
			b := m.data[m.pos:i]
			m.pos = i + 1
			return b, nil
		}
	}
	return nil, m.bad("the line does not end")
}

// push puts a value on the stack, which may be as high as there may be values.
func (m *machine) push(n *Node) error {
	if len(m.stack) >= m.lim.Nodes {
		return m.bad("more than %d values on the stack", m.lim.Nodes)
	}
	m.stack = append(m.stack, n)
	return nil
}

// make pushes a new value.
func (m *machine) make(n Node) error {
	if m.nodes++; m.nodes > m.lim.Nodes {
		return m.bad("more than %d values", m.lim.Nodes)
	}
	n.At = uint32(m.at)
	return m.push(&n)
}

// floor is the height under which the present mark forbids to take.
func (m *machine) floor() int {
	if k := len(m.marks); k > 0 {
		return m.marks[k-1]
	}
	return 0
}

func (m *machine) top() (*Node, error) {
	if len(m.stack) <= m.floor() {
		return nil, m.bad("the stack is empty")
	}
	return m.stack[len(m.stack)-1], nil
}

func (m *machine) pop() (*Node, error) {
	n, err := m.top()
	if err == nil {
		m.stack = m.stack[:len(m.stack)-1]
	}
	return n, err
}

// popMark takes everything above the last mark, and the mark. The result is
// only valid until the next push.
func (m *machine) popMark() ([]*Node, error) {
	if len(m.marks) == 0 {
		return nil, m.bad("there is no mark")
	}
	k := m.marks[len(m.marks)-1]
	m.marks = m.marks[:len(m.marks)-1]
	items := m.stack[k:]
	m.stack = m.stack[:k]
	return items, nil
}

func (m *machine) memory(op byte) error {
	var i uint64
	var err error
	switch op {
	case opBinGet, opBinPut:
		i, err = m.uint(1)
	case opLongBinGet, opLongBinPut:
		i, err = m.uint(4)
	default:
		i = uint64(len(m.memo))
	}
	if err != nil {
		return err
	}
	if op == opBinGet || op == opLongBinGet {
		return m.get(i)
	}
	return m.put(i)
}

func (m *machine) get(i uint64) error {
	n, ok := m.memo[uint32(i)]
	if !ok || i > math.MaxUint32 {
		return m.bad("the memo has no entry %d", i)
	}
	return m.again(n)
}

// again pushes a value that was made before.
func (m *machine) again(n *Node) error {
	if n.Kind >= List && n.Kind != Global && (n.Kind != Tuple || len(n.Items) > 0) {
		m.shared++
	}
	return m.push(n)
}

func (m *machine) put(i uint64) error {
	n, err := m.top()
	if err != nil {
		return err
	}
	if i > math.MaxUint32 || len(m.memo) >= m.lim.Nodes {
		return m.bad("entry %d is more than the memo may have", i)
	}
	m.memo[uint32(i)] = n
	return nil
}
