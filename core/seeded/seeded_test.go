package seeded

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/sum"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
)

var small = Model{Layers: 3, Hidden: 16, FFN: 24, Vocab: 32, States: 2, DType: dtype.BF16}

func TestPartsAreCutOutOfTheWhole(t *testing.T) {
	p := Parallel{PP: 3, DP: 2, TP: 4, Opt: layout.All}
	tensors, err := small.Tensors(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tensors {
		n, _ := x.DType.Bytes(x.Shape)
		whole := make([]byte, n)
		x.Fill(7, box.Whole(x.Shape), whole)
		if got, want := x.Digest(7), sum.CRC64.Of(whole); got != want {
			t.Errorf("%s: Digest = %x, its bytes give %x", x.Name, got, want)
		}
		for r := range p.DP * p.TP {
			b := x.Layout.Box(x.Shape, r)
			got := make([]byte, b.Elements()*x.DType.Size())
			x.Fill(7, b, got)
			var want []byte
			b.Runs(x.Shape, func(at, n int64) bool {
				want = append(want, whole[at*x.DType.Size():(at+n)*x.DType.Size()]...)
				return true
			})
			if !bytes.Equal(got, want) {
				t.Fatalf("%s: the part of rank %d is not cut out of the whole", x.Name, r)
			}
		}
		other := make([]byte, n)
		x.Fill(8, box.Whole(x.Shape), other)
		if bytes.Equal(whole, other) {
			t.Errorf("%s: two seeds give the same bytes", x.Name)
		}
	}
}

func TestValuesAreFinite(t *testing.T) {
	x := Tensor{Name: "w", DType: dtype.F32, Shape: []int64{1 << 16}}
	p := make([]byte, 4<<16)
	x.Fill(1, box.Whole(x.Shape), p)
	for i := 0; i < len(p); i += 4 {
		if v := float64(math.Float32frombits(binary.LittleEndian.Uint32(p[i:]))); math.IsNaN(v) || math.IsInf(v, 0) {
			t.Fatalf("element %d is %v", i/4, v)
		}
	}
}

func TestFilesAndStrategyAreWritten(t *testing.T) {
	fs := storage.NewMemory()
	p := Project{Model: small, Source: Parallel{PP: 1, DP: 2, TP: 2, Opt: layout.All}, Target: &Parallel{PP: 1, DP: 1, TP: 4}, Format: safetensors.Format{}, Seed: 3, Strategy: mindspore.WriteStrategy}
	n, err := p.Write(t.Context(), fs, "try")
	if err != nil {
		t.Fatal(err)
	}
	var files int64
	for _, name := range []string{"rank_0", "rank_1", "rank_2", "rank_3"} {
		e, err := fs.Stat(t.Context(), "try/src/"+name+"/seeded_"+name+"-1_1000.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		files += e.Size
	}
	if files != n {
		t.Errorf("Write says %d bytes, the files have %d", n, files)
	}
	for _, name := range []string{"src_strategy.ckpt", "dst_strategy.ckpt", "job.toml", "truth.json"} {
		if _, err := fs.Stat(t.Context(), "try/"+name); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Write(t.Context(), fs, "try"); err == nil {
		t.Errorf("a checkpoint that is there is written over")
	}
}

func TestParseParallel(t *testing.T) {
	if p, err := ParseParallel("pp=2, tp=8"); err != nil || p != (Parallel{PP: 2, DP: 1, TP: 8}) {
		t.Errorf("ParseParallel = %v, %v", p, err)
	}
	for _, s := range []string{"", "tp", "tp=0", "tp=x", "ep=2", "tp=99999999"} {
		if p, err := ParseParallel(s); err == nil {
			t.Errorf("ParseParallel(%q) = %v", s, p)
		}
	}
}

func TestFitComesNearTheSize(t *testing.T) {
	m := Model{Layers: 4, Hidden: 1024, FFN: 2816, Vocab: 16000, States: 2, DType: dtype.F32}
	for _, want := range []int64{64 << 20, 1 << 30, 6 << 30, 100 << 30} {
		if got := m.Fit(want).Bytes(); got < want*3/4 || got > want*5/4 {
			t.Errorf("a model of %d bytes is made for %d", got, want)
		}
	}
}
