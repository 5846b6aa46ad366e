// Package job reads job.toml: what is asked.
//
// A job is plain data. Every key has one meaning at one place (specs/job.md);
// a key that is not known, a value of the wrong type or out of range, and two
// keys that contradict each other are all found here, before anything is
// opened, and each is shown at its place in the text.
package job

import (
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/mapping"
	"github.com/seed-e934e81e/convert/core/mesh"
	"github.com/seed-e934e81e/convert/core/storage"
)

// Version is the version of job.toml that this package reads.
const Version = 1

// Job is what a job file asks for, defaults filled in.
type Job struct {
	Name   string // the file's name, as messages call it
	Text   []byte // the file, as it was read
	Source Source
	Target Target
	Maps   []mapping.Rule
	Run    Run
	Verify Verify

	places *places
}

// Path is the name of a file or folder.
type Path struct {
	Text string // as the job gives it, environment filled in
	Full string // relative paths joined to the job file's folder
}

// String is the path as the job gives it.
func (p Path) String() string { return p.Text }

// Source is what is read.
type Source struct {
	Path     Path
	Format   string // "" for whatever the content says
	Strategy []Path // strategy files or folders; nil for none
	Mesh     *mesh.Mesh
	Layouts  []LayoutRule
	Select   Select
	Replicas Replicas
	CRC      CRC
}

// Target is what is written.
type Target struct {
	Path        Path
	Format      string // "" for the source's
	Strategy    []Path
	Mesh        *mesh.Mesh
	Layouts     []LayoutRule
	Prefix      string // of files in rank folders
	HasPrefix   bool   // the job gives a prefix, and so asks for rank folders
	Ranks       []int  // ascending; nil for all
	DType       dtype.Type
	Missing     Missing
	Leftovers   Leftovers
	CRC         bool
	Replicas    Copies
	MaxFileSize int64 // in bytes; 0 for no limit
}

// Run says how the work is done.
type Run struct {
	Workers  int
	Memory   int64 // in bytes
	IO       storage.IOMode
	OnExists OnExists
}

// Verify says what is checked, and when.
type Verify struct {
	Mode     VerifyMode
	SHA256   bool
	Replicas Compare
}

// Select chooses among several checkpoints in a rank folder.
type Select struct {
	Rule SelectRule
	Glob Glob // if Rule is SelectGlob
}

// SelectRule is a way to choose a checkpoint.
type SelectRule string

// The ways to choose: numerically newest that all ranks hold, MindSpore's own
// rule, or by name.
const (
	SelectNewest    SelectRule = "newest"
	SelectMindSpore SelectRule = "mindspore"
	SelectGlob      SelectRule = "glob"
)

// Replicas says what to do with copies in the source that differ.
type Replicas string

// The choices for copies that differ.
const (
	ReplicasError  Replicas = "error"
	ReplicasByRank Replicas = "by-rank"
	ReplicasFirst  Replicas = "first"
)

// CRC says what to do with checksums that source files hold.
type CRC string

// The choices for checksums.
const (
	CRCCheck  CRC = "check"
	CRCIgnore CRC = "ignore"
)

// Missing says what to do with a target parameter that has no source.
type Missing string

// The choices for target parameters without a source.
const (
	MissingError Missing = "error"
	MissingSkip  Missing = "skip"
)

// Leftovers says what to do with parameters that the source's strategy cuts
// and the target's does not know.
type Leftovers string

// The choices for parameters that the target does not know.
const (
	LeftoversError Leftovers = "error"
	LeftoversDrop  Leftovers = "drop"
	LeftoversMerge Leftovers = "merge"
)

// Copies says how target files that are byte-equal are made.
type Copies string

// The choices for equal target files.
const (
	CopiesCopy Copies = "copy"
	CopiesLink Copies = "link"
)

// OnExists says what to do with a target that has files in it.
type OnExists string

// The choices for a target that exists.
const (
	ExistsFail    OnExists = "fail"
	ExistsReplace OnExists = "replace"
)

// VerifyMode says how what was written is checked.
type VerifyMode string

// The choices for checking what was written.
const (
	VerifyNone     VerifyMode = "none"
	VerifyHeader   VerifyMode = "header"
	VerifyDigest   VerifyMode = "digest"
	VerifyReadBack VerifyMode = "read-back"
)

// Compare says which copies in the source are compared with each other.
type Compare string

// The choices for comparing copies.
const (
	CompareSmall Compare = "small"
	CompareAll   Compare = "all"
	CompareNone  Compare = "none"
)

// Defaults of keys that are not of kind "off".
const (
	DefaultPrefix  = "checkpoint_"
	DefaultWorkers = 4
	DefaultMemory  = 256 << 20
)

func defaults() Job {
	return Job{
		Source: Source{Select: Select{Rule: SelectNewest}, Replicas: ReplicasError, CRC: CRCCheck},
		Target: Target{Prefix: DefaultPrefix, Missing: MissingError, Leftovers: LeftoversError, Replicas: CopiesCopy},
		Run:    Run{Workers: DefaultWorkers, Memory: DefaultMemory, IO: storage.Auto, OnExists: ExistsFail},
		Verify: Verify{Mode: VerifyDigest, Replicas: CompareSmall},
	}
}

// Place is where a key stands, for a diagnostic: "target.mesh.shape[2]",
// "target.layout[3].shard", "map[0]"; lists count from 0. It is the place of
// the value, and of the header for a table. For a key that the job leaves out
// it is the place of the table around it, down to the file as a whole.
func (j *Job) Place(key string) diag.Subject {
	if j.places == nil {
		return diag.Subject{File: j.Name}
	}
	return j.places.of(key)
}

// String is the choice as a job writes it.
func (s Select) String() string {
	if s.Rule == SelectGlob {
		return s.Glob.String()
	}
	return string(s.Rule)
}
