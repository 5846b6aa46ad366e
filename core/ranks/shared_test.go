package ranks

import (
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mesh"
)

// A shared parameter whose layout is recorded for one stage is read there; the
// copy of another stage may be cut in any other way. Where only the copy has
// files, it is read as the recorded layout says.
func TestASharedCopyIsReadWhereItsLayoutIsRecorded(t *testing.T) {
	m, err := mesh.New(nil, []int{2})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := layout.New(m, [][]int{{0}, nil}, 0)
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := layout.NewStrategy(2, 2, []layout.Param{
		{Name: "emb", Stage: 1, Layout: rows},
		{Name: "w", Stage: 0, Layout: rows},
	})
	if err != nil {
		t.Fatal(err)
	}
	rank := func(id int, names ...string) checkpoint.Rank {
		x := &checkpoint.Index{Format: "test"}
		for i, n := range names {
			x.Entries = append(x.Entries, checkpoint.Entry{Name: n, DType: dtype.F32, Shape: []int64{4, 4}, Data: checkpoint.Data{Extents: []checkpoint.Extent{{Off: int64(i) * 64, Len: 64}}}})
		}
		return checkpoint.Rank{ID: id, Header: checkpoint.NewHeader(x, []int64{256}), Files: []checkpoint.FileRef{{Name: "f", Size: 256}}}
	}
	for _, c := range []struct {
		name  string
		ranks []checkpoint.Rank
		want  int
	}{
		{"both stages have files", []checkpoint.Rank{rank(0, "w", "emb"), rank(1, "w", "emb"), rank(2, "emb"), rank(3, "emb")}, 1},
		{"only the stage of the copy has files", []checkpoint.Rank{rank(0, "w", "emb"), rank(1, "w", "emb")}, 0},
	} {
		ck, err := Join(c.ranks, strategy, Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, x := range ck.Tensors {
			if x.Name == "emb" && (len(x.Places) != 1 || x.Places[0].Stage != c.want || !x.Named) {
				t.Errorf("%s: emb is read from %+v, want stage %d alone", c.name, x.Places, c.want)
			}
		}
	}
}
