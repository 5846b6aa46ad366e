package tensor_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-e934e81e/convert/core/tensor"
)

// naive is Copy, one element after the other.
func naive(dst []byte, dstStride []int64, src []byte, srcStride []int64, ext []int64, elem int64) {
	n := int64(1)
	for _, e := range ext {
		n *= e
	}
	for at := range n {
		var d, s int64
		for i, rest := len(ext)-1, at; i >= 0; i-- {
			d += rest % ext[i] * dstStride[i]
			s += rest % ext[i] * srcStride[i]
			rest /= ext[i]
		}
		copy(dst[d:d+elem], src[s:s+elem])
	}
}

// strides lays a box out in a random order of dims with gaps, and returns the
// number of bytes that it spans.
func strides(r *rand.Rand, ext []int64, elem int64) ([]int64, int64) {
	out := make([]int64, len(ext))
	n := elem
	for _, i := range r.Perm(len(ext)) {
		if r.IntN(3) == 0 {
			n += r.Int64N(5)
		}
		out[i] = n
		n *= max(ext[i], 1)
	}
	return out, n
}

func fill(r *rand.Rand, n int64) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func TestCopyEqualsANaiveLoop(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		ext := make([]int64, r.IntN(5))
		for i := range ext {
			ext[i] = r.Int64N([]int64{3, 9, 70}[r.IntN(3)])
			if len(ext) > 3 {
				ext[i] %= 12
			}
		}
		elem := []int64{1, 2, 3, 4, 8, 16, 20}[r.IntN(7)]
		ds, dn := strides(r, ext, elem)
		ss, sn := strides(r, ext, elem)
		src := fill(r, sn)
		want := fill(r, dn)
		got := bytes.Clone(want)
		naive(want, ds, src, ss, ext, elem)
		tensor.Copy(got, ds, src, ss, ext, elem)
		if !bytes.Equal(got, want) {
			t.Fatalf("Copy of %v elements of %d bytes, strides %v from %v, differs from the naive loop", ext, elem, ds, ss)
		}
	}
}

func TestCopyMaySpreadOneSourceElement(t *testing.T) {
	got := make([]byte, 6)
	tensor.Copy(got, []int64{2}, []byte{7, 8}, []int64{0}, []int64{3}, 2)
	if want := []byte{7, 8, 7, 8, 7, 8}; !bytes.Equal(got, want) {
		t.Errorf("a copy with source stride 0 gives %v, want %v", got, want)
	}
}

func TestCopyPanicsBeforeItLeavesABuffer(t *testing.T) {
	for _, tt := range []struct {
		name     string
		dst, src int
	}{
		{"target", 23, 24},
		{"source", 24, 23},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a copy past the end of the %s did not panic", tt.name)
				}
			}()
			tensor.Copy(make([]byte, tt.dst), []int64{4, 12}, make([]byte, tt.src), []int64{8, 4}, []int64{3, 2}, 4)
		}()
	}
}

func TestCopyOfNothingTouchesNothing(t *testing.T) {
	tensor.Copy(nil, []int64{8, 4}, nil, []int64{8, 4}, []int64{0, 2}, 4)
	tensor.Copy(nil, nil, nil, nil, nil, 0)
}

func BenchmarkCopy(b *testing.B) {
	const side = 1024
	for _, elem := range []int64{1, 2, 4, 8} {
		src := make([]byte, side*side*elem)
		dst := make([]byte, side*side*elem)
		row, col := []int64{side * elem, elem}, []int64{elem, side * elem}
		run := func(name string, ds, ss, ext []int64) {
			b.Run(fmt.Sprintf("%s/%d", name, elem), func(b *testing.B) {
				b.SetBytes(ext[0] * ext[1] * elem)
				for b.Loop() {
					tensor.Copy(dst, ds, src, ss, ext, elem)
				}
			})
		}
		run("whole", row, row, []int64{side, side})
		run("transpose", row, col, []int64{side, side})
		run("columns64", []int64{64 * elem, elem}, row, []int64{side, 64})
		run("everyThird", []int64{side / 4 * elem, elem}, []int64{side * elem, 3 * elem}, []int64{side, side / 4})
	}
}
