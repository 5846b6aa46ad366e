package checkpoint_test

import (
	"math"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
)

func TestRanks(t *testing.T) {
	x := &checkpoint.Index{Entries: []checkpoint.Entry{{Name: "a", Seq: 1}, {Name: "b"}, {Name: "a", Seq: 2}}}
	h := checkpoint.NewHeader(x, []int64{9})
	if e := h.Find("a"); e == nil || e.Seq != 1 {
		t.Errorf("of two entries called a the first is found, got %+v", e)
	}
	c := checkpoint.Checkpoint{Ranks: []checkpoint.Rank{{ID: 2, Header: h}, {ID: 5, Header: h}}}
	for id, want := range map[int]bool{0: false, 2: true, 3: false, 5: true, 6: false} {
		if got := c.Rank(id) != nil; got != want {
			t.Errorf("rank %d is there: %v, want %v", id, got, want)
		}
		if got := c.Entry(id, "b") != nil; got != want {
			t.Errorf("rank %d holds b: %v, want %v", id, got, want)
		}
	}
	if c.Entry(2, "c") != nil {
		t.Errorf("rank 2 holds c")
	}
}

// Headers with equal digests are shared, so whatever says where bytes are, or
// what they mean, must change the digest.
func TestHeaderDigest(t *testing.T) {
	entry := func(change func(*checkpoint.Entry)) *checkpoint.Index {
		e := checkpoint.Entry{Name: "w", DType: dtype.F32, Shape: []int64{2}, Data: checkpoint.Data{Extents: []checkpoint.Extent{{Len: 8}}}}
		change(&e)
		return &checkpoint.Index{Format: "x", Entries: []checkpoint.Entry{e}}
	}
	leaf := func(v checkpoint.Value, typ string) *checkpoint.Index {
		return &checkpoint.Index{Format: "x", Leaves: []checkpoint.Leaf{{Path: checkpoint.Keys("l"), Type: typ, Value: v}}}
	}
	list := map[string]*checkpoint.Index{
		"plain":        entry(func(*checkpoint.Entry) {}),
		"name":         entry(func(e *checkpoint.Entry) { e.Name = "v" }),
		"path":         entry(func(e *checkpoint.Entry) { e.Path = checkpoint.Keys("w") }),
		"path, kind":   entry(func(e *checkpoint.Entry) { e.Path = checkpoint.Path{{Kind: checkpoint.AttrPart, Text: "w"}} }),
		"dtype":        entry(func(e *checkpoint.Entry) { e.DType = dtype.I32 }),
		"shape":        entry(func(e *checkpoint.Entry) { e.Shape = []int64{2, 1} }),
		"offset":       entry(func(e *checkpoint.Entry) { e.Data.Extents[0].Off = 1 }),
		"file":         entry(func(e *checkpoint.Entry) { e.Data.Extents[0].File = 1 }),
		"two extents":  entry(func(e *checkpoint.Entry) { e.Data.Extents = []checkpoint.Extent{{Len: 4}, {Off: 4, Len: 4}} }),
		"first":        entry(func(e *checkpoint.Entry) { e.Data.Offset = 1 }),
		"strides":      entry(func(e *checkpoint.Entry) { e.Data.Strides = []int64{1} }),
		"order":        entry(func(e *checkpoint.Entry) { e.Data.BigEndian = true }),
		"sign":         entry(func(e *checkpoint.Entry) { e.Data.Negate = true }),
		"conjugate":    entry(func(e *checkpoint.Entry) { e.Data.Conjugate = true }),
		"codec":        entry(func(e *checkpoint.Entry) { e.Data.Codec = checkpoint.Deflate }),
		"decoded":      entry(func(e *checkpoint.Entry) { e.Data.Codec, e.Data.Decoded = checkpoint.Deflate, 8 }),
		"inline":       entry(func(e *checkpoint.Entry) { e.Data.Inline = []byte{1} }),
		"inline, none": entry(func(e *checkpoint.Entry) { e.Data.Inline = []byte{} }),
		"note":         entry(func(e *checkpoint.Entry) { e.Note = map[string]string{"dims": "0"} }),
		"leaf":         leaf(checkpoint.Value{Kind: checkpoint.Integer, Int: 1}, "int"),
		"leaf, value":  leaf(checkpoint.Value{Kind: checkpoint.Integer, Int: 2}, "int"),
		"leaf, big":    leaf(checkpoint.Value{Kind: checkpoint.Integer, Int: 1, Big: "1"}, "int"),
		"leaf, type":   leaf(checkpoint.Value{Kind: checkpoint.Integer, Int: 1}, "long"),
		"leaf, float":  leaf(checkpoint.Value{Kind: checkpoint.Float, Float: math.Inf(1)}, "int"),
		"leaf, bool":   leaf(checkpoint.Value{Kind: checkpoint.Boolean, Bool: true}, "int"),
		"leaf, length": leaf(checkpoint.Value{Kind: checkpoint.Sized, Len: 3}, "int"),
		"metadata":     {Format: "x", Metadata: []checkpoint.KV{{Key: "k", Value: "v"}}},
		"metadata, 2":  {Format: "x", Metadata: []checkpoint.KV{{Key: "kv", Value: ""}}},
		"format":       {Format: "y"},
		"nothing":      {Format: "x"},
	}
	seen := map[[32]byte]string{}
	for name, x := range list {
		h := checkpoint.NewHeader(x, []int64{100})
		if other, twice := seen[h.Digest]; twice {
			t.Errorf("%q and %q have the same digest", name, other)
		}
		seen[h.Digest] = name
		if checkpoint.NewHeader(x, []int64{100}).Digest != h.Digest {
			t.Errorf("%q has another digest each time", name)
		}
		if checkpoint.NewHeader(x, []int64{101}).Digest == h.Digest {
			t.Errorf("%q has the same digest in a longer file", name)
		}
	}
}

func TestPath(t *testing.T) {
	p := checkpoint.Path{{Text: "optimizer"}, {Kind: checkpoint.IndexPart, Index: 0}, {Kind: checkpoint.StatePart, Text: "exp.avg"}}
	if got, want := p.Label(), "optimizer.0.exp.avg"; got != want {
		t.Errorf("the label of %v is %q, want %q", p, got, want)
	}
	if got := (checkpoint.Path{{Kind: checkpoint.IndexPart, Index: 7}}).Label(); got != "7" {
		t.Errorf("the label of an index is %q, want 7", got)
	}
	if got := (checkpoint.Path{}).Label(); got != "" {
		t.Errorf("the label of the root is %q", got)
	}
	a, b := checkpoint.Keys("a.b", "c"), checkpoint.Keys("a", "b.c")
	if a.Label() != b.Label() || a.Equal(b) || !a.Equal(checkpoint.Keys("a.b", "c")) {
		t.Errorf("%v and %v have one label and are two paths", a, b)
	}
	attr := checkpoint.Path{{Kind: checkpoint.AttrPart, Text: "a"}}
	if attr.Equal(checkpoint.Keys("a")) || attr.Equal(nil) {
		t.Errorf("an attribute is no key")
	}
	e := checkpoint.Entry{Name: "a.b"}
	if !e.PathOrName().Equal(checkpoint.Keys("a.b")) {
		t.Errorf("a name without a path is one key, got %v", e.PathOrName())
	}
}
