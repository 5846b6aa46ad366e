package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/checkpoint/memory"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/manifest"
	"github.com/seed-e934e81e/convert/core/mapping"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/sum"
	"github.com/seed-e934e81e/convert/core/tensor"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
	"github.com/seed-e934e81e/convert/formats/torch"
)

var (
	seed  = flag.Uint64("seed", 0, "run only the model test's case of this seed")
	first = flag.Uint64("first", 1, "seed of the first case of the model test")
	cases = flag.Uint64("cases", 500, "number of cases of the model test")
)

// TestModel holds the engine against a resharder that gathers whole tensors in
// memory and cuts them again by definition.
func TestModel(t *testing.T) {
	if *seed != 0 {
		newTrial(*seed).run(t)
		return
	}
	n := *cases
	if testing.Short() {
		n /= 5
	}
	for s := *first; s < *first+n; s++ {
		if newTrial(s).run(t); t.Failed() {
			t.Fatalf("to see only this case: go test ./core/engine -run TestModel -seed %d", s)
		}
	}
}

// trial is one random case.
type trial struct {
	*rand.Rand
	seed     uint64
	fs       *storage.Memory
	source   *memory.Checkpoint
	target   *memory.Placement // nil for a full checkpoint
	full     bool              // the source is a full checkpoint
	from, to checkpoint.Format
	rename   func(string) string
	drop     func(string) bool
	q        plan.Request
	o        Options
}

var formats = []checkpoint.Format{mindspore.Format{}, safetensors.Format{}, torch.Format{}, odd{}}

func newTrial(seed uint64) *trial {
	t := &trial{Rand: rand.New(rand.NewPCG(seed, 0)), seed: seed, fs: storage.NewMemory()}
	t.from, t.to = t.format(), t.format()
	t.rename, t.drop = func(s string) string { return s }, func(string) bool { return false }
	bytes := int64(1) << (4 + 2*t.IntN(6))
	t.source, t.target = memory.Random(t.Rand, memory.Options{DTypes: t.dtypes(), Tensors: 8, Ranks: 12, Stages: 3, Bytes: bytes})
	t.o = Options{
		Root: "in", Target: "out", Manifest: "convert.manifest.json", Workers: 1 + t.IntN(4), Now: time.Now, OnExists: ExistsFail,
		Verify: pick(t, VerifyNone, VerifyHeader, VerifyDigest, VerifyReadBack), SHA256: t.IntN(3) == 0, CRC: t.IntN(2) == 0,
		sizes: sizes{band: pick[int64](t, 64, 1<<10, 1<<14, 4<<20), floor: pick[int64](t, 1, 256, 512<<10)},
	}
	t.q = plan.Request{
		Format: t.to, Folder: true, Prefix: "p", Missing: plan.Skip, Leftovers: pick(t, plan.Drop, plan.Merge),
		Replicas: pick(t, plan.Fail, plan.Fail, plan.First, plan.ByRank), Compare: pick(t, plan.CompareSmall, plan.CompareAll, plan.CompareNone),
		Trailer: t.to.Describe().Trailer && t.IntN(2) == 0, Link: t.IntN(3) == 0,
	}
	for _, x := range t.source.Tensors {
		if t.q.Replicas == plan.ByRank && len(t.source.In(x.Name)) > 1 {
			delete(t.source.Lacks, x.Name) // MindSpore's rule chooses a stage, which then must be whole
		}
	}
	if t.IntN(6) == 0 {
		t.gatherSource()
	}
	t.changeTarget()
	t.changeNames()
	return t
}

// pick favours nothing.
func pick[T any](t *trial, list ...T) T { return list[t.IntN(len(list))] }

func (t *trial) format() checkpoint.Format {
	return pick(t, formats[0], formats[0], formats[1], formats[2], formats[3])
}

