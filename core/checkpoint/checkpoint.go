// Package checkpoint is the waist of the program: what a checkpoint is,
// whatever its format, and what a format must do.
//
// A checkpoint is bytes at known places. A format reads headers and answers
// with an Index: for each tensor which bytes of which file hold it. A format
// writes by answering with a Blueprint: the literal bytes of the new file,
// where each tensor's payload goes, and which sums are to be filled in where.
// Neither ever touches tensor data; only the engine moves bytes.
package checkpoint

import (
	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
)

// Extent is a run of bytes in a file.
type Extent struct {
	File int // index into the files of the checkpoint or rank
	Off  int64
	Len  int64
}

// Codec says how the bytes of extents are packed.
type Codec uint8

// The codecs.
const (
	Plain   Codec = iota
	Deflate       // RFC 1951, as in zip
)

// Data says where the bytes of a tensor are. The extents, joined and decoded,
// are a run of elements; element (i, j, …) of the tensor is at position
// Offset + i·Strides[0] + j·Strides[1] + … of that run.
type Data struct {
	Extents   []Extent
	Inline    []byte  // the run itself, where the header holds it; then there are no extents
	Offset    int64   // in elements
	Strides   []int64 // in elements; nil for row-major
	BigEndian bool
	Codec     Codec
	Decoded   int64 // bytes of the run, if Codec is not Plain
	Negate    bool  // the stored values are the negatives (torch's lazy bit)
	Conjugate bool  // the stored values are the conjugates
}

// RunBytes is the number of bytes of the run that the extents hold.
func (d *Data) RunBytes() int64 {
	if d.Inline != nil {
		return int64(len(d.Inline))
	}
	if d.Codec != Plain {
		return d.Decoded
	}
	var n int64
	for _, e := range d.Extents {
		n += e.Len
	}
	return n
}

// RowMajor reports whether the run, from Offset on, is the tensor in row-major
// order without gaps.
func (d *Data) RowMajor(shape []int64) bool {
	if d.Strides == nil {
		return true
	}
	want := box.Strides(shape)
	for i, n := range shape {
		if n == 0 {
			return true
		}
		if n != 1 && d.Strides[i] != want[i] {
			return false
		}
	}
	return true
}

// Entry is one tensor as a file holds it: whole, or one rank's part.
type Entry struct {
	Name  string // a byte string, never a path in a file system
	Path  Path   // nil stands for the one key Name
	DType dtype.Type
	Shape []int64
	Data  Data
	Note  map[string]string // what the format must remember to write it back: MindSpore's dims [0] of a scalar
	Seq   int               // place among all entries and leaves
}

// PathOrName is the path, or the name as the only key.
func (e *Entry) PathOrName() Path {
	if e.Path != nil {
		return e.Path
	}
	return Keys(e.Name)
}

// KV is one entry of a file's metadata.
type KV struct{ Key, Value string }

// SumAlgorithm is a checksum that a format keeps in its files.
type SumAlgorithm uint8

// The algorithms.
const (
	CRC32 SumAlgorithm = iota // IEEE, as in zip
)

// Check is a checksum that a file holds of a run of its own bytes.
type Check struct {
	Algorithm SumAlgorithm
	Range     Extent
	Want      uint64
	Name      string // what it is called: "crc_num", or the record's name
	Advisory  bool   // readers of the format ignore it: a mismatch is a warning
}

// Index is what a format says of a file or a set of files.
type Index struct {
	Format   string // the format's name
	Variant  string // "zip", "state dict", … for people; may be empty
	Entries  []Entry
	Leaves   []Leaf
	Metadata []KV // in the file's order
	Checks   []Check
	Warnings diag.List
}

// Find returns the entry with a name. It walks the entries.
func (x *Index) Find(name string) *Entry {
	for i := range x.Entries {
		if x.Entries[i].Name == name {
			return &x.Entries[i]
		}
	}
	return nil
}
