// Package plan decides which bytes go where, and moves none.
//
// A plan is a value: made of metadata, strategies and a mapping alone, without
// I/O, clock or goroutines, so the same job has the same plan on every
// machine. It is symbolic: layouts and box arithmetic, never a list of copies.
// Pieces are enumerated for one tensor or one target file at a time.
package plan

import (
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mapping"
)

// Policy is what a job says of a case that is an error unless it says more.
type Policy string

// The policies of target.missing, target.leftovers and source.replicas.
const (
	Fail   Policy = "error"
	Skip   Policy = "skip"    // missing
	Drop   Policy = "drop"    // leftovers
	Merge  Policy = "merge"   // leftovers
	ByRank Policy = "by-rank" // replicas
	First  Policy = "first"   // replicas
)

// Compare says which copies are compared with each other.
type Compare string

// The values of verify.replicas.
const (
	CompareSmall Compare = "small" // up to SmallCopy, and all that no strategy names
	CompareAll   Compare = "all"
	CompareNone  Compare = "none"
)

// SmallCopy is the size of a copy up to which CompareSmall compares it.
const SmallCopy = 1 << 20

// Rules stand in for a target strategy file where the job declares mesh and
// layouts.
type Rules interface {
	Stages() int
	Devices() int
	// Place gives the layouts of a parameter of ndim dims, one for each stage
	// that holds it; in is nil. It is an error where no rule matches.
	Place(name string, ndim int, in []int) ([]layout.Param, error)
}

// Request is what is to be planned.
type Request struct {
	Source *checkpoint.Checkpoint
	Format checkpoint.Format // of the target

	Strategy *layout.Strategy // of the target; nil, and
	Rules    Rules            // nil, is one full checkpoint

	Mapping *mapping.Mapping // nil maps every name to itself
	DType   dtype.Type       // Invalid keeps
	Yield   func()           // called every few dozen tensors; nil does nothing

	Ranks []int // of the target; nil for all

	// Folder: the target is rank folders, with files named Prefix + rank.
	Folder bool
	Prefix string
	File   string // else the name of the one file, relative to the target's root

	MaxFileSize int64 // of a full checkpoint that is split; 0 does not split

	Missing   Policy
	Leftovers Policy
	Replicas  Policy
	Compare   Compare
	Trailer   bool // the format's checksum at the end of each file
	Link      bool // identical files are hard links
}

// Class says what happens to a tensor.
type Class string

// The classes.
const (
	Same         Class = "same"          // every target part is a source part
	SplitFurther Class = "split further" // target parts lie inside source parts
	Merged       Class = "merged"        // target parts are joined of source parts
	ReCut        Class = "re-cut"        // neither
	Replicated   Class = "replicated"    // whole on both sides
)

// Tensor is one tensor of the target.
type Tensor struct {
	Source int // index into the source's tensors
	Name   string
	Path   checkpoint.Path
	DType  dtype.Type
	Shape  []int64
	Note   map[string]string
	Seq    int
	Class  Class
}

// Item is a tensor in the files of a group.
type Item struct {
	Tensor int            // index into the plan's tensors
	Layout *layout.Layout // over the ranks of the stage
	From   int            // index into the source tensor's places
}

// Group is the target files that hold the same tensors: those of one stage, or
// one file of a full checkpoint.
type Group struct {
	Stage  int
	Ranks  []int // of the target, ascending
	Items  []Item
	Leaves []checkpoint.Leaf
	Meta   []checkpoint.KV
	File   string // the name, if the target has no rank folders
}

// Dropped is something of the source that is not in the target, with the
// reason.
type Dropped struct {
	Name   string
	Kind   string // "tensor", "leaf", "metadata"
	Reason string
	Rank   int // with PerRank
}

// Plan is what will be done. It is read-only once made.
type Plan struct {
	Request
	Stages, Devices int // of the target
	Tensors         []Tensor
	Groups          []Group
	Extra           []ExtraFile // literal files beside the checkpoint's
	Dropped         []Dropped
	Absent          []string // target parameters without a source, which the job lets pass
	Notes           []string
	Warnings        diag.List
	Totals          Totals
	Digest          string // 64 hex digits

	blueprints []*laid // one for each group
	stages     []stageHeaders
	indexOf    []map[string]int
}

// ExtraFile is a small file whose bytes the plan knows.
type ExtraFile struct {
	Name  string
	Bytes []byte
}

// Totals are the plan's sums. Bytes are of files, headers included, unless
// they say otherwise.
type Totals struct {
	Tensors       int
	SourceFiles   int
	TargetFiles   int
	ReadBytes     int64 // distinct payload bytes that are read once
	CompareBytes  int64 // payload bytes of copies that are compared
	Uncompared    int64 // payload bytes of copies that are not
	WriteBytes    int64
	SourceBytes   int64 // sizes of all source files that are read
	Payload       int64 // bytes of the target's global tensors
	CastTensors   int
	LargestHeader int64 // literal bytes of the largest target file
}
