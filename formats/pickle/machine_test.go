package pickle

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

// show writes a node, for comparison; what is shared or holds itself is cut.
func show(n *Node, depth int) string {
	if n == nil {
		return "-"
	}
	if depth > 12 {
		return "…"
	}
	list := func(items []*Node) string {
		parts := make([]string, len(items))
		for i, x := range items {
			parts[i] = show(x, depth+1)
		}
		return strings.Join(parts, " ")
	}
	switch n.Kind {
	case None:
		return "None"
	case Bool:
		return map[int64]string{0: "False", 1: "True"}[n.Int]
	case Int:
		if n.Big() {
			return n.Text
		}
		return "i" + strconv.FormatInt(n.Int, 10)
	case Float:
		return strconv.FormatFloat(n.FloatValue(), 'g', -1, 64)
	case Str:
		if n.Int == 1 {
			return "s'" + n.Text + "'"
		}
		return "'" + n.Text + "'"
	case Bytes:
		return "b'" + n.Text + "'"
	case ByteArray:
		return "ba'" + n.Text + "'"
	case List:
		return "[" + list(n.Items) + "]"
	case Tuple:
		return "(" + list(n.Items) + ")"
	case Dict:
		return "{" + list(n.Items) + "}"
	case Set:
		return "set{" + list(n.Items) + "}"
	case FrozenSet:
		return "frozen{" + list(n.Items) + "}"
	case Global:
		return n.FullName()
	case PersID:
		return "pid:" + list(n.Items)
	}
	s := map[Kind]string{Reduce: "call", Object: "new"}[n.Kind] + " " + show(n.Obj.Fn, depth+1) + show(n.Obj.Args, depth+1)
	if n.Obj.Kwargs != nil {
		s += "**" + show(n.Obj.Kwargs, depth+1)
	}
	for what, items := range map[string][]*Node{" set": n.Obj.Pairs, " add": n.Obj.Appends, " state": n.Obj.States} {
		if len(items) > 0 {
			s += what + "{" + list(items) + "}"
		}
	}
	return s
}

