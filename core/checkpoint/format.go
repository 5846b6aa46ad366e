package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/storage"
)

// Description names a format and what it can do.
type Description struct {
	Name       string   // the word that job.toml uses
	Title      string   // for people
	Extensions []string // with the dot; the first is used for new files
	Read       bool
	Write      bool
	Covers     string // what is covered, in words
	Metadata   bool   // files hold key-value metadata
	Leaves     bool   // files hold leaves natively
	Trailer    bool   // files can end in a checksum (target.crc)
	Nested     bool   // tensors have paths; writing rebuilds the tree
}

// Sample is what Probe sees of a file. Head and Tail are up to SampleSize bytes
// and overlap in small files.
type Sample struct {
	Head, Tail []byte
	Size       int64
	Name       string // a hint at most
}

// SampleSize is the size of Sample.Head and Sample.Tail of larger files.
const SampleSize = 4096

// Match says how sure a format is that a file is its own.
type Match uint8

// The degrees of certainty.
const (
	No    Match = iota
	Maybe       // the bytes allow it
	Yes         // the bytes say it
)

// Input is what Index reads.
type Input struct {
	File   storage.Source // behind a block cache
	Name   string         // of the file, for messages
	Strict bool           // oddities that readers of the format let pass are errors
	Yield  func()         // called every few dozen items; never nil
}

// Tensor is one tensor of a file to be written.
type Tensor struct {
	Name  string
	Path  Path
	DType dtype.Type
	Shape []int64
	Note  map[string]string
	Seq   int
}

// Output is what Blueprint lays out: the tensors in the order wanted.
type Output struct {
	Tensors  []Tensor
	Leaves   []Leaf
	Metadata []KV
	From     string // name of the source's format
	Trailer  bool   // end the file in the format's checksum
	Yield    func() // never nil
}

// Encoding is how a sum is written.
type Encoding uint8

// The encodings.
const (
	LittleEndian32 Encoding = iota
	BigEndian80             // ten bytes, the sum in the last four
)

// Width is the number of bytes of an encoded sum.
func (e Encoding) Width() int64 {
	if e == BigEndian80 {
		return 10
	}
	return 4
}

// Segment is a run of a file to be written: literal bytes, or a run of a
// tensor's row-major bytes.
type Segment struct {
	Literal []byte // if Len is 0
	Tensor  int    // index into Output.Tensors
	Off     int64  // in the tensor's bytes
	Len     int64  // payload bytes; 0 for a literal
}

// Size is the number of bytes of the segment.
func (s Segment) Size() int64 {
	if s.Len > 0 {
		return s.Len
	}
	return int64(len(s.Literal))
}

// Hole is a place in literal bytes that is to be filled with a sum over a run
// of the file that does not contain it.
type Hole struct {
	Algorithm SumAlgorithm
	Encoding  Encoding
	At        int64         // offset of the hole in the file
	Over      storage.Range // what is summed
}

// Blueprint is a whole file, but for the payloads and the sums.
type Blueprint struct {
	Segments []Segment
	Holes    []Hole
	Dropped  []Dropped // leaves and tensors that the format cannot hold
}

// Dropped is something that a format cannot hold.
type Dropped struct {
	Path   Path
	What   string // "leaf", "metadata"
	Reason string
}

// Size is the number of bytes of the file.
func (b *Blueprint) Size() int64 {
	var n int64
	for _, s := range b.Segments {
		n += s.Size()
	}
	return n
}

// Format is a checkpoint file format. All its methods are safe for concurrent
// use, touch no tensor data, and execute nothing of what a file says.
type Format interface {
	Describe() Description

	// Probe tells by content whether a file is of this format.
	Probe(Sample) Match

	// Index reads the headers of one file. Extents refer to file 0. Bytes that
	// are not of the format give a *FormatError.
	Index(ctx context.Context, in Input) (*Index, error)

	// Blueprint lays out one file. Every payload byte of every tensor occurs
	// exactly once.
	Blueprint(ctx context.Context, out Output) (*Blueprint, error)
}

// FormatError says that bytes are not what a format demands.
type FormatError struct {
	Format string
	Off    int64 // where in the file
	Tensor string
	Msg    string
	Hint   string

	// Other: nothing is wrong with the bytes; they are of a kind that the
	// format does not read, which Msg names.
	Other bool
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: at byte %d: %s", e.Format, e.Off, e.Msg)
}

// Diagnose gives a format's error its file: a *FormatError becomes a Damaged
// diagnostic, everything else keeps its class.
func Diagnose(err error, file string) *diag.Diagnostic {
	var fe *FormatError
	var d *diag.Diagnostic
	switch {
	case errors.As(err, &fe):
		d = diag.Errorf(diag.Damaged, "damaged or not a %s file: %s", fe.Format, fe.Msg).AtByte(fe.Off).OfTensor(fe.Tensor)
		if fe.Other {
			d = diag.Errorf(diag.Damaged, "cannot be read as %s: %s", fe.Format, fe.Msg).OfTensor(fe.Tensor)
		}
		d.Hint = fe.Hint
		d.Err = nil
	case errors.As(err, &d):
		c := *d
		d = &c
	default:
		d = diag.Errorf(diag.Failed, "cannot read").Wrap(err)
	}
	if d.Subject.File == "" {
		d.Subject.File = file
	}
	return d
}
