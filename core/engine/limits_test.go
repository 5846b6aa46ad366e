package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/checkpoint/memory"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/tensor"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
)

// single is one tensor on so many ranks, cut by an optimizer shard over all of
// them, or held whole by one.
func single(name string, t dtype.Type, ranks int, shape ...int64) (*memory.Checkpoint, *memory.Placement) {
	n, _ := t.Bytes(shape)
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*31 + i>>8)
	}
	spec := memory.Spec{Mesh: []int{ranks}, Dims: make([][]int, len(shape)), Opt: layout.All}
	p := memory.Placement{Stages: 1, Devices: ranks, Specs: map[string]map[int]memory.Spec{name: {0: spec}}}
	return &memory.Checkpoint{Tensors: []memory.Tensor{{Name: name, DType: t, Shape: shape, Data: data}}, Placement: p}, &p
}

// small are the settings with the least memory there is.
func small(fs storage.FS) Options {
	return Options{FS: fs, Root: "in", Target: "out", Manifest: "convert.manifest.json", Workers: 1, Now: time.Now, OnExists: ExistsFail, Verify: VerifyReadBack}
}

// convert runs a job on a checkpoint that is put into fs.
func convert(t *testing.T, fs *storage.Memory, c *memory.Checkpoint, q plan.Request, o Options) (*Result, error) {
	t.Helper()
	f := safetensors.Format{}
	_, err := c.Put(fs, "in", ".safetensors", func(out checkpoint.Output, data [][]byte) ([]byte, error) { return memory.File(f, out, data) })
	if err != nil {
		t.Fatal(err)
	}
	p, err := makePlan(fs, c, q)
	if err != nil {
		t.Fatal(err)
	}
	return Run(context.Background(), p, o)
}

func makePlan(fs storage.FS, c *memory.Checkpoint, q plan.Request) (*plan.Plan, error) {
	src, err := openSource(fs, c, len(c.Specs) == 0, q.Strategy != nil)
	if err != nil {
		return nil, err
	}
	q.Source = src
	if q.Format == nil {
		q.Format = safetensors.Format{}
	}
	if !q.Folder && q.File == "" {
		q.File = "model" + q.Format.Describe().Extensions[0]
	}
	return plan.Make(context.Background(), q)
}

// payload is the bytes of a tensor in a file.
func payload(t *testing.T, fs *storage.Memory, f checkpoint.Format, file, name string) []byte {
	t.Helper()
	b, ok := fs.Bytes(file)
	if !ok {
		t.Fatalf("%s is not there", file)
	}
	x, err := f.Index(context.Background(), checkpoint.Input{File: storage.FromBytes(b), Name: file, Yield: func() {}})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	e := x.Find(name)
	if e == nil {
		t.Fatalf("%s lacks %s", file, name)
	}
	var out []byte
	for _, y := range e.Data.Extents {
		out = append(out, b[y.Off:y.Off+y.Len]...)
	}
	return out
}

