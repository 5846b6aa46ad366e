package layout

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/mesh"
)

// random makes a layout and a shape that it splits.
func random(t testing.TB, r *rand.Rand) (*Layout, []int64) {
	axes := make([]int, 1+r.IntN(4))
	for i := range axes {
		axes[i] = []int{1, 2, 2, 3, 4}[r.IntN(5)]
	}
	m, err := mesh.New(nil, axes)
	if err != nil {
		t.Fatal(err)
	}
	dims := make([][]int, r.IntN(4))
	for _, a := range r.Perm(len(axes)) {
		if k := r.IntN(len(dims) + 2); k < len(dims) {
			dims[k] = append(dims[k], a)
		}
	}
	free := m.Ranks()
	for _, d := range dims {
		for _, a := range d {
			free /= axes[a]
		}
	}
	opt := 0
	if len(dims) > 0 && r.IntN(2) == 0 {
		opt = 1 + r.IntN(free)
		for free%opt != 0 {
			opt--
		}
		if r.IntN(4) == 0 {
			opt = All
		}
	}
	l, err := New(m, dims, opt)
	if err != nil {
		t.Fatalf("New(%v, %v, %d): %v", axes, dims, opt, err)
	}
	shape := make([]int64, len(dims))
	for i := range shape {
		shape[i] = int64(l.Counts()[i]) * int64(1+r.IntN(3))
	}
	return l, shape
}

// truth is the box of a rank by the definition (facts 7.1 and 7.2): the group
// of ranks that agree on all axes that cut is listed, ascending, and dim 0 is
// cut over consecutive runs of it.
func truth(l *Layout, shape []int64, rank int) box.Box {
	m := l.Mesh()
	coord := func(r int) []int {
		c := make([]int, len(m.Shape))
		m.Coord(r, c)
		return c
	}
	used := map[int]bool{}
	b := box.Whole(shape)
	for i := range shape {
		k, p := 1, 0
		for _, a := range l.Axes(i) {
			used[a] = true
			k *= m.Shape[a]
			p = p*m.Shape[a] + coord(rank)[a]
		}
		w := shape[i] / int64(k)
		b.Off[i], b.Ext[i] = int64(p)*w, w
	}
	if l.Opt() > 1 {
		var group []int
		for r := range m.Ranks() {
			same := true
			for a := range used {
				same = same && coord(r)[a] == coord(rank)[a]
			}
			if same {
				group = append(group, r)
			}
		}
		q := slices.Index(group, rank) % l.Opt()
		w := b.Ext[0] / int64(l.Opt())
		b.Off[0], b.Ext[0] = b.Off[0]+int64(q)*w, w
	}
	return b
}

func TestBoxOfARankFollowsTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3_000 {
		l, shape := random(t, r)
		if err := l.Check(shape); err != nil {
			t.Fatalf("%v of %v: %v", l, shape, err)
		}
		for rank := range l.Ranks() {
			got, want := l.Box(shape, rank), truth(l, shape, rank)
			if !got.Equal(want) {
				t.Fatalf("mesh %v layout %v shape %v: Box(rank %d) = %v, want %v", l.Mesh(), l, shape, rank, got, want)
			}
		}
	}
}

func TestBlocksTileTheTensorAndRanksTileTheBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 3_000 {
		l, shape := random(t, r)
		n, _ := elements(shape)
		held := make([]int, n)
		seen := map[[2]int]bool{}
		for rank := range l.Ranks() {
			b := make([]int, len(shape))
			copyNo := l.Block(rank, b)
			if back := l.Rank(b, copyNo); back != rank {
				t.Fatalf("%v: Rank(Block(%d)) = %d", l, rank, back)
			}
			num := 0
			for i, c := range l.Counts() {
				num = num*c + b[i]
			}
			if seen[[2]int{num, copyNo}] || copyNo >= l.Replicas() || num >= l.Blocks() {
				t.Fatalf("%v: rank %d has block %d copy %d: taken or out of range", l, rank, num, copyNo)
			}
			seen[[2]int{num, copyNo}] = true
			l.Box(shape, rank).Runs(shape, func(at, n int64) bool {
				for i := range n {
					held[at+i]++
				}
				return true
			})
		}
		for i, h := range held {
			if h != l.Replicas() {
				t.Fatalf("%v of %v: element %d is held %d times, want %d", l, shape, i, h, l.Replicas())
			}
		}
		local := l.Box(shape, 0).Ext
		if g, ok := l.Global(local); !ok || !slices.Equal(g, shape) {
			t.Fatalf("%v: Global(%v) = %v, %v, want %v", l, local, g, ok, shape)
		}
	}
}

