package mesh

import (
	"slices"
	"testing"
)

func TestRankAndCoordinateAreRowMajor(t *testing.T) {
	m, err := New([]string{"pp", "dp", "tp"}, []int{2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	c := make([]int, 3)
	for r := range m.Ranks() {
		m.Coord(r, c)
		if want := []int{r / 12, r / 4 % 3, r % 4}; !slices.Equal(c, want) {
			t.Fatalf("rank %d is at %v, want %v", r, c, want)
		}
		if back := m.Rank(c); back != r {
			t.Fatalf("%v is rank %d, want %d", c, back, r)
		}
	}
	if a, ok := m.Axis("tp"); !ok || a != 2 {
		t.Errorf("axis tp is %d, %v", a, ok)
	}
	if got := m.String(); got != "pp=2 dp=3 tp=4" {
		t.Errorf("String = %q", got)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		axes  []string
		shape []int
	}{
		{"an axis without ranks", nil, []int{2, 0}},
		{"more ranks than there are", nil, []int{1 << 20, 1 << 20}},
		{"a product that overflows", nil, []int{1 << 24, 1 << 24, 1 << 24}},
		{"two axes of one name", []string{"tp", "tp"}, []int{2, 2}},
		{"names and sizes that do not agree", []string{"tp"}, []int{2, 2}},
	} {
		if m, err := New(c.axes, c.shape); err == nil {
			t.Errorf("%s: New gives %v", c.name, m)
		}
	}
}
