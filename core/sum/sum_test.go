package sum_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/seed-e934e81e/convert/core/sum"
)

var kinds = []sum.Kind{sum.CRC64, sum.CRC32}

func TestVectors(t *testing.T) {
	for _, tt := range []struct {
		kind sum.Kind
		in   string
		want uint64
	}{
		// The check value of the NVM Express specification, and its 4 KiB vectors.
		{sum.CRC64, "123456789", 0xae8b14860a799888},
		{sum.CRC64, "", 0},
		{sum.CRC64, string(make([]byte, 4096)), 0x6482d367eb22b64e},
		{sum.CRC32, "123456789", 0xcbf43926},
		{sum.CRC32, "", 0},
		{sum.CRC32, string(make([]byte, 32)), 0x190a55ad},
	} {
		if got := tt.kind.Of([]byte(tt.in)); got != tt.want {
			t.Errorf("%v of %.9q… (%d bytes) = %#x, want %#x", tt.kind, tt.in, len(tt.in), got, tt.want)
		}
	}
}

func random(r *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func TestASumOfTwoPartsCombines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		p := random(r, r.IntN(3000))
		cut := r.IntN(len(p) + 1)
		for _, k := range kinds {
			got := k.Combine(k.Of(p[:cut]), k.Of(p[cut:]), int64(len(p)-cut))
			if want := k.Of(p); got != want {
				t.Fatalf("%v: %d + %d bytes combine to %#x, want %#x", k, cut, len(p)-cut, got, want)
			}
		}
	}
}

func TestZerosIsTheSumOfZeros(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 255, 256, 257, 65535, 65536, 1 << 20} {
		for _, k := range kinds {
			if got, want := k.Zeros(int64(n)), k.Of(make([]byte, n)); got != want {
				t.Errorf("%v.Zeros(%d) = %#x, want %#x", k, n, got, want)
			}
		}
	}
}

func TestZerosOfATerabyteFollowFromItsHalves(t *testing.T) {
	for _, k := range kinds {
		for bit := 20; bit < 62; bit++ {
			half := k.Zeros(1 << bit)
			if got, want := k.Zeros(2<<bit), k.Combine(half, half, 1<<bit); got != want {
				t.Errorf("%v.Zeros(2^%d) = %#x, want %#x", k, bit+1, got, want)
			}
		}
	}
}

func TestAnySplitInAnyOrderGivesTheWholeSum(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		p := random(r, r.IntN(5000))
		cuts := pieces(r, len(p))
		for _, k := range kinds {
			a := sum.NewAcc(k, int64(len(p)))
			var wg sync.WaitGroup
			for i, c := range cuts {
				add := func() { a.AddBytes(p[c[0]:c[1]], int64(c[0])) }
				if i%3 == 0 {
					wg.Go(add)
				} else {
					add()
				}
			}
			wg.Wait()
			if got, want := a.Sum(), k.Of(p); got != want || a.Missing() != 0 {
				t.Fatalf("%v of %d bytes in %d pieces = %#x with %d missing, want %#x and 0", k, len(p), len(cuts), got, a.Missing(), want)
			}
		}
	}
}

// pieces cuts 0..n at random and shuffles the pieces.
func pieces(r *rand.Rand, n int) [][2]int {
	var out [][2]int
	for at := 0; at < n; {
		end := min(n, at+1+r.IntN(200))
		out = append(out, [2]int{at, end})
		at = end
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func TestMissingCountsWhatWasForgottenAndWhatCameTwice(t *testing.T) {
	a := sum.NewAcc(sum.CRC64, 100)
	a.AddBytes(make([]byte, 30), 0)
	if got := a.Missing(); got != 70 {
		t.Errorf("Missing after 30 of 100 bytes = %d, want 70", got)
	}
	a.AddBytes(make([]byte, 80), 20)
	if got := a.Missing(); got != -10 {
		t.Errorf("Missing after ten bytes too many = %d, want -10", got)
	}
}

func TestAccumulatorsOfTheSameMessageMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	p := random(r, 10000)
	clear(p[4000:6000])
	for _, k := range kinds {
		a, b := sum.NewAcc(k, 10000), sum.NewAcc(k, 10000)
		a.AddBytes(p[6000:], 6000)
		b.AddBytes(p[:4000], 0)
		b.AddZeros(2000)
		a.Merge(b)
		if got, want := a.Sum(), k.Of(p); got != want || a.Missing() != 0 {
			t.Errorf("%v merged = %#x with %d missing, want %#x and 0", k, got, a.Missing(), want)
		}
	}
}
