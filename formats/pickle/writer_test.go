package pickle

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func parseOne(t *testing.T, w *Writer) *Node {
	t.Helper()
	b := w.Stop()
	r, err := Parse(b, Limits{})
	if err != nil || r.End != len(b) || r.Proto != 2 {
		t.Fatalf("Parse(%q) = %+v, %v", b, r, err)
	}
	return r.Root
}

func TestIntegersComeBack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		v := int64(rnd.Uint64()) >> rnd.UintN(64)
		switch i {
		case 0:
			v = math.MinInt64
		case 1:
			v = math.MaxInt64
		}
		w := NewWriter()
		w.Int(v)
		if got, ok := parseOne(t, w).IsInt(); !ok || got != v {
			t.Fatalf("Int(%d) is read as %d, %v", v, got, ok)
		}
	}
}

func TestLargeIntegersComeBack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		v := new(big.Int)
		for range 1 + rnd.UintN(31) {
			v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(rnd.Uint64()))
		}
		if rnd.UintN(2) == 0 {
			v.Neg(v)
		}
		w := NewWriter()
		if !w.BigInt(v.String()) {
			t.Fatalf("BigInt(%s) is refused", v)
		}
		n := parseOne(t, w)
		if got, ok := n.IsInt(); ok && v.IsInt64() && got == v.Int64() {
			continue
		}
		if n.Text != v.String() {
			t.Fatalf("BigInt(%s) is read as %s", v, n.Text)
		}
	}
	for _, s := range []string{"", "-", "1x", string(bytes.Repeat([]byte{'9'}, 700))} {
		w := NewWriter()
		if before := w.Len(); w.BigInt(s) || w.Len() != before {
			t.Errorf("BigInt(%.10q) is written", s)
		}
	}
}

func TestStringsComeBack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	list := []string{"", "abc", "é中😀", "lone \xed\xa0\x80 surrogate", "a\xffb", "\xed\xb3\xbf", "\xed\xb2", "\xc3"}
	for range 2000 {
		b := make([]byte, rnd.UintN(8))
		for i := range b {
			b[i] = "\xed\xb2\xb3\xbf\xa0\x80\xc3\xa9\xffab"[rnd.UintN(11)]
		}
		list = append(list, string(b))
	}
	for _, s := range list {
		w := NewWriter()
		w.Mark()
		w.Str(s)
		w.Str(s)
		w.Tuple()
		n := parseOne(t, w)
		if n.Items[0].Text != s || n.Items[0] != n.Items[1] {
			t.Errorf("Str(%q) is read as %q, shared: %v", s, n.Items[0].Text, n.Items[0] == n.Items[1])
		}
	}
}

func TestEscapesOfBytesAreReadAsBytes(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a byte", "a\xed\xb3\xbf", "a\xff"},
		{"another surrogate", "\xed\xa0\x80", "\xed\xa0\x80"},
		{"the bytes of a character, which Python would not escape", "\xed\xb3\x83\xed\xb2\xa9", "\xed\xb3\x83\xed\xb2\xa9"},
	} {
		r, err := Parse([]byte("\x8c"+string(rune(len(c.in)))+c.in+"."), Limits{})
		if err != nil || r.Root.Text != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, r.Root.Text, err, c.want)
		}
	}
}

func TestTheMemoGrowsBeyondAByte(t *testing.T) {
	w := NewWriter()
	w.Mark()
	for i := range 600 {
		w.Str(string(rune('a' + i)))
	}
	for i := range 600 {
		w.Str(string(rune('a' + i)))
	}
	w.Tuple()
	n := parseOne(t, w)
	for i := range 600 {
		if n.Items[i] != n.Items[600+i] {
			t.Fatalf("string %d is not taken from the memo", i)
		}
	}
}

func TestEveryMethodWritesItsValue(t *testing.T) {
	w := NewWriter()
	w.Global("m", "f")
	w.Mark()
	w.None()
	w.Bool(true)
	w.Bool(false)
	w.Float(-1.5)
	w.Bytes("a\xff")
	w.EmptyTuple()
	w.EmptyDict()
	w.Mark()
	w.Str("k")
	w.Int(1)
	w.SetItems()
	w.EmptyList()
	w.Mark()
	w.Int(2)
	w.Appends()
	w.Int(3)
	w.Tuple1()
	w.PersID()
	w.Tuple()
	w.Reduce()
	w.EmptyDict()
	w.Build()
	w.Global("m", "f")
	w.Tuple2()
	want := "(call m.f(None True False -1.5 call _codecs.encode('aÿ' 'latin1') () {'k' i1} [i2] pid:(i3)) state{{}} m.f)"
	if got := show(parseOne(t, w), 0); got != want {
		t.Errorf("the pickle is\n%s\nwant\n%s", got, want)
	}
}

func TestEachVisitsWhatANodeHolds(t *testing.T) {
	r, err := Parse([]byte("cm\nC\n(K\x01t}\x92K\x02K\x03sK\x04aK\x05b."), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	r.Root.Each(func(*Node) { n++ })
	if n != 7 {
		t.Errorf("the object refers to %d values, want class, arguments, keyword arguments, key, value, element and state", n)
	}
}