// dtypes lists what both formats can hold.
func (t *trial) dtypes() []dtype.Type {
	var out []dtype.Type
	for d := dtype.Bool; int(d) < dtype.Count; d++ {
		ok := true
		for _, f := range []checkpoint.Format{t.from, t.to} {
			switch f.Describe().Name {
			case "mindspore":
				ok = ok && d.MindSpore() != ""
			case "safetensors":
				ok = ok && d.Safetensors() != ""
			case "torch":
				ok = ok && d.Torch() != "" && !strings.HasPrefix(d.String(), "q")
			}
		}
		if ok {
			out = append(out, d)
		}
	}
	return append(out, dtype.BF16, dtype.F32, dtype.F16)
}

// gatherSource makes the source one full checkpoint.
func (t *trial) gatherSource() {
	t.full = true
	outside := map[string][]int{}
	for _, x := range t.source.Tensors {
		outside[x.Name] = []int{0}
	}
	t.source.Placement = memory.Placement{Stages: 1, Devices: 1, Outside: outside}
	t.source.Lacks = nil
}

// changeTarget takes parameters and ranks away, or the whole strategy.
func (t *trial) changeTarget() {
	if t.IntN(5) == 0 {
		t.target = nil
		return
	}
	for _, x := range t.source.Tensors {
		if t.IntN(8) == 0 {
			delete(t.target.Specs, x.Name) // left over
		}
	}
	if t.IntN(4) == 0 {
		t.target.Specs["absent"] = map[int]memory.Spec{0: memory.Whole(t.target.Devices, 1)}
	}
	if t.IntN(3) == 0 {
		for r := range t.target.Ranks() {
			if t.IntN(2) == 0 {
				t.q.Ranks = append(t.q.Ranks, r)
			}
		}
		if t.q.Ranks == nil {
			t.q.Ranks = []int{t.IntN(t.target.Ranks())}
		}
	}
}

// changeNames makes rules that rename, drop and cast.
func (t *trial) changeNames() {
	var rules []mapping.Rule
	if t.IntN(3) == 0 {
		re := regexp.MustCompile(`^layers\.(.*)$`)
		rules = append(rules, mapping.Rule{Match: `layers\.(.*)`, To: "model.$1.x"})
		t.rename = func(s string) string { return re.ReplaceAllString(s, "model.$1.x") }
	}
	if t.IntN(4) == 0 {
		rules = append(rules, mapping.Rule{Match: `moments\..*`, Drop: true})
		t.drop = func(s string) bool { return strings.HasPrefix(s, "moments.") }
	}
	if t.IntN(3) == 0 {
		t.q.DType = pick(t, dtype.F64, dtype.F32, dtype.F16, dtype.BF16)
	}
	m, err := mapping.Compile(rules)
	if err != nil {
		panic(err)
	}
	t.q.Mapping = m
	if t.target != nil {
		for name, s := range t.target.Specs {
			delete(t.target.Specs, name)
			t.target.Specs[t.rename(name)] = s
		}
	}
}

// want is a tensor that a file must hold.
type want struct {
	name  string
	dtype dtype.Type
	shape []int64
	data  []byte
}

// whole is a tensor as the target has it.
func (t *trial) whole(x *memory.Tensor) want {
	w := want{name: t.rename(x.Name), dtype: x.DType, shape: x.Shape, data: x.Data}
	scalar := len(x.Shape) == 0 || len(x.Shape) == 1 && x.Shape[0] == 1
	if to := t.q.DType; to != dtype.Invalid && x.DType.Castable() && !scalar {
		w.dtype, w.data = to, make([]byte, int64(len(x.Data))/x.DType.Size()*to.Size())
		tensor.Cast(w.data, x.Data, to, x.DType)
	}
	return w
}