func TestEveryOpcode(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"None, True, False", "(N\x88\x89t.", "(None True False)"},
		{"INT", "(I5\nI-7\nI01\nI00\nI9223372036854775808\nt.", "(i5 i-7 True False 9223372036854775808)"},
		{"LONG", "(L5L\nL-99999999999999999999L\nL7\nt.", "(i5 -99999999999999999999 i7)"},
		{"BININT", "(J\xff\xff\xff\xffK\xffM\x01\x02t.", "(i-1 i255 i513)"},
		{"LONG1", "(\x8a\x00\x8a\x01\xff\x8a\x02\xff\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80t.", "(i0 i-1 i255 i-9223372036854775808)"},
		{"LONG1 of nine bytes", "(\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xfft.", "(9223372036854775808 -9223372036854775809)"},
		{"LONG4", "\x8b\x02\x00\x00\x00\x00\x80.", "i-32768"},
		{"FLOAT and BINFLOAT", "(F-1.5\nFinf\nG\x3f\xf8\x00\x00\x00\x00\x00\x00t.", "(-1.5 +Inf 1.5)"},
		{"STRING", `(S'a\'\x41\n'` + "\n" + `S"q'"` + "\nt.", "(s'a'A\n' s'q'')"},
		{"BINSTRING", "(T\x02\x00\x00\x00abU\x01cU\x01\xfft.", "(s'ab' s'c' b'\xff')"},
		{"UNICODE", "(V\\u00e9\\U0001f600\xe9\nV\\ud800\nt.", "('é😀é' '\xed\xa0\x80')"},
		{"BINUNICODE", "(X\x02\x00\x00\x00\xc3\xa9\x8c\x01a\x8d\x01\x00\x00\x00\x00\x00\x00\x00bt.", "('é' 'a' 'b')"},
		{"BINBYTES", "(B\x01\x00\x00\x00\xffC\x01\x00\x8e\x01\x00\x00\x00\x00\x00\x00\x00b\x96\x01\x00\x00\x00\x00\x00\x00\x00ct.", "(b'\xff' b'\x00' b'b' ba'c')"},
		{"lists", "(](K\x01K\x02e(K\x03l]K\x04at.", "([i1 i2] [i3] [i4])"},
		{"tuples", "()K\x01\x85K\x01K\x02\x86K\x01K\x02K\x03\x87t.", "(() (i1) (i1 i2) (i1 i2 i3))"},
		{"dicts", "(}K\x01K\x02s(K\x03K\x04d}(K\x05K\x06K\x07K\x08ut.", "({i1 i2} {i3 i4} {i5 i6 i7 i8})"},
		{"sets", "(\x8f(K\x01K\x02\x90(K\x03\x91t.", "(set{i1 i2} frozen{i3})"},
		{"POP, POP_MARK and DUP", "(K\x01K\x020(K\x03K\x041(02t.", "(i1 i1)"},
		{"the memo as text", "(K\x05p7\nK\x06g7\nt.", "(i5 i6 i5)"},
		{"the memo in bytes", "(K\x05q\x01r\x00\x01\x00\x00h\x01j\x00\x01\x00\x00t.", "(i5 i5 i5)"},
		{"MEMOIZE", "\x80\x04(K\x05\x94K\x06\x94h\x00t.", "(i5 i6 i5)"},
		{"FRAME", "\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00K\x05.", "i5"},
		{"GLOBAL and STACK_GLOBAL", "(cos\nsystem\n\x8c\x01m\x8c\x03a.b\x93t.", "(os.system m.a.b)"},
		{"REDUCE", "cos\nsystem\n(X\x02\x00\x00\x00lstR.", "call os.system('ls')"},
		{"NEWOBJ and NEWOBJ_EX", "(cm\nC\n)\x81cm\nC\n)}\x92t.", "(new m.C() new m.C()**{})"},
		{"INST and OBJ", "((K\x01im\nC\n(cm\nC\nK\x02ot.", "(new m.C(i1) new m.C(i2))"},
		{"BUILD", "cm\nC\n)\x81}K\x01K\x02sb.", "new m.C() state{{i1 i2}}"},
		{"keys and elements of an object", "(cm\nC\n)RK\x01K\x02scm\nC\n)RK\x03at.", "(call m.C() set{i1 i2} call m.C() add{i3})"},
		{"persistent ids", "(Pabc\nK\x01Qt.", "(pid:'abc' pid:i1)"},
	} {
		r, err := Parse([]byte(c.in+"junk"), Limits{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := show(r.Root, 0); got != c.want {
			t.Errorf("%s: Parse = %s, want %s", c.name, got, c.want)
		}
		if r.End != len(c.in) {
			t.Errorf("%s: the pickle ends at %d, want %d", c.name, r.End, len(c.in))
		}
	}
}

func TestWhatIsNoPickle(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", "at byte 0: the pickle ends without STOP"},
		{"no STOP", "K\x05", "at byte 2: the pickle ends without STOP"},
		{"an unknown opcode", "K\x05\x1a.", "at byte 2: opcode 0x1a is not known"},
		{"protocol 6", "\x80\x06N.", "at byte 0: protocol 6 is not known"},
		{"an empty stack", ".", "the stack is empty"},
		{"a stack that is empty above the mark", "K\x01(K\x02aN.", "the stack is empty"},
		{"a tuple of more than there is", "K\x01\x87.", "the stack is empty"},
		{"a key without a container", "K\x01K\x02s.", "the stack is empty"},
		{"no mark", "K\x01t.", "there is no mark"},
		{"a key in an int", "K\x01K\x02K\x03s.", "a key is set in a int, a dict is wanted"},
		{"an element in a dict", "}K\x03a.", "elements are added to a dict, a list is wanted"},
		{"a list as a key", "}]K\x03s.", "a list cannot be a key"},
		{"a key without a value", "}(K\x03u.", "1 keys and values do not pair up"},
		{"a state on a list", "]}b.", "a state is set on a list"},
		{"a call of an int", "K\x01)R.", "a int is called"},
		{"a call with a list", "cm\nC\n]R.", "the arguments of a call are a list"},
		{"a string longer than the rest", "X\xff\xff\xff\xffab.", "claims 4294967295 bytes, the pickle has 3 left"},
		{"bytes longer than an int", "\x8e\xff\xff\xff\xff\xff\xff\xff\xff.", "claims 18446744073709551615 bytes"},
		{"a frame longer than the rest", "\x95\x09\x00\x00\x00\x00\x00\x00\x00N.", "claims 9 bytes"},
		{"a long longer than the rest", "\x8b\xff\xff\xff\xff.", "claims 4294967295 bytes"},
		{"an argument cut short", "J\x01", "4 bytes are wanted, the pickle has 1 left"},
		{"a line without end", "cos", "the line does not end"},
		{"text that is not UTF-8", "X\x01\x00\x00\x00\xff.", "the text is not UTF-8"},
		{"an escape cut short", "V\\u12\n.", "broken \\u escape"},
		{"a string without quotes", "Sabc\n.", "not quoted"},
		{"no integer", "I1x\n.", "`1x` is no integer"},
		{"no float", "Fabc\n.", "`abc` is no float"},
		{"a memo place that is none", "gx\n.", "`x` is no place in the memo"},
		{"a memo place that is empty", "h\x05.", "the memo has no entry 5"},
		{"the extension registry", "\x82\x01.", "extension registry"},
		{"an outside buffer", "\x97.", "buffer outside"},
		{"a global of numbers", "K\x01K\x02\x93.", "a global is named by a int and a int"},
		{"an object without a class", "(o.", "the stack is empty"},
	} {
		_, err := Parse([]byte(c.in), Limits{})
		if pe := (*Error)(nil); !errors.As(err, &pe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name string
		in   string
		lim  Limits
		want string
	}{
		{"opcodes", strings.Repeat("N0", 60) + "N.", Limits{Ops: 100}, "more than 100 opcodes"},
		{"values", "(" + strings.Repeat("K\x01", 60) + "t.", Limits{Nodes: 50}, "more than 50 values"},
		{"the stack", "(" + strings.Repeat("N", 60) + "t.", Limits{Nodes: 50}, "more than 50 values on the stack"},
		{"marks", strings.Repeat("(", 60) + "t.", Limits{Nodes: 50}, "more than 50 marks"},
		{"the memo", "N" + strings.Repeat("\x94", 60) + ".", Limits{Nodes: 50}, "more than the memo may have"},
	} {
		if _, err := Parse([]byte(c.in), c.lim); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.want)
		}
	}
}

