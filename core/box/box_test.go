package box

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// random gives a shape and a box in it.
func random(r *rand.Rand) ([]int64, Box) {
	n := r.IntN(5)
	shape := make([]int64, n)
	b := Box{Off: make([]int64, n), Ext: make([]int64, n)}
	for i := range shape {
		shape[i] = r.Int64N(6)
		if shape[i] > 0 {
			b.Off[i] = r.Int64N(shape[i])
			b.Ext[i] = r.Int64N(shape[i] - b.Off[i] + 1)
		}
	}
	return shape, b
}

// elements lists the positions of a box's elements, the naive way.
func elements(shape []int64, b Box) []int64 {
	var out []int64
	var walk func(dim int, at int64)
	walk = func(dim int, at int64) {
		if dim == len(shape) {
			out = append(out, at)
			return
		}
		for i := range b.Ext[dim] {
			walk(dim+1, at*shape[dim]+b.Off[dim]+i)
		}
	}
	walk(0, 0)
	return out
}

func TestRunsAreTheElementsInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		shape, b := random(r)
		want := elements(shape, b)
		var got []int64
		last := int64(-2)
		b.Runs(shape, func(at, n int64) bool {
			if at == last {
				t.Fatalf("runs of %v in %v are not maximal: two meet at %d", b, shape, at)
			}
			for i := range n {
				got = append(got, at+i)
			}
			last = at + n
			return true
		})
		if !slices.Equal(got, want) {
			t.Fatalf("Runs(%v in %v) = %v, want %v", b, shape, got, want)
		}
		if n := b.Elements(); n != int64(len(want)) {
			t.Fatalf("Elements(%v) = %d, want %d", b, n, len(want))
		}
		gap := false
		for i := 1; i < len(want); i++ {
			gap = gap || want[i] != want[i-1]+1
		}
		if len(want) > 0 && b.Contiguous(shape) == gap {
			t.Fatalf("Contiguous(%v in %v) = %v, elements %v", b, shape, !gap, want)
		}
		if len(want) > 0 && b.Index(shape) != want[0] {
			t.Fatalf("Index(%v in %v) = %d, want %d", b, shape, b.Index(shape), want[0])
		}
	}
}

func TestIntersectIsTheCommonElements(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		shape, a := random(r)
		b := a.Clone()
		for i := range shape {
			b.Off[i] = r.Int64N(shape[i] + 1)
			b.Ext[i] = r.Int64N(shape[i] - b.Off[i] + 1)
		}
		want := elements(shape, a)
		in := elements(shape, b)
		want = slices.DeleteFunc(want, func(x int64) bool { return !slices.Contains(in, x) })
		c, ok := Intersect(a, b)
		if ok != (len(want) > 0) {
			t.Fatalf("Intersect(%v, %v) in %v: ok = %v, common elements %v", a, b, shape, ok, want)
		}
		if ok && !slices.Equal(elements(shape, c), want) {
			t.Fatalf("Intersect(%v, %v) = %v, want the elements %v", a, b, c, want)
		}
		if ok && (!a.Contains(c) || !b.Contains(c)) {
			t.Fatalf("Intersect(%v, %v) = %v lies outside of them", a, b, c)
		}
	}
}
