package dtype

import (
	"math"
	"testing"
)

func TestEveryNameLeadsBackToItsType(t *testing.T) {
	for x := Bool; int(x) < Count; x++ {
		if got, ok := Parse(x.String()); !ok || got != x {
			t.Errorf("Parse(%q) = %v, %v", x.String(), got, ok)
		}
		for _, c := range []struct {
			framework, name string
			from            func(string) (Type, bool)
		}{
			{"MindSpore", x.MindSpore(), FromMindSpore},
			{"safetensors", x.Safetensors(), FromSafetensors},
			{"torch", x.Torch(), FromTorch},
		} {
			if c.name == "" {
				continue
			}
			if got, ok := c.from(c.name); !ok || got != x {
				t.Errorf("%s: %q leads to %v, %v, want %v", c.framework, c.name, got, ok, x)
			}
		}
		if x.Bits() == 0 || x.Unit() == 0 {
			t.Errorf("%v has %d bits and a unit of %d bytes", x, x.Bits(), x.Unit())
		}
	}
	if got, ok := FromMindSpore("Uint16"); !ok || got != U16 {
		t.Errorf("the spelling of 2020, Uint16, leads to %v, %v", got, ok)
	}
	for _, s := range []string{"", "invalid", "F32 ", "uint"} {
		if got, ok := Parse(s); ok {
			t.Errorf("Parse(%q) = %v", s, got)
		}
	}
	if got := Type(200).String(); got != "invalid" {
		t.Errorf("a type that does not exist is called %q", got)
	}
}

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		name  string
		dtype Type
		shape []int64
		want  int64
		ok    bool
	}{
		{"a scalar", F32, nil, 4, true},
		{"a matrix", BF16, []int64{3, 5}, 30, true},
		{"no elements", F64, []int64{0, 1 << 40}, 0, true},
		{"elements of four bits", F4E2M1, []int64{3, 2}, 3, true},
		{"four bits that end within a byte", F4E2M1, []int64{3}, 0, false},
		{"six bits", F6E2M3, []int64{4}, 3, true},
		{"a negative dim", U8, []int64{-1}, 0, false},
		{"too many elements", U8, []int64{math.MaxInt64, 2}, 0, false},
		{"too many bits", F64, []int64{math.MaxInt64 / 8}, 0, false},
		{"no type", Invalid, []int64{1}, 0, false},
	} {
		if got, ok := c.dtype.Bytes(c.shape); ok != c.ok || ok && got != c.want {
			t.Errorf("%s: Bytes(%v) of %v = %d, %v, want %d, %v", c.name, c.shape, c.dtype, got, ok, c.want, c.ok)
		}
	}
}
