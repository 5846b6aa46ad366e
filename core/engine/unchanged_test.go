package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/seed-e934e81e/convert/core/diag"
)

// A source that is written to after its header was read may be half of one
// step and half of another, also where its size stays the same.
func TestASourceThatChangesIsNoticed(t *testing.T) {
	s := newScene(t, false, false)
	s.hook.reset(nil)
	f := s.p.Source.Rank(1).Files[0]
	b, _ := s.fs.Bytes(f.Path)
	s.fs.Put(f.Path, slices.Clone(b))
	before := tree(t, s.fs)
	_, err := Run(context.Background(), s.p, s.o)
	if err == nil {
		t.Fatal("a source that was rewritten at the same size is passed over")
	}
	if d := diag.From(err)[0]; d.Code != diag.Stale || d.Subject.File != f.Name || d.Subject.Rank != 1 {
		t.Errorf("the error is %+v, want a stale source that names %s and rank 1", d, f.Name)
	}
	if d := unlike(tree(t, s.fs), before); d != "" {
		t.Error(d)
	}
}
