package sum_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-e934e81e/convert/core/sum"
)

// split cuts each dim of a row-major tensor in two and returns the band of
// every part, with its place in the message, as seen from a buffer that holds
// the whole message.
func split(r *rand.Rand, shape []int64, elem int64) (bands []sum.Band, at []int64) {
	bands, at = []sum.Band{{Width: elem}}, []int64{0}
	pitch := elem
	for i := len(shape) - 1; i >= 0; i-- {
		cut := r.Int64N(shape[i] + 1)
		var nb []sum.Band
		var na []int64
		for j, b := range bands {
			for _, part := range [][2]int64{{0, cut}, {cut, shape[i]}} {
				d := sum.Dim{N: part[1] - part[0], Stride: pitch, Pitch: pitch}
				nb = append(nb, sum.Band{Width: b.Width, Dims: append([]sum.Dim{d}, b.Dims...)})
				na = append(na, at[j]+part[0]*pitch)
			}
		}
		bands, at = nb, na
		pitch *= shape[i]
	}
	return bands, at
}

func TestBoxesOfATensorInAnyOrderGiveTheTensorsSum(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 400 {
		elem := int64(1 << r.IntN(4))
		n := elem
		shape := make([]int64, r.IntN(4))
		for i := range shape {
			shape[i] = 1 + r.Int64N(24)
			n *= shape[i]
		}
		if len(shape) > 0 && r.IntN(4) == 0 {
			shape[len(shape)-1] *= 37
			n *= 37
		}
		p := random(r, int(n))
		bands, at := split(r, shape, elem)
		order := r.Perm(len(bands))
		for _, k := range kinds {
			a := sum.NewAcc(k, n)
			for _, i := range order {
				a.AddBand(p[min(at[i], n):], at[i], bands[i])
			}
			if got, want := a.Sum(), k.Of(p); got != want || a.Missing() != 0 {
				t.Fatalf("%v of shape %v × %d bytes in %d boxes = %#x with %d missing, want %#x and 0", k, shape, elem, len(bands), got, a.Missing(), want)
			}
		}
	}
}

func TestRowsLieDenseInTheBufferAndApartInTheMessage(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, w := range []int64{1, 2, 3, 7, 8, 12, 63, 64, 127, 128, 500} {
		for _, n := range []int64{1, 2, 95, 96, 300} {
			const cols = 3
			p := random(r, int(n*w*cols))
			for _, k := range kinds {
				a := sum.NewAcc(k, n*w*cols)
				for c := range int64(cols) {
					var rows []byte
					for i := range n {
						at := (i*cols + c) * w
						rows = append(rows, p[at:at+w]...)
					}
					a.AddBand(rows, c*w, sum.Rows(n, w, cols*w))
				}
				if got, want := a.Sum(), k.Of(p); got != want {
					t.Errorf("%v of %d rows of %d bytes = %#x, want %#x", k, n, w, got, want)
				}
			}
		}
	}
}

func TestABufferMayHoldTheTransposeOfTheMessage(t *testing.T) {
	const rows, cols, elem = 130, 70, 2
	r := rand.New(rand.NewPCG(11, 12))
	msg := random(r, rows*cols*elem)
	buf := make([]byte, len(msg))
	for i := range rows {
		for j := range cols {
			copy(buf[(j*rows+i)*elem:][:elem], msg[(i*cols+j)*elem:])
		}
	}
	for _, k := range kinds {
		for _, dims := range [][]sum.Dim{
			{{N: cols, Stride: rows * elem, Pitch: elem}, {N: rows, Stride: elem, Pitch: cols * elem}},
			{{N: rows, Stride: elem, Pitch: cols * elem}, {N: cols, Stride: rows * elem, Pitch: elem}},
		} {
			a := sum.NewAcc(k, int64(len(msg)))
			a.AddBand(buf, 0, sum.Band{Width: elem, Dims: dims})
			if got, want := a.Sum(), k.Of(msg); got != want {
				t.Errorf("%v of a transposed buffer by %v = %#x, want %#x", k, dims, got, want)
			}
		}
	}
}

func BenchmarkOf(b *testing.B) {
	for _, k := range kinds {
		for _, n := range []int{64, 2048, 1 << 20} {
			p := random(rand.New(rand.NewPCG(1, 1)), n)
			b.Run(fmt.Sprintf("%v/%d", k, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					k.Of(p)
				}
			})
		}
	}
}

// BenchmarkRows reports what one row costs, its bytes included.
func BenchmarkRows(b *testing.B) {
	for _, k := range kinds {
		for _, w := range []int64{2, 8, 64, 512, 4096} {
			n := (1 << 20) / w
			p := random(rand.New(rand.NewPCG(1, 1)), int(n*w))
			b.Run(fmt.Sprintf("%v/%d", k, w), func(b *testing.B) {
				a := sum.NewAcc(k, n*w*4)
				b.SetBytes(n * w)
				for b.Loop() {
					a.AddBand(p, 0, sum.Rows(n, w, 4*w))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
			})
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.String(), func(b *testing.B) {
			a := sum.NewAcc(k, 1<<40)
			for b.Loop() {
				a.Add(0x1234, 123456789, 4<<20)
			}
		})
	}
}