// expect is what a target rank's file must hold: what its strategy places in
// the rank's stage, cut; and whole, what no strategy names and what is left
// over, of the source stages that hold anything of the rank's stage.
func (t *trial) expect(rank int) (placed, passed []want) {
	stage, needed := 0, map[int]bool{}
	if t.target != nil {
		stage = rank / t.target.Devices
	}
	for s := range t.source.Stages {
		needed[s] = t.target == nil || t.source.Stages == 1
	}
	for i := range t.source.Tensors {
		x := &t.source.Tensors[i]
		if t.target == nil || t.drop(x.Name) {
			continue
		}
		if _, ok := t.target.Specs[t.rename(x.Name)][stage]; ok {
			for r := range t.source.Ranks() {
				if _, ok := t.source.Holds(x, r); ok {
					needed[r/t.source.Devices] = true
				}
			}
		}
	}
	if !slices.Contains(sortedValues(needed), true) {
		needed[0] = true
	}
	// Leftovers are merged whichever stage they are of; those come last.
	seen := map[string]bool{}
	for _, here := range []bool{true, false} {
		p, q := t.expectOf(seen, rank, stage, func(name string, s int) bool { return needed[s] == here && (here || t.merged(name)) })
		placed, passed = append(placed, p...), append(passed, q...)
	}
	return placed, passed
}

// merged tells a leftover that is to be written whole.
func (t *trial) merged(name string) bool {
	_, named := t.source.Specs[name]
	return named && t.target != nil && t.target.Specs[t.rename(name)] == nil && t.q.Leftovers == plan.Merge
}

// expectOf is what a rank's file must hold of the tensors of some source
// stages, in MindSpore's order: as first seen from the highest rank down.
func (t *trial) expectOf(seen map[string]bool, rank, stage int, from func(name string, stage int) bool) (placed, passed []want) {
	for r := t.source.Ranks() - 1; r >= 0; r-- {
		for _, name := range t.source.Names(r) {
			if !from(name, r/t.source.Devices) || seen[name] || t.drop(name) {
				continue
			}
			seen[name] = true
			x := &t.source.Tensors[slices.IndexFunc(t.source.Tensors, func(x memory.Tensor) bool { return x.Name == name })]
			w := t.whole(x)
			_, named := t.source.Specs[name]
			var specs map[int]memory.Spec
			if t.target != nil {
				specs = t.target.Specs[w.name]
			}
			spec, here := specs[stage]
			switch {
			case here:
				b := spec.Box(x.Shape, rank%t.target.Devices)
				w.data, w.shape = memory.Cut(w.data, w.dtype.Bits(), x.Shape, b), b.Ext
				placed = append(placed, w)
			case specs != nil:
			case t.target == nil && named:
				placed = append(placed, w)
			case named && t.q.Leftovers == plan.Drop:
			default:
				passed = append(passed, w)
			}
		}
	}
	return placed, passed
}