// With the least memory, one worker must be able to do everything.
func TestLeastMemory(t *testing.T) {
	cases := []struct {
		name   string
		dtype  dtype.Type
		shape  []int64
		from   int
		to     int
		cast   dtype.Type
		format checkpoint.Format
	}{
		{name: "a cast to a type four times as wide", dtype: dtype.F16, shape: []int64{4 << 20}, from: 1, to: 1, cast: dtype.F64},
		{name: "a cast to a narrower type", dtype: dtype.F64, shape: []int64{1 << 20}, from: 2, to: 2, cast: dtype.BF16},
		{name: "one band of many small source parts", dtype: dtype.F32, shape: []int64{4096}, from: 1024, to: 1},
		{name: "one band for many small target parts", dtype: dtype.F32, shape: []int64{4096}, from: 1, to: 1024},
		{name: "many on both sides", dtype: dtype.U8, shape: []int64{3 * 512}, from: 512, to: 3 * 256},
		{name: "a large tensor", dtype: dtype.BF16, shape: []int64{3, 2 << 20}, from: 3, to: 1, format: mindspore.Format{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fs := storage.NewMemory()
			src, _ := single("w", c.dtype, c.from, c.shape...)
			_, to := single("w", c.dtype, c.to, c.shape...)
			s, err := to.Strategy()
			if err != nil {
				t.Fatal(err)
			}
			f := c.format
			if f == nil {
				f = safetensors.Format{}
			}
			o := small(fs)
			res, err := convert(t, fs, src, plan.Request{Strategy: s, Folder: true, DType: c.cast, Format: f}, o)
			if err != nil {
				t.Fatal(err)
			}
			if limit := MinMemory(1) - reserve; res.Peak > limit {
				t.Errorf("buffers take %d bytes, at most %d are allowed", res.Peak, limit)
			}
			var got []byte
			for r := range c.to {
				got = append(got, payload(t, fs, f, fmt.Sprintf("out/rank_%d/%d%s", r, r, f.Describe().Extensions[0]), "w")...)
			}
			want := src.Tensors[0].Data
			if c.cast != dtype.Invalid {
				want = make([]byte, int64(len(want))/c.dtype.Size()*c.cast.Size())
				tensor.Cast(want, src.Tensors[0].Data, c.cast, c.dtype)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the bytes written are not those expected")
			}
		})
	}
}

// The header of a file is written along with its first payload, but must not
// need a buffer of its size.
func TestLongHeader(t *testing.T) {
	fs := storage.NewMemory()
	c := &memory.Checkpoint{Placement: memory.Placement{Stages: 1, Devices: 1, Outside: map[string][]int{}}}
	for i := range 4000 {
		name := fmt.Sprintf("%d.%s", i, strings.Repeat("long.name.", 300))
		c.Tensors = append(c.Tensors, memory.Tensor{Name: name, DType: dtype.U8, Shape: []int64{1}, Data: []byte{byte(i)}})
		c.Outside[name] = []int{0}
	}
	o := small(fs)
	o.SHA256 = true
	if _, err := convert(t, fs, c, plan.Request{}, o); err != nil {
		t.Fatal(err)
	}
	if got := payload(t, fs, safetensors.Format{}, "out/model.safetensors", c.Tensors[77].Name); !slices.Equal(got, []byte{77}) {
		t.Errorf("tensor 77 has the bytes %v, want [77]", got)
	}
}

// A tensor without elements may have dims of any size.
func TestHugeEmptyTensor(t *testing.T) {
	for _, shape := range [][]int64{{1 << 62, 0}, {0, 1 << 62}, {1 << 40, 0, 1 << 20}} {
		fs := storage.NewMemory()
		c := &memory.Checkpoint{Placement: memory.Placement{Stages: 1, Devices: 1, Outside: map[string][]int{"e": {0}}}}
		c.Tensors = []memory.Tensor{{Name: "e", DType: dtype.F32, Shape: shape}}
		done := make(chan error, 1)
		go func() {
			_, err := convert(t, fs, c, plan.Request{}, small(fs))
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("shape %v: %v", shape, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("shape %v: bands of an empty tensor are counted for ever", shape)
		}
	}
}

// A band whose copies are compared, of a wide type that is cast to a narrow
// one, needs more for the copies than for the target: it must not wait for
// memory for ever.
func TestMemoryOfComparedCopies(t *testing.T) {
	fs := storage.NewMemory()
	c, to := single("w", dtype.F64, 2, 16, 128<<10)
	c.Specs["w"][0] = memory.Whole(2, 2)
	to.Devices = 4
	to.Specs = map[string]map[int]memory.Spec{"w": {0: {Mesh: []int{4}, Dims: [][]int{nil, {0}}}}}
	s, err := to.Strategy()
	if err != nil {
		t.Fatal(err)
	}
	o := small(fs)
	o.Memory = reserve + 512<<20
	o.sizes = sizes{band: 4 << 20, floor: 4 << 20}
	done := make(chan error, 1)
	go func() {
		_, err := convert(t, fs, c, plan.Request{Strategy: s, Folder: true, DType: dtype.BF16, Compare: plan.CompareAll}, o)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the run waits for ever")
	}
}
