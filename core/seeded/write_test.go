package seeded_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/seeded"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
)

var model = seeded.Model{Layers: 3, Hidden: 32, FFN: 64, Vocab: 96, States: 2, DType: dtype.BF16}

// Each rank's file holds its parts of the tensors of its stage, and the step.
func TestWriteRank(t *testing.T) {
	for _, f := range []checkpoint.Format{mindspore.Format{}, safetensors.Format{}} {
		p := seeded.Parallel{PP: 2, DP: 2, TP: 2, Opt: layout.All}
		tensors, err := model.Tensors(p)
		if err != nil {
			t.Fatal(err)
		}
		fs := storage.NewMemory()
		total := int64(0)
		for r := range p.Ranks() {
			name := fmt.Sprintf("out/rank_%d/a%s", r, f.Describe().Extensions[0])
			size, err := seeded.WriteRank(context.Background(), fs, name, f, tensors, p, r, 3)
			if err != nil {
				t.Fatal(err)
			}
			b, ok := fs.Bytes(name)
			if !ok || int64(len(b)) != size {
				t.Fatalf("%s has %d bytes, want %d", name, len(b), size)
			}
			x, err := f.Index(context.Background(), checkpoint.Input{File: storage.FromBytes(b), Name: name, Strict: true, Yield: func() {}})
			if err != nil {
				t.Fatal(err)
			}
			held := 0
			for i := range tensors {
				y := &tensors[i]
				if y.Stage != r/(p.DP*p.TP) {
					continue
				}
				held++
				e := x.Find(y.Name)
				want := make([]byte, y.Layout.Box(y.Shape, r%(p.DP*p.TP)).Elements()*y.DType.Size())
				y.Fill(3, y.Layout.Box(y.Shape, r%(p.DP*p.TP)), want)
				if e == nil || !bytes.Equal(b[e.Data.Extents[0].Off:][:e.Data.Extents[0].Len], want) {
					t.Errorf("rank %d does not hold its part of %s", r, y.Name)
				}
				total += int64(len(want))
			}
			if e := x.Find("global_step"); e == nil || !bytes.Equal(b[e.Data.Extents[0].Off:][:4], []byte{seeded.Step & 0xff, seeded.Step >> 8, 0, 0}) {
				t.Errorf("rank %d does not hold the step", r)
			}
			if len(x.Entries) != held+1 {
				t.Errorf("rank %d holds %d tensors, want %d and the step", r, len(x.Entries), held)
			}
		}
	}
}

// A failure leaves no file.
func TestWriteRankFails(t *testing.T) {
	p := seeded.Parallel{PP: 1, DP: 1, TP: 1}
	tensors, err := model.Tensors(p)
	if err != nil {
		t.Fatal(err)
	}
	for k := 1; ; k++ {
		fs := storage.NewMemory()
		n := 0
		fs.Fail = func(op storage.Op, name string, _ int64) error {
			if n++; n == k {
				return fmt.Errorf("injected: %s", op)
			}
			return nil
		}
		_, err := seeded.WriteRank(context.Background(), fs, "out/a.ckpt", mindspore.Format{}, tensors, p, 0, 1)
		if n < k {
			break
		}
		if names := fs.Names(); err == nil || len(names) != 0 && names[0] != "out/a.ckpt" {
			t.Errorf("operation %d fails: the error is %v, the files are %v", k, err, names)
		}
	}
}

func TestBytes(t *testing.T) {
	p := seeded.Parallel{PP: 1, DP: 1, TP: 1}
	for _, states := range []int{0, 1, 2} {
		m := model
		m.States = states
		tensors, err := m.Tensors(p)
		if err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		for _, x := range tensors {
			n, _ := x.DType.Bytes(x.Shape)
			want += n
		}
		if got := m.Bytes(); got != want {
			t.Errorf("with %d states the model has %d bytes, want %d", states, got, want)
		}
	}
	for _, bytes := range []int64{1, 1 << 20, 10 << 20} {
		m := model.Fit(bytes)
		if got := m.Bytes(); m.Layers < 1 || m.Layers > 1 && (got > 2*bytes || got < bytes/2) {
			t.Errorf("fitted to %d bytes the model has %d", bytes, got)
		}
	}
}

func TestParallelThatDoesNotFit(t *testing.T) {
	for _, p := range []seeded.Parallel{{PP: 0, DP: 1, TP: 1}, {PP: 1, DP: 1, TP: 7}, {PP: 1, DP: 5, TP: 1, Opt: layout.All}, {PP: 1, DP: 1, TP: -1}} {
		if _, err := model.Tensors(p); err == nil {
			t.Errorf("the model is cut as %+v", p)
		}
	}
}
