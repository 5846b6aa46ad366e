// Package engine runs a plan: it alone moves bytes.
//
// The unit of work is a band: a few MiB of one tensor, contiguous in the
// tensor's row-major order. Because a band spans whole rows, it is contiguous
// in every source part and in every target part that it meets: it is read once
// from each source part in one transfer, arranged in memory, and written to
// each target file in one transfer. A handful of workers take bands from one
// queue; their buffers come from one pool whose cap is the memory bound.
//
// Every tensor is summed twice while its bytes are in memory: where they lie
// as the source's layout says, and where they lie as the target's layout says.
// The two sums do not depend on how the tensor is cut, so they are equal only
// if every element has come to its place.
package engine

import (
	"context"
	"time"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/manifest"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
)

// Verify says how outputs are verified before they get their names.
type Verify string

// The modes of verify.mode.
const (
	VerifyNone     Verify = "none"
	VerifyHeader   Verify = "header"    // headers are read back
	VerifyDigest   Verify = "digest"    // headers are read back, tensors summed on both sides
	VerifyReadBack Verify = "read-back" // everything is read again from the disk
)

// OnExists says what a target with files in it means.
type OnExists string

// The values of run.on_exists.
const (
	ExistsFail    OnExists = "fail"
	ExistsReplace OnExists = "replace"
)

// Options are the settings of a run. None of them changes a byte of what is
// written.
type Options struct {
	FS       storage.FS
	Root     string // of the source, for Same
	Target   string // the target's root folder
	Workers  int
	Memory   int64 // bytes that the process may take, buffers being the greater part
	IO       storage.IOMode
	OnExists OnExists
	Verify   Verify
	SHA256   bool
	CRC      bool // check the sums that source files hold of themselves
	Strict   bool // what is only advisory counts
	Program  manifest.Program
	Job      manifest.Job
	Manifest string // name relative to Target
	Events   func(Event)
	Now      func() time.Time

	sizes sizes // of bands; zero for the defaults
}

// Event is progress, for people.
type Event struct {
	Phase      string // "check", "copy", "sync", "verify", "publish"
	Done       int64  // bytes
	Total      int64
	FilesDone  int
	Files      int
	File       string
	Tensor     string
	Diagnostic *diag.Diagnostic
}

// Result is what a run did.
type Result struct {
	Manifest *manifest.Manifest
	Written  int64
	Read     int64
	Compared int64
	Overflow int64 // elements that a cast made infinite
	Linked   int
	Peak     int64 // bytes of buffers in use at once
	IO       string
	Elapsed  time.Duration
	Warnings diag.List
}

// reserve is what the program itself takes besides buffers: code, headers,
// goroutines, the runtime.
const reserve = 64 << 20

// minBuffers is the least that one worker needs for its bands.
const minBuffers = 8 << 20

// sizes are the bytes of a band.
type sizes struct {
	band  int64
	floor int64 // a band that fans out gives each target at least this
}

var defaultSizes = sizes{band: 4 << 20, floor: 512 << 10}

func (o *Options) bands() sizes {
	if o.sizes == (sizes{}) {
		return defaultSizes
	}
	return o.sizes
}

// budget is the bytes of buffers that one worker may hold.
func (o *Options) budget() int64 {
	return max((o.Memory-reserve)/int64(o.Workers), minBuffers)
}

// MinMemory is the smallest run.memory that is honoured for a number of
// workers.
func MinMemory(workers int) int64 { return reserve + int64(workers)*minBuffers }

// PeakMemory estimates what a run takes at most: the program, and for each
// worker the buffers of the greatest band.
func PeakMemory(p *plan.Plan, o Options) int64 {
	return 32<<20 + int64(max(o.Workers, 1))*greatest(p, o) + 2*p.Totals.LargestHeader
}

// greatest is the buffers that the greatest band of a plan takes.
func greatest(p *plan.Plan, o Options) int64 {
	type key struct {
		shape, from, to string
		bits, target    int64
	}
	known := map[key]bool{}
	most := int64(0)
	for _, g := range p.Groups {
		for _, it := range g.Items {
			t := &p.Tensors[it.Tensor]
			s := &p.Source.Tensors[t.Source]
			from := s.Places[it.From].Layout
			k := key{box.Whole(t.Shape).String(), from.Key(), it.Layout.Key(), s.DType.Bits(), t.DType.Bits()}
			if known[k] {
				continue
			}
			known[k] = true
			b := geometry(t.Shape, s.DType.Bits(), t.DType.Bits(), from, it.Layout, o.budget(), o.bands())
			most = max(most, b.need(t.DType.Bits(), s.DType.Bits()))
		}
	}
	return most
}

// Run carries out a plan. On an error nothing that it made remains.
func Run(ctx context.Context, p *plan.Plan, o Options) (*Result, error) {
	r := &run{Plan: p, o: o, started: o.Now()}
	return r.do(ctx)
}
