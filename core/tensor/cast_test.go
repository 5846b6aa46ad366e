package tensor_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/tensor"
)

var le = binary.LittleEndian

// layout of a floating type, from which its values follow by definition.
type float struct{ exp, mant uint }

var floats = map[dtype.Type]float{
	dtype.F16:  {5, 10},
	dtype.BF16: {8, 7},
	dtype.F32:  {8, 23},
	dtype.F64:  {11, 52},
}

func (f float) inf() uint64   { return (1<<f.exp - 1) << f.mant }
func (f float) sign() uint64  { return 1 << (f.exp + f.mant) }
func (f float) quiet() uint64 { return 1 << (f.mant - 1) }

// value is the value of a finite pattern without sign; infinity counts as the
// value that would follow the largest.
func (f float) value(v uint64) *big.Float {
	e, m := int(v>>f.mant), v&(1<<f.mant-1)
	if e > 0 {
		m |= 1 << f.mant
		e--
	}
	bias := 1<<(f.exp-1) - 1
	return new(big.Float).SetMantExp(new(big.Float).SetUint64(m), e-bias+1-int(f.mant))
}

// oracle casts by definition: it searches the target's values for the nearest.
func oracle(v uint64, to, from float) uint64 {
	s := uint64(0)
	if v&from.sign() != 0 {
		s = to.sign()
	}
	a := v &^ from.sign()
	switch {
	case a > from.inf():
		m := a & (1<<from.mant - 1)
		if to.mant < from.mant {
			m >>= from.mant - to.mant
		} else {
			m <<= to.mant - from.mant
		}
		return s | to.inf() | to.quiet() | m
	case a == from.inf():
		return s | to.inf()
	}
	x := from.value(a)
	hi := uint64(0) // the first value that is not below x
	for bit := to.sign() >> 1; bit > 0; bit >>= 1 {
		if v := hi + bit; v <= to.inf() && to.value(v-1).Cmp(x) < 0 {
			hi = v
		}
	}
	if hi == 0 || to.value(hi).Cmp(x) == 0 {
		return s | hi
	}
	lo := hi - 1
	below := new(big.Float).Sub(x, to.value(lo))
	above := new(big.Float).Sub(to.value(hi), x)
	switch c := below.Cmp(above); {
	case c < 0, c == 0 && lo&1 == 0:
		return s | lo
	}
	return s | hi
}

// edges are patterns next to which casts go wrong: every exponent of the type,
// with mantissas around zero, the quiet bit, and the halves of the narrow types.
func edges(f float) []uint64 {
	var out []uint64
	for e := range uint64(1) << f.exp {
		for i := uint(0); i <= f.mant; i++ {
			for d := -2; d <= 2; d++ {
				m := (uint64(1)<<i + uint64(d)) & (1<<f.mant - 1)
				out = append(out, e<<f.mant|m)
			}
		}
		for _, cut := range []uint{13, 16, 42, 45} { // ties of the narrow types
			if cut >= f.mant {
				continue
			}
			for _, m := range []uint64{1, 3, 1<<(f.mant-cut+1) - 1} {
				for d := -1; d <= 1; d++ {
					out = append(out, e<<f.mant|(m<<(cut-1)+uint64(d))&(1<<f.mant-1))
				}
			}
		}
	}
	for _, v := range out[:len(out):len(out)] {
		out = append(out, v|f.sign())
	}
	return out
}

func put(p []byte, size int64, v uint64) []byte {
	var b [8]byte
	le.PutUint64(b[:], v)
	return append(p, b[:size]...)
}

func at(p []byte, size int64, i int) uint64 {
	var b [8]byte
	copy(b[:], p[int64(i)*size:][:size])
	return le.Uint64(b[:])
}

// castAll casts patterns in one call and compares each with the oracle.
func castAll(t *testing.T, to, from dtype.Type, in []uint64) {
	t.Helper()
	var src []byte
	for _, v := range in {
		src = put(src, from.Size(), v)
	}
	dst := make([]byte, len(in)*int(to.Size()))
	overflow := tensor.Cast(dst, src, to, from)
	var wantOverflow int64
	for i, v := range in {
		want := oracle(v, floats[to], floats[from])
		if got := at(dst, to.Size(), i); got != want {
			t.Fatalf("%v %#x becomes %v %#x, want %#x", from, v, to, got, want)
		}
		if want&^floats[to].sign() == floats[to].inf() && v&^floats[from].sign() < floats[from].inf() {
			wantOverflow++
		}
	}
	if overflow != wantOverflow {
		t.Errorf("%v to %v: %d overflows of %d values, want %d", from, to, overflow, len(in), wantOverflow)
	}
}

// TestCastsRoundOnceAsDefined tries all edges if CONVERT_LONG is set, and else
// 5,000 of each type.
func TestCastsRoundOnceAsDefined(t *testing.T) {
	for from, f := range floats {
		for to := range floats {
			if to == from {
				continue
			}
			t.Run(fmt.Sprintf("%vTo%v", from, to), func(t *testing.T) {
				t.Parallel()
				in := edges(f)
				if os.Getenv("CONVERT_LONG") == "" {
					r := rand.New(rand.NewPCG(1, 2))
					r.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
					in = in[:min(len(in), 5000)]
				}
				castAll(t, to, from, in)
			})
		}
	}
}

