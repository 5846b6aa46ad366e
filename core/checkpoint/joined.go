package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
)

// Checkpoint is what one run saved: the tensors as wholes, and where each
// rank's part of them lies. It is read-only, holds headers and no tensor data.
//
// Shards are never a list: 10,240 ranks of 3,000 tensors would have 30 million.
// The box of a shard follows from layout and rank, its bytes from the rank's
// header, and ranks with equal headers share one.
type Checkpoint struct {
	Format  string
	Stages  int
	Devices int // ranks of each stage
	Tensors []Global
	Leaves  []Leaf
	Meta    []KV
	Ranks   []Rank // ascending by ID; a rank without a file is absent

	// PerRank: ranks are checkpoints of their own, one stage each, and names
	// are unique only within a rank.
	PerRank bool

	// Strategy is what the layouts come from, nil for a full checkpoint.
	Strategy *layout.Strategy

	Warnings diag.List
}

// Global is one tensor of a checkpoint as a whole, in contrast to an Entry,
// which is what one file holds of it.
type Global struct {
	Name   string
	Path   Path
	DType  dtype.Type
	Shape  []int64
	Note   map[string]string
	Seq    int
	Places []Place // one for each stage that holds it, ascending

	// Named: the strategy names it. What it does not name is held whole by
	// every rank that has it.
	Named bool
}

// Place is how the ranks of one stage hold a tensor.
type Place struct {
	Stage  int
	Layout *layout.Layout
}

// Rank is what one rank saved.
type Rank struct {
	ID     int
	Files  []FileRef
	Header *Header // shared with ranks that are laid out alike
	Checks []Check // sums that the rank's own files hold
}

// FileRef names a file of a checkpoint.
type FileRef struct {
	Name string // relative to the checkpoint's root, with slashes
	Path string // as it is opened
	Size int64
	Time time.Time // of its last change when its header was read
}

// Header is an index that all ranks share whose files are laid out alike.
type Header struct {
	Index  *Index
	Digest [sha256.Size]byte
	Sizes  []int64 // of the files
	byName map[string]int32
}

// NewHeader prepares an index for look-ups. Where a name stands twice, the
// first entry is found.
func NewHeader(x *Index, sizes []int64) *Header {
	h := &Header{Index: x, Sizes: sizes, byName: make(map[string]int32, len(x.Entries))}
	for i := len(x.Entries) - 1; i >= 0; i-- {
		h.byName[x.Entries[i].Name] = int32(i)
	}
	h.Digest = x.digest(sizes)
	return h
}

// Find returns the entry with a name, or nil.
func (h *Header) Find(name string) *Entry {
	if i, ok := h.byName[name]; ok {
		return &h.Index.Entries[i]
	}
	return nil
}

// Rank returns the rank with an ID, or nil if it has no file.
func (c *Checkpoint) Rank(id int) *Rank {
	i := sort.Search(len(c.Ranks), func(i int) bool { return c.Ranks[i].ID >= id })
	if i < len(c.Ranks) && c.Ranks[i].ID == id {
		return &c.Ranks[i]
	}
	return nil
}

// Entry returns a rank's part of a tensor, or nil if the rank does not hold it.
func (c *Checkpoint) Entry(rank int, name string) *Entry {
	if r := c.Rank(rank); r != nil {
		return r.Header.Find(name)
	}
	return nil
}

// Bytes is the size of the whole tensor.
func (t *Global) Bytes() int64 {
	n, _ := t.DType.Bytes(t.Shape)
	return n
}

// Place returns how a stage holds the tensor, or nil.
func (t *Global) Place(stage int) *Place {
	for i := range t.Places {
		if t.Places[i].Stage == stage {
			return &t.Places[i]
		}
	}
	return nil
}

// digest identifies all that an index says of where bytes are.
func (x *Index) digest(sizes []int64) (out [sha256.Size]byte) {
	h := hasher{Hash: sha256.New()}
	h.text(x.Format)
	h.ints(sizes)
	h.num(int64(len(x.Entries)))
	h.num(int64(len(x.Leaves)))
	h.num(int64(len(x.Metadata)))
	for i := range x.Entries {
		e := &x.Entries[i]
		h.text(e.Name)
		h.path(e.Path)
		h.num(int64(e.DType))
		h.ints(e.Shape)
		for _, y := range e.Data.Extents {
			h.num(int64(y.File))
			h.num(y.Off)
			h.num(y.Len)
		}
		d := &e.Data
		h.num(int64(len(d.Extents)))
		h.num(d.Offset)
		h.ints(d.Strides)
		h.num(int64(d.Codec))
		h.num(d.Decoded)
		for _, f := range []bool{d.BigEndian, d.Negate, d.Conjugate, d.Strides == nil, d.Inline == nil} {
			h.flag(f)
		}
		h.text(string(d.Inline))
		h.num(int64(len(e.Note)))
		for _, k := range sortedKeys(e.Note) {
			h.text(k)
			h.text(e.Note[k])
		}
	}
	for _, l := range x.Leaves {
		h.path(l.Path)
		h.text(l.Type)
		h.value(l.Value)
	}
	for _, m := range x.Metadata {
		h.text(m.Key)
		h.text(m.Value)
	}
	h.Sum(out[:0])
	return out
}

type hasher struct {
	hash.Hash
	buf [8]byte
}

func (h *hasher) num(v int64) {
	binary.LittleEndian.PutUint64(h.buf[:], uint64(v))
	h.Write(h.buf[:])
}

func (h *hasher) text(s string) {
	h.num(int64(len(s)))
	h.Write([]byte(s))
}

func (h *hasher) ints(v []int64) {
	h.num(int64(len(v)))
	for _, x := range v {
		h.num(x)
	}
}

func (h *hasher) path(p Path) {
	h.num(int64(len(p)))
	for _, x := range p {
		h.num(int64(x.Kind))
		h.text(x.Text)
		h.num(x.Index)
	}
}

func (h *hasher) value(v Value) {
	h.num(int64(v.Kind))
	h.num(v.Int)
	h.num(int64(v.Len))
	h.text(v.Text)
	h.text(v.Big)
	binary.LittleEndian.PutUint64(h.buf[:], math.Float64bits(v.Float))
	h.Write(h.buf[:])
	h.flag(v.Bool)
}

func (h *hasher) flag(b bool) {
	if b {
		h.num(1)
	} else {
		h.num(0)
	}
}

func sortedKeys(m map[string]string) []string {
	if len(m) == 0 {
		return nil
	}
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