func TestDeepAndCyclicPickles(t *testing.T) {
	deep := strings.Repeat("]", 100_000) + strings.Repeat("a", 99_999) + "."
	if _, err := Parse([]byte(deep), Limits{}); err != nil {
		t.Errorf("100000 nested lists: %v", err)
	}
	r, err := Parse([]byte("]q\x00h\x00a."), Limits{})
	if err != nil || r.Root.Items[0] != r.Root {
		t.Errorf("a list in itself: %v, %v", r, err)
	}
	bomb := "]q\x00" + strings.Repeat("]q\x01(h\x00h\x00eq\x00", 1000) + "."
	if r, err = Parse([]byte(bomb), Limits{}); err != nil || r.Nodes != 1001 || r.Shared != 2000 {
		t.Errorf("a tree of 2^1000 leaves: %v, %v", r.Nodes, err)
	}
}

func TestGlobalsAreListedOnceInOrder(t *testing.T) {
	r, err := Parse([]byte("(ca\nb\ncc\nd\nca\nb\nt."), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Globals) != 2 || r.Globals[0] != (Ref{"a", "b", 1}) || r.Globals[1] != (Ref{"c", "d", 6}) {
		t.Errorf("Globals = %v, want a.b at 1 and c.d at 6", r.Globals)
	}
}