func TestWideningIsRightForEveryPattern(t *testing.T) {
	var in []uint64
	for v := range uint64(1 << 16) {
		in = append(in, v)
	}
	for _, from := range []dtype.Type{dtype.F16, dtype.BF16} {
		castAll(t, dtype.F32, from, in)
		tensor.Plainly(func() { castAll(t, dtype.F32, from, in) })
	}
}

func TestPlainLoopsNarrowAsTheFastOnesDo(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	src := fill(r, 4<<16)
	for i := range 1 << 12 { // some of the values near the largest of each type
		le.PutUint32(src[4*i:], 0x477fe000+uint32(i)*2)
		le.PutUint32(src[4*(i+1<<12):], 0x7f7f0000+uint32(i)*16)
	}
	for _, to := range []dtype.Type{dtype.F16, dtype.BF16} {
		fast, plain := make([]byte, 2<<16), make([]byte, 2<<16)
		n := tensor.Cast(fast, src, to, dtype.F32)
		var m int64
		tensor.Plainly(func() { m = tensor.Cast(plain, src, to, dtype.F32) })
		if n != m || n == 0 || string(fast) != string(plain) {
			t.Errorf("f32 to %v: %d overflows, plainly %d, or the bytes differ", to, n, m)
		}
	}
}

func TestACastToTheSameTypeCopies(t *testing.T) {
	src := []byte{1, 0x7f, 0x80, 0xff}
	dst := make([]byte, 4)
	if n := tensor.Cast(dst, src, dtype.BF16, dtype.BF16); n != 0 || string(dst) != string(src) {
		t.Errorf("bf16 to bf16 of % x = % x, want the same bytes, a signalling NaN included", src, dst)
	}
}

// TestNarrowingOfEveryF32 compares the fast loops with the definition of one
// element for all 2^32 patterns if CONVERT_LONG is set, and else for a sample.
func TestNarrowingOfEveryF32(t *testing.T) {
	step := uint64(4099)
	if os.Getenv("CONVERT_LONG") != "" {
		step = 1
	}
	const batch = 1 << 16
	src, dst := make([]byte, 4*batch), make([]byte, 2*batch)
	for _, to := range []dtype.Type{dtype.F16, dtype.BF16} {
		for base := uint64(0); base < 1<<32; {
			first := base
			n := 0
			for ; n < batch && base < 1<<32; n++ {
				le.PutUint32(src[4*n:], uint32(base))
				base += step
			}
			got := tensor.Cast(dst, src[:4*n], to, dtype.F32)
			var want int64
			for i := range n {
				v := uint32(first + uint64(i)*step)
				w, over := tensor.Narrow(to, v)
				if over {
					want++
				}
				if le.Uint16(dst[2*i:]) != w {
					t.Fatalf("f32 %#x becomes %v %#x in bulk and %#x alone", v, to, le.Uint16(dst[2*i:]), w)
				}
			}
			if got != want {
				t.Fatalf("%d overflows to %v from %#x on, want %d", got, to, first, want)
			}
		}
	}
}

func TestCastsOfAnyLengthAndAlignmentAreTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for from := range floats {
		for to := range floats {
			for range 50 {
				n, a, b := r.IntN(200), r.IntN(8), r.IntN(8)
				src, dst := fill(r, int64(n)*from.Size()+8), make([]byte, n*int(to.Size())+8+16)
				in, out := src[a:][:n*int(from.Size())], dst[b:][:n*int(to.Size())]
				tensor.Cast(dst[b:], in, to, from)
				one := make([]byte, 8)
				for i := range n {
					tensor.Cast(one, in[int64(i)*from.Size():][:from.Size()], to, from)
					if got, want := at(out, to.Size(), i), at(one, to.Size(), 0); got != want {
						t.Fatalf("%v to %v: element %d of %d is %#x, alone %#x", from, to, i, n, got, want)
					}
				}
				for i, v := range dst[b+len(out):] {
					if v != 0 {
						t.Fatalf("%v to %v of %d elements wrote byte %d past the end", from, to, n, i)
					}
				}
			}
		}
	}
}

func TestCastOfNormalWeightsLosesLittle(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		x := float32(r.NormFloat64() * 0.02)
		src, mid, back := make([]byte, 4), make([]byte, 2), make([]byte, 4)
		le.PutUint32(src, math.Float32bits(x))
		tensor.Cast(mid, src, dtype.F16, dtype.F32)
		tensor.Cast(back, mid, dtype.F32, dtype.F16)
		if y := math.Float32frombits(le.Uint32(back)); math.Abs(float64(x-y)) > math.Max(math.Abs(float64(x))/2048, 0x1p-25) {
			t.Fatalf("%g through f16 is %g, want half a unit in the last place at most", x, y)
		}
	}
}

func BenchmarkCast(b *testing.B) {
	for from := range floats {
		for to := range floats {
			if from == to {
				continue
			}
			b.Run(fmt.Sprintf("%vTo%v", from, to), func(b *testing.B) {
				const n = 32 << 10
				r := rand.New(rand.NewPCG(1, 1))
				wide := make([]byte, 8*n)
				for i := range n {
					le.PutUint64(wide[8*i:], math.Float64bits(r.NormFloat64()*0.02))
				}
				src, dst := make([]byte, n*from.Size()), make([]byte, n*to.Size())
				tensor.Cast(src, wide, from, dtype.F64)
				b.SetBytes(n * from.Size())
				for b.Loop() {
					tensor.Cast(dst, src, to, from)
				}
			})
		}
	}
}
