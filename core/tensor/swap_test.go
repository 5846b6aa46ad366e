package tensor_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/tensor"
)

func TestSwapReversesEveryUnit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, unit := range []int64{1, 2, 4, 8} {
		for n := range int64(40) {
			p := fill(r, n)
			want := bytes.Clone(p)
			for at := int64(0); at+unit <= n; at += unit {
				slices.Reverse(want[at : at+unit])
			}
			tensor.Swap(p, unit)
			if !bytes.Equal(p, want) {
				t.Errorf("Swap of %d bytes in units of %d = % x, want % x", n, unit, p, want)
			}
		}
	}
}

// components is the size of a type's real part, and how many parts it has.
var components = map[dtype.Type][2]int64{
	dtype.F16: {2, 1}, dtype.BF16: {2, 1}, dtype.F32: {4, 1}, dtype.F64: {8, 1},
	dtype.C32: {2, 2}, dtype.C64: {4, 2}, dtype.C128: {8, 2},
}

func TestSignFlipsTouchSignBitsOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for typ, c := range components {
		for n := range int64(9) {
			p := fill(r, n*typ.Size())
			neg, conj := bytes.Clone(p), bytes.Clone(p)
			for i := c[0] - 1; i < int64(len(p)); i += c[0] {
				neg[i] ^= 0x80
				if i/c[0]%2 == 1 && c[1] == 2 {
					conj[i] ^= 0x80
				}
			}
			a, b := bytes.Clone(p), bytes.Clone(p)
			if err := tensor.Negate(a, typ); err != nil || !bytes.Equal(a, neg) {
				t.Errorf("Negate of %d %v: %v, % x, want % x", n, typ, err, a, neg)
			}
			if err := tensor.Conjugate(b, typ); err != nil || !bytes.Equal(b, conj) {
				t.Errorf("Conjugate of %d %v: %v, % x, want % x", n, typ, err, b, conj)
			}
		}
	}
}

func TestIntegersAreNotNegatedBySignBit(t *testing.T) {
	if err := tensor.Negate(make([]byte, 8), dtype.I32); err == nil {
		t.Error("Negate of i32 succeeded, want an error")
	}
}

func TestNegateOfAValue(t *testing.T) {
	p := le.AppendUint32(nil, math.Float32bits(1.5))
	if err := tensor.Negate(p, dtype.F32); err != nil {
		t.Fatal(err)
	}
	if got := math.Float32frombits(le.Uint32(p)); got != -1.5 {
		t.Errorf("the negative of 1.5 = %g, want -1.5", got)
	}
}

func BenchmarkSwap(b *testing.B) {
	p := make([]byte, 256<<10)
	for _, unit := range []int64{2, 4, 8} {
		b.Run(fmt.Sprint(unit), func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				tensor.Swap(p, unit)
			}
		})
	}
}
