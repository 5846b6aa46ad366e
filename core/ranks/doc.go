// Package ranks joins the files of many ranks and a strategy into one
// checkpoint, whatever their format.
//
// It finds the files, has the formats index them (headers only), and proves
// that strategy and headers agree: every rank of a stage holds a part of the
// same type and shape, and all parts together make one global tensor. What
// disagrees is an error that names tensor, rank, file and both values.
package ranks

import (
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/storage"
)

// StrategyFile is a strategy file, read whole.
type StrategyFile struct {
	Name  string
	Bytes []byte
}

// StrategyReader makes one strategy of the files of all stages.
type StrategyReader func(files []StrategyFile) (*layout.Strategy, diag.List, error)

// Rules stand in for a strategy file where the job declares mesh and layouts.
type Rules interface {
	// Stages and Devices (of each stage) of the mesh.
	Stages() int
	Devices() int
	// Place gives the layouts of a parameter of ndim dims, one for each stage
	// that holds it; in has the stages in which files hold it. It is an error
	// where no rule matches.
	Place(name string, ndim int, in []int) ([]layout.Param, error)
}

// Options say what is opened and how.
type Options struct {
	FS         storage.FS
	Formats    []checkpoint.Format
	Format     string // refuse anything else; "" takes what the content says
	Strategies StrategyReader
	Strategy   []string               // paths of strategy files and folders
	Rules      Rules                  // nil if there is no declared mesh
	Select     string                 // "newest", "mindspore", or in words what Match takes
	Match      func(name string) bool // chooses a file by its name, if Select is neither
	Strict     bool
	PerRank    bool // ranks are checkpoints of their own

	// TargetPlaced: the target has a strategy or mesh, so that rank folders
	// without a source strategy may be read as copies of a full checkpoint.
	TargetPlaced bool
}

// MaxStrategyBytes bounds a strategy file; the largest known has under 10 MB.
const MaxStrategyBytes = 1 << 30

// maxRanks bounds the ranks whose folders are looked at, so that a folder's
// name cannot ask for memory.
const maxRanks = 1 << 20