func elements(shape []int64) (int64, bool) {
	n := int64(1)
	for _, s := range shape {
		n *= s
	}
	return n, true
}

func TestOverlapFindsEveryBlockOnceAndNoOther(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 3_000 {
		l, shape := random(t, r)
		b := box.Whole(shape)
		for i := range shape {
			b.Off[i] = r.Int64N(shape[i])
			b.Ext[i] = 1 + r.Int64N(shape[i]-b.Off[i])
		}
		got := map[string]string{}
		l.Overlap(shape, b, func(block []int, part box.Box) bool {
			got[l.BlockBox(shape, block).String()] = part.String()
			return true
		})
		want := map[string]string{}
		for rank := range l.Ranks() {
			held := truth(l, shape, rank)
			if p, ok := box.Intersect(held, b); ok {
				want[held.String()] = p.String()
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%v of %v: Overlap(%v) finds %v, want %v", l, shape, b, got, want)
		}
		for k, v := range want {
			if got[k] != v {
				t.Fatalf("%v of %v: Overlap(%v) gives %s of block %s, want %s", l, shape, b, got[k], k, v)
			}
		}
	}
}

func TestUnevenCuts(t *testing.T) {
	m, _ := mesh.New([]string{"tp"}, []int{3})
	l, err := New(m, [][]int{{0}, nil}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if l, err = l.WithCuts(0, []int64{5, 1, 2}); err != nil {
		t.Fatal(err)
	}
	shape := []int64{8, 4}
	if err := l.Check(shape); err != nil {
		t.Fatal(err)
	}
	if got := l.Box(shape, 1).String(); got != "[5:6, 0:4]" {
		t.Errorf("Box(rank 1) = %s, want [5:6, 0:4]", got)
	}
	if err := l.Check([]int64{9, 4}); err == nil {
		t.Errorf("parts of 8 rows pass for a tensor of 9")
	}
	n := 0
	l.Overlap(shape, box.Box{Off: []int64{4, 0}, Ext: []int64{3, 4}}, func([]int, box.Box) bool { n++; return true })
	if n != 3 {
		t.Errorf("rows 4 to 6 overlap %d parts, want 3", n)
	}
}

func TestNewRefuses(t *testing.T) {
	m, _ := mesh.New([]string{"dp", "tp"}, []int{2, 4})
	for _, c := range []struct {
		name string
		dims [][]int
		opt  int
	}{
		{"an axis that cuts twice", [][]int{{1}, {1}}, 0},
		{"an axis that is not there", [][]int{{2}}, 0},
		{"an optimizer shard that does not divide the group", [][]int{nil}, 3},
		{"a negative optimizer shard", [][]int{nil}, -2},
		{"an optimizer shard of a scalar", nil, 2},
	} {
		if _, err := New(m, c.dims, c.opt); err == nil {
			t.Errorf("New accepts %s", c.name)
		}
	}
}

func TestRegroupJoinsExpandedDims(t *testing.T) {
	m, _ := mesh.New(nil, []int{2, 2, 2})
	l, _ := New(m, [][]int{{0}, {1}, nil}, 0) // (32,16) cut by two axes on dim 0 is shown as (2,16,16)
	got, ok := Regroup(l, []int64{2, 16, 16}, []int64{8, 16})
	if !ok || got.NDim() != 2 || !slices.Equal(got.Axes(0), []int{0, 1}) || len(got.Axes(1)) != 0 {
		t.Fatalf("Regroup = %v, %v, want dim 0 cut by axes 0 and 1", got, ok)
	}
	if g, _ := got.Global([]int64{8, 16}); !slices.Equal(g, []int64{32, 16}) {
		t.Errorf("global shape = %v, want [32 16]", g)
	}
	if _, ok := Regroup(l, []int64{2, 16, 16}, []int64{7, 16}); ok {
		t.Errorf("Regroup accepts a part of 7 rows")
	}
}