func sortedValues(m map[int]bool) []bool {
	var out []bool
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

func (t *trial) ranks() []int {
	if t.q.Ranks != nil {
		return t.q.Ranks
	}
	if t.target == nil {
		return []int{0}
	}
	var out []int
	for r := range t.target.Ranks() {
		out = append(out, r)
	}
	return out
}

func (t *trial) name(rank int) string {
	return fmt.Sprintf("rank_%d/p%d%s", rank, rank, t.to.Describe().Extensions[0])
}

// open puts the source's files and reads their headers.
func (t *trial) open(fs storage.FS) (*checkpoint.Checkpoint, error) {
	write := func(out checkpoint.Output, data [][]byte) ([]byte, error) { return memory.File(t.from, out, data) }
	if t.from == (odd{}) {
		write = func(out checkpoint.Output, data [][]byte) ([]byte, error) { return oddFile(t.Rand, out, data) }
	}
	if _, err := t.source.Put(t.fs, "in", t.from.Describe().Extensions[0], write); err != nil {
		return nil, err
	}
	return openSource(fs, t.source, t.full, t.target != nil)
}

func openSource(fs storage.FS, c *memory.Checkpoint, full, target bool) (*checkpoint.Checkpoint, error) {
	o := ranks.Options{FS: fs, Formats: formats, TargetPlaced: target}
	if !full {
		o.FS, o.Strategy = placed{fs}, []string{"placement"}
		o.Strategies = func([]ranks.StrategyFile) (*layout.Strategy, diag.List, error) {
			s, err := c.Strategy()
			return s, nil, err
		}
	}
	return ranks.Open(context.Background(), "in", o)
}

// plan plans the case; nil where nothing is to be written.
func (t *trial) plan(tt *testing.T) *plan.Plan {
	tt.Helper()
	if len(t.source.Tensors) == 0 {
		return nil
	}
	src, err := t.open(t.fs)
	if err != nil {
		tt.Errorf("seed %d: open: %v", t.seed, err)
		return nil
	}
	t.q.Source = src
	if t.target != nil {
		if t.q.Strategy, err = t.target.Strategy(); err != nil {
			tt.Errorf("seed %d: strategy: %v", t.seed, err)
			return nil
		}
	}
	p, err := plan.Make(context.Background(), t.q)
	if err != nil && !t.nothing() {
		tt.Errorf("seed %d: plan: %v", t.seed, err)
	}
	return p
}

func (t *trial) run(tt *testing.T) {
	tt.Helper()
	p := t.plan(tt)
	if p == nil {
		return
	}
	fail := func(format string, args ...any) {
		tt.Helper()
		tt.Errorf("seed %d: %s", t.seed, fmt.Sprintf(format, args...))
	}
	fs := watch(t.fs)
	t.o.FS = fs
	res, err := Run(context.Background(), p, t.o)
	if err != nil {
		fail("run: %v", err)
		return
	}
	for _, x := range fs.faults() {
		fail("%s", x)
	}
	t.check(fail, p, res, fs.reads)
}

// nothing tells that no target rank holds anything, which is refused.
func (t *trial) nothing() bool {
	for _, r := range t.ranks() {
		if !t.empty(r) {
			return false
		}
	}
	return true
}

// empty tells that a target rank holds nothing, and so gets no file.
func (t *trial) empty(rank int) bool {
	placed, passed := t.expect(rank)
	return len(placed)+len(passed) == 0
}

func (t *trial) check(fail func(string, ...any), p *plan.Plan, res *Result, read int64) {
	names := []string{"out/convert.manifest.json"}
	sizes := int64(0)
	for _, r := range t.ranks() {
		if t.empty(r) && t.target != nil {
			continue
		}
		name := t.name(r)
		names = append(names, path.Join("out", name))
		b, ok := t.fs.Bytes(path.Join("out", name))
		if !ok {
			fail("%s is not there", name)
			continue
		}
		sizes += int64(len(b))
		placed, passed := t.expect(r)
		t.checkFile(fail, name, b, append(placed, passed...))
		t.checkRecord(fail, res.Manifest, name, b)
	}
	slices.Sort(names)
	var got []string
	for _, n := range t.fs.Names() {
		if strings.HasPrefix(n, "out") {
			got = append(got, n)
		}
	}
	if !slices.Equal(got, names) {
		fail("the target has %v, want %v", got, names)
	}
	if p.Totals.WriteBytes != sizes || res.Written != sizes {
		fail("the plan writes %d bytes, the run says %d, the files have %d", p.Totals.WriteBytes, res.Written, sizes)
	}
	if limit := t.o.budget() * int64(t.o.Workers); res.Peak > limit {
		fail("buffers take %d bytes, at most %d are allowed", res.Peak, limit)
	}
	if t.q.Replicas != plan.ByRank && t.q.Ranks == nil {
		if res.Read != p.Totals.ReadBytes || res.Compared != p.Totals.CompareBytes {
			fail("the plan reads %d bytes and compares %d, the run %d and %d", p.Totals.ReadBytes, p.Totals.CompareBytes, res.Read, res.Compared)
		}
	}
	if !t.o.CRC && t.from != (odd{}) && read != res.Read+res.Compared {
		fail("%d bytes of source files were read, the run says %d and %d", read, res.Read, res.Compared)
	}
	if res.Read > p.Totals.ReadBytes && t.q.Replicas != plan.ByRank {
		fail("the plan reads %d bytes, the run %d", p.Totals.ReadBytes, res.Read)
	}
	t.checkDigests(fail, res.Manifest)
}

// checkFile holds what a reader finds in a file against what must be there.
func (t *trial) checkFile(fail func(string, ...any), name string, b []byte, want []want) {
	x, err := t.to.Index(context.Background(), checkpoint.Input{File: storage.FromBytes(b), Name: name, Strict: true, Yield: func() {}})
	if err != nil {
		fail("%s: %v", name, err)
		return
	}
	if len(x.Entries) != len(want) {
		fail("%s holds %d tensors, want %d", name, len(x.Entries), len(want))
		return
	}
	for i, w := range want {
		e := x.Find(w.name)
		if e == nil {
			fail("%s lacks %s", name, w.name)
			continue
		}
		if ordered := t.from == formats[0] && t.to == formats[0]; ordered && x.Entries[i].Name != w.name {
			fail("%s: tensor %d is %s, want %s", name, i, x.Entries[i].Name, w.name)
		}
		if e.DType != w.dtype || !slices.Equal(e.Shape, w.shape) {
			fail("%s: %s is %v %v, want %v %v", name, w.name, e.DType, e.Shape, w.dtype, w.shape)
			continue
		}
		var data []byte
		for _, x := range e.Data.Extents {
			data = append(data, b[x.Off:x.Off+x.Len]...)
		}
		if !e.Data.RowMajor(e.Shape) || e.Data.Offset != 0 || !bytes.Equal(data, w.data) {
			fail("%s: the bytes of %s are not those expected", name, w.name)
		}
	}
	if err := t.checkSums(b, x); err != nil {
		fail("%s: %v", name, err)
	}
	for _, c := range x.Checks {
		if got := sum.CRC32.Of(b[c.Range.Off : c.Range.Off+c.Range.Len]); got != c.Want {
			fail("%s: its checksum %s is %08x, its bytes give %08x", name, c.Name, c.Want, got)
		}
	}
	if t.q.Trailer && len(x.Checks) != 1 {
		fail("%s has no trailer", name)
	}
}

// checkSums holds the sums that an odd file has of itself against its bytes;
// those of other formats are in the index.
func (t *trial) checkSums(b []byte, x *checkpoint.Index) error {
	if t.to != (odd{}) {
		return nil
	}
	out := checkpoint.Output{Yield: func() {}}
	for _, e := range x.Entries {
		out.Tensors = append(out.Tensors, checkpoint.Tensor{Name: e.Name, DType: e.DType, Shape: e.Shape})
	}
	bp, err := t.to.Blueprint(context.Background(), out)
	if err != nil {
		return err
	}
	return checkOdd(b, bp)
}

// checkRecord holds a file against its line in the manifest.
func (t *trial) checkRecord(fail func(string, ...any), m *manifest.Manifest, name string, b []byte) {
	i := slices.IndexFunc(m.Files, func(f manifest.File) bool { return f.Name == name })
	if i < 0 {
		fail("the manifest does not list %s", name)
		return
	}
	f := m.Files[i]
	sha := ""
	if t.o.SHA256 {
		s := sha256.Sum256(b)
		sha = hex.EncodeToString(s[:])
	}
	if f.Size != int64(len(b)) || f.CRC64 != sum64(sum.CRC64.Of(b)) || f.SHA256 != sha {
		fail("%s has %d bytes, sums %s and %q; the manifest says %+v", name, len(b), sum64(sum.CRC64.Of(b)), sha, f)
	}
}

// checkDigests holds the digests of whole tensors against the tensors.
func (t *trial) checkDigests(fail func(string, ...any), m *manifest.Manifest) {
	for i := range t.source.Tensors {
		w := t.whole(&t.source.Tensors[i])
		k := slices.IndexFunc(m.Tensors, func(x manifest.Tensor) bool { return x.Name == w.name })
		if k < 0 {
			continue
		}
		got, need := m.Tensors[k], sum64(sum.CRC64.Of(w.data))
		if got.CRC64 != need && (got.CRC64 != "" || t.q.Ranks == nil && t.q.Replicas != plan.ByRank) {
			fail("the manifest says that %s has the digest %q, it has %s", w.name, got.CRC64, need)
		}
		if got.DType != w.dtype.String() || !slices.Equal(got.Shape, t.source.Tensors[i].Shape) {
			fail("the manifest says that %s is %s %v, it is %s %v", w.name, got.DType, got.Shape, w.dtype, t.source.Tensors[i].Shape)
		}
	}
}
