package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/checkpoint/memory"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/mindspore"
)

// scene is a job whose every operation can be made to fail.
type scene struct {
	fs   *storage.Memory
	hook *hook
	p    *plan.Plan
	o    Options
}

// hook is asked before each operation.
type hook struct {
	mu   sync.Mutex
	n    int
	ops  []string
	then func(n int, op storage.Op, name string) error
}

func (h *hook) fail(op storage.Op, name string, off int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	h.ops = append(h.ops, fmt.Sprintf("%s %s", op, name))
	if h.then == nil {
		return nil
	}
	return h.then(h.n, op, name)
}

func (h *hook) reset(then func(n int, op storage.Op, name string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n, h.ops, h.then = 0, nil, then
}

// fourRanks has tensors of two stages, copies, and files with trailers.
func fourRanks() *memory.Checkpoint {
	c := &memory.Checkpoint{Placement: memory.Placement{Stages: 2, Devices: 2, Outside: map[string][]int{"step": {0, 1}}}}
	c.Specs = map[string]map[int]memory.Spec{
		"a": {0: {Mesh: []int{2}, Dims: [][]int{{0}, nil}}},
		"b": {0: memory.Whole(2, 1), 1: memory.Whole(2, 1)},
		"c": {1: {Mesh: []int{2}, Dims: [][]int{nil, {0}}}},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, t := range []memory.Tensor{{Name: "a", Shape: []int64{4, 6}}, {Name: "b", Shape: []int64{6}}, {Name: "c", Shape: []int64{12, 2}}, {Name: "step", Shape: []int64{1}}} {
		t.DType = dtype.F32
		n, _ := t.DType.Bytes(t.Shape)
		for range n {
			t.Data = append(t.Data, byte(r.Uint32()))
		}
		c.Tensors = append(c.Tensors, t)
	}
	return c
}

// toThree puts the same tensors on three ranks.
func toThree(c *memory.Checkpoint) *memory.Placement {
	return &memory.Placement{Stages: 1, Devices: 3, Specs: map[string]map[int]memory.Spec{
		"a": {0: {Mesh: []int{3}, Dims: [][]int{nil, {0}}}},
		"b": {0: memory.Whole(3, 1)},
		"c": {0: {Mesh: []int{3}, Dims: [][]int{nil, nil}, Opt: -1}},
	}}
}

// newScene plans the job in a tree where replace finds an earlier run.
func newScene(t *testing.T, link, replace bool) *scene {
	t.Helper()
	s := &scene{fs: storage.NewMemory(), hook: &hook{}}
	s.fs.Fail = s.hook.fail
	f := mindspore.Format{}
	write := func(out checkpoint.Output, data [][]byte) ([]byte, error) {
		out.Trailer = true
		return memory.File(f, out, data)
	}
	c := fourRanks()
	if _, err := c.Put(s.fs, "in", ".ckpt", write); err != nil {
		t.Fatal(err)
	}
	to, err := toThree(c).Strategy()
	if err != nil {
		t.Fatal(err)
	}
	s.p, err = makePlan(s.fs, c, plan.Request{
		Strategy: to, Folder: true, Prefix: "new_", Format: f, Trailer: true, Link: link, Compare: plan.CompareAll,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.o = Options{
		FS: s.fs, Root: "in", Target: "out/deep", Manifest: "convert.manifest.json", Workers: 1, Now: time.Now,
		OnExists: ExistsFail, Verify: VerifyReadBack, SHA256: true, CRC: true, sizes: sizes{band: 32, floor: 1},
	}
	if replace {
		old := s.o
		p := *s.p
		p.Prefix = "old_"
		for _, prefix := range []string{"old_", "new_"} {
			p.Prefix = prefix
			if _, err := Run(context.Background(), &p, old); err != nil {
				t.Fatal(err)
			}
			old.OnExists = ExistsReplace
		}
		s.fs.Put("out/deep/notes.txt", []byte("not of ours"))
		s.o.OnExists = ExistsReplace
	}
	return s
}

// tree is all that a file system holds: files with their bytes, and folders.
func tree(t *testing.T, fs storage.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		list, err := fs.List(context.Background(), dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			name := path.Join(dir, e.Name)
			if e.Dir {
				out[name+"/"] = ""
				walk(name)
				continue
			}
			b, err := fs.ReadFile(context.Background(), name, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = string(b)
		}
	}
	walk(".")
	return out
}

// unlike says how two trees differ, in a line.
func unlike(got, want map[string]string) string {
	for _, n := range slices.Sorted(maps.Keys(got)) {
		if w, ok := want[n]; !ok {
			return n + " is left"
		} else if w != got[n] {
			return n + " has other bytes"
		}
	}
	for _, n := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[n]; !ok {
			return n + " is gone"
		}
	}
	return ""
}

// free tells whether a lock was left.
func free(t *testing.T, s *scene) {
	t.Helper()
	if _, err := s.fs.Stat(context.Background(), s.o.Target); err != nil {
		return
	}
	release, err := s.fs.Lock(context.Background(), s.o.Target)
	if err != nil {
		t.Errorf("the lock is left: %v", err)
		return
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

var errInjected = errors.New("injected")

// Whatever operation fails: the error is told, and the tree is as it was
// before, or, once the manifest has its name, as it is after a good run.
func TestEveryOperationFails(t *testing.T) {
	for _, c := range []struct{ link, replace bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		name := fmt.Sprintf("link=%v replace=%v", c.link, c.replace)
		s := newScene(t, c.link, c.replace)
		s.hook.reset(nil)
		if _, err := Run(context.Background(), s.p, s.o); err != nil {
			t.Fatalf("%s: nothing fails, and still: %v", name, err)
		}
		ops := s.hook.ops
		s.hook.reset(nil)
		done := tree(t, s.fs)
		for k := 1; k <= len(ops); k++ {
			s := newScene(t, c.link, c.replace)
			s.hook.reset(nil)
			before := tree(t, s.fs)
			fs := watch(s.fs)
			s.o.FS = fs
			s.hook.reset(func(n int, op storage.Op, name string) error {
				if n == k {
					return fmt.Errorf("%w: %s of %s", errInjected, op, name)
				}
				return nil
			})
			_, err := Run(context.Background(), s.p, s.o)
			s.hook.reset(nil)
			what := fmt.Sprintf("%s: operation %d of %d fails (%s)", name, k, len(ops), ops[k-1])
			after := tree(t, s.fs)
			free(t, s)
			if !errors.Is(err, errInjected) {
				t.Errorf("%s: the error is %v", what, err)
			}
			for _, x := range fs.faults() {
				t.Errorf("%s: %s", what, x)
			}
			want := before
			if published := strings.Contains(fmt.Sprint(err), "the checkpoint is written"); published || err == nil {
				want = done
				for n := range after {
					if strings.HasSuffix(n, ".old.convert-tmp") && strings.HasPrefix(ops[k-1], "remove") {
						delete(after, n) // what could not be removed
					}
				}
			}
			if d := unlike(after, want); d != "" {
				t.Errorf("%s: %s", what, d)
			}
		}
	}
}

// An interruption at any moment leaves the tree as it was, or the run done.
func TestCancelAnywhere(t *testing.T) {
	for _, replace := range []bool{false, true} {
		s := newScene(t, false, replace)
		s.hook.reset(nil)
		if _, err := Run(context.Background(), s.p, s.o); err != nil {
			t.Fatal(err)
		}
		ops := s.hook.ops
		s.hook.reset(nil)
		done := tree(t, s.fs)
		for k := 1; k <= len(ops); k++ {
			s := newScene(t, false, replace)
			s.o.Workers = 1 + k%4
			s.hook.reset(nil)
			before := tree(t, s.fs)
			fs := watch(s.fs)
			s.o.FS = fs
			ctx, cancel := context.WithCancel(context.Background())
			s.hook.reset(func(n int, op storage.Op, name string) error {
				if n == k {
					cancel()
				}
				return nil
			})
			_, err := Run(ctx, s.p, s.o)
			cancel()
			s.hook.reset(nil)
			what := fmt.Sprintf("replace=%v: interrupted at operation %d of %d (%s)", replace, k, len(ops), ops[k-1])
			want := before
			if err == nil {
				want = done
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the error is %v", what, err)
			}
			if d := unlike(tree(t, s.fs), want); d != "" {
				t.Errorf("%s: %s (error %v)", what, d, err)
			}
			free(t, s)
			for _, x := range fs.faults() {
				t.Errorf("%s: %s", what, x)
			}
		}
	}
}

// Any operation of any job may fail, with any number of workers.
func TestModelFaults(t *testing.T) {
	n := *cases / 3
	if testing.Short() {
		n /= 5
	}
	for s := *first; s < *first+n && !t.Failed(); s++ {
		x := newTrial(s)
		h := &hook{}
		x.fs.Fail = h.fail
		p := x.plan(t)
		if p == nil {
			continue
		}
		h.reset(nil)
		before := tree(t, x.fs)
		r := rand.New(rand.NewPCG(s, 1))
		for range 3 {
			k := 1 + r.IntN(30)
			if r.IntN(2) == 0 {
				k = 1 + r.IntN(300)
			}
			ctx, cancel := context.WithCancel(context.Background())
			interrupt := r.IntN(3) == 0
			failed, again := "", false // a reader of headers may try once more
			h.reset(func(n int, op storage.Op, name string) error {
				if n != k {
					return nil
				}
				failed, again = fmt.Sprintf("operation %d (%s of %s)", n, op, name), op == storage.OpRead
				if interrupt {
					cancel()
					return nil
				}
				return errInjected
			})
			o, fs := x.o, watch(x.fs)
			o.FS = fs
			_, err := Run(ctx, p, o)
			cancel()
			h.reset(nil)
			switch {
			case failed == "" && err != nil:
				t.Errorf("seed %d: nothing failed, and still: %v", s, err)
			case err == nil || strings.Contains(err.Error(), "the checkpoint is written"):
				if failed != "" && !interrupt && !again && err == nil {
					t.Errorf("seed %d: %s failed, and nothing is said", s, failed)
				}
				for name := range tree(t, x.fs) { // clear it away for the next round
					if strings.HasPrefix(name, "out/") && !strings.HasSuffix(name, "/") {
						if err := x.fs.Remove(context.Background(), name); err != nil {
							t.Fatal(err)
						}
					}
				}
				before = tree(t, x.fs)
			case !errors.Is(err, errInjected) && !errors.Is(err, context.Canceled):
				t.Errorf("seed %d: %s failed, the error is %v", s, failed, err)
			default:
				if d := unlike(tree(t, x.fs), before); d != "" {
					t.Errorf("seed %d: %s failed: %s", s, failed, d)
				}
			}
			for _, f := range fs.faults() {
				t.Errorf("seed %d: %s failed: %s", s, failed, f)
			}
		}
	}
}
