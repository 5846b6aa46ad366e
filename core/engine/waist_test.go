package engine

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/checkpoint/memory"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/mindspore"
)

// putOdd puts an odd file whose tensors' bytes follow its header; their
// extents are given relative to that place.
func putOdd(t *testing.T, fs *storage.Memory, name string, body []byte, entries ...checkpoint.Entry) {
	t.Helper()
	const head = 4096
	for i := range entries {
		for j := range entries[i].Data.Extents {
			entries[i].Data.Extents[j].Off += 8 + head
		}
	}
	text, err := oddHeader(entries, head)
	if err != nil {
		t.Fatal(err)
	}
	fs.Put(name, append(text, body...))
}

// Files of ranks that are laid out alike share a header, and a worker keeps the
// packed stream that it read last: it must not take one rank's for another's.
func TestPackedTensorsOfRanks(t *testing.T) {
	fs := storage.NewMemory()
	const n, width = 8, 512
	c, _ := single("w", dtype.U8, n, 2, n*width)
	c.Specs["w"][0] = memory.Spec{Mesh: []int{n}, Dims: [][]int{nil, {0}}}
	for r := range n {
		part := bytes.Repeat([]byte{byte(r + 1)}, 2*width)
		copy(c.Tensors[0].Data[r*width:], part[:width])
		copy(c.Tensors[0].Data[(n+r)*width:], part[:width])
		p := append([]byte{1, 0, 4, 0xFF, 0xFB}, part...) // stored, so that all are equally long
		e := checkpoint.Entry{Name: "w", DType: dtype.U8, Shape: []int64{2, width}}
		e.Data = checkpoint.Data{Codec: checkpoint.Deflate, Decoded: 2 * width, Extents: []checkpoint.Extent{{Len: int64(len(p))}}}
		putOdd(t, fs, fmt.Sprintf("in/rank_%d/a.odd", r), p, e)
	}
	p, err := makePlan(fs, c, plan.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if h := p.Source.Ranks[0].Header; h != p.Source.Ranks[n-1].Header {
		t.Fatalf("ranks 0 and %d have headers of their own, the case proves nothing", n-1)
	}
	o := small(fs)
	o.sizes = sizes{band: 256, floor: 1}
	if _, err := Run(context.Background(), p, o); err != nil {
		t.Fatal(err)
	}
	if got := payload(t, fs, p.Format, "out/model.safetensors", "w"); !bytes.Equal(got, c.Tensors[0].Data) {
		t.Errorf("packed tensors of several ranks are mixed up")
	}
}

// Elements of less than a byte are moved as bytes, from wherever they are.
func TestElementsOfNoWholeBytes(t *testing.T) {
	want := []byte{0x21, 0x43, 0x65, 0x87}
	for _, d := range []checkpoint.Data{
		{Inline: want},
		{Extents: []checkpoint.Extent{{Len: 4}}},
		{Extents: []checkpoint.Extent{{Off: 2, Len: 2}, {Off: 0, Len: 2}}},
		{Extents: []checkpoint.Extent{{Len: 4}}, Strides: []int64{4, 1}},
		{Extents: []checkpoint.Extent{{Len: 6}}, Offset: 4},
		{Codec: checkpoint.Deflate, Decoded: 6, Offset: 4, Strides: []int64{4, 1}},
	} {
		fs := storage.NewMemory()
		body := want
		switch {
		case d.Codec == checkpoint.Deflate:
			body = deflated(append([]byte{9, 9}, want...))
			d.Extents = []checkpoint.Extent{{Len: int64(len(body))}}
		case d.Offset > 0:
			body = append([]byte{9, 9}, want...)
		case len(d.Extents) == 2:
			body = []byte{want[2], want[3], want[0], want[1]}
		}
		putOdd(t, fs, "in/a.odd", body, checkpoint.Entry{Name: "q", DType: dtype.F4E2M1, Shape: []int64{2, 4}, Data: d})
		p, err := makePlan(fs, &memory.Checkpoint{}, plan.Request{})
		if err != nil {
			t.Errorf("%+v: %v", d, err)
			continue
		}
		if _, err := Run(context.Background(), p, small(fs)); err != nil {
			t.Errorf("%+v: %v", d, err)
			continue
		}
		if got := payload(t, fs, p.Format, "out/model.safetensors", "q"); !bytes.Equal(got, want) {
			t.Errorf("%+v: read as %x, want %x", d, got, want)
		}
	}
}

// What cannot be read as bytes is refused.
func TestElementsOfNoWholeBytesStrided(t *testing.T) {
	for _, d := range []checkpoint.Data{
		{Extents: []checkpoint.Extent{{Len: 4}}, Strides: []int64{1, 2}},
		{Extents: []checkpoint.Extent{{Len: 6}}, Offset: 1},
	} {
		fs := storage.NewMemory()
		putOdd(t, fs, "in/a.odd", make([]byte, 8), checkpoint.Entry{Name: "q", DType: dtype.F4E2M1, Shape: []int64{2, 4}, Data: d})
		if _, err := makePlan(fs, &memory.Checkpoint{}, plan.Request{}); err == nil || !strings.Contains(err.Error(), "`q`") {
			t.Errorf("strides %v and offset %d of 4-bit elements: %v, want an error that names `q`", d.Strides, d.Offset, err)
		}
	}
}

// Elements that repeat (torch's expand) have a stride of 0.
func TestRepeatedElements(t *testing.T) {
	fs := storage.NewMemory()
	e := checkpoint.Entry{Name: "x", DType: dtype.U16, Shape: []int64{3, 2, 4}}
	e.Data = checkpoint.Data{Extents: []checkpoint.Extent{{Len: 8}}, Strides: []int64{0, 2, 0}, Offset: 1}
	putOdd(t, fs, "in/a.odd", []byte{9, 9, 1, 2, 9, 9, 3, 4}, e)
	p, err := makePlan(fs, &memory.Checkpoint{}, plan.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), p, small(fs)); err != nil {
		t.Fatal(err)
	}
	row := append(bytes.Repeat([]byte{1, 2}, 4), bytes.Repeat([]byte{3, 4}, 4)...)
	want := bytes.Repeat(row, 3)
	if got := payload(t, fs, p.Format, "out/model.safetensors", "x"); !bytes.Equal(got, want) {
		t.Errorf("read as %x, want %x", got, want)
	}
}

// A packed run that is shorter than it claims, or none at all, is damage.
func TestDamagedPackedTensor(t *testing.T) {
	whole := deflated(make([]byte, 100))
	for name, p := range map[string][]byte{"cut": whole[:len(whole)/2], "not packed": bytes.Repeat([]byte{0xFF}, 20), "short": deflated(make([]byte, 99))} {
		fs := storage.NewMemory()
		e := checkpoint.Entry{Name: "x", DType: dtype.U8, Shape: []int64{100}}
		e.Data = checkpoint.Data{Codec: checkpoint.Deflate, Decoded: 100, Extents: []checkpoint.Extent{{Len: int64(len(p))}}}
		putOdd(t, fs, "in/a.odd", p, e)
		pl, err := makePlan(fs, &memory.Checkpoint{}, plan.Request{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(context.Background(), pl, small(fs))
		if err == nil || !strings.Contains(err.Error(), "packed") {
			t.Errorf("%s: %v, want an error about the packed data", name, err)
		}
		if names := fs.Names(); len(names) != 1 {
			t.Errorf("%s: files are left: %v", name, names)
		}
	}
}

// Elements that lie far apart are read without all that is between them, and
// in little memory.
func TestElementsFarApart(t *testing.T) {
	for _, c := range []struct {
		shape, strides []int64
	}{
		{[]int64{37, 4099}, []int64{1, 8 * 37}},      // a column here and there
		{[]int64{4099, 37}, []int64{1, 5003}},        // transposed
		{[]int64{5, 301, 71}, []int64{3, 11_000, 5}}, // blocks
		{[]int64{3}, []int64{1_500_000}},             // three places
	} {
		last := int64(7)
		for i, s := range c.strides {
			last += (c.shape[i] - 1) * s
		}
		body := make([]byte, 2*(last+1))
		for i := range body {
			body[i] = byte(i ^ i>>8 ^ i>>16)
		}
		var want []byte
		index := make([]int64, len(c.shape))
		for range box.Whole(c.shape).Elements() {
			at := int64(7)
			for i, x := range index {
				at += x * c.strides[i]
			}
			want = append(want, body[2*at], body[2*at+1])
			for i := len(index) - 1; i >= 0; i-- {
				if index[i]++; index[i] < c.shape[i] {
					break
				}
				index[i] = 0
			}
		}
		fs := storage.NewMemory()
		e := checkpoint.Entry{Name: "x", DType: dtype.I16, Shape: c.shape}
		e.Data = checkpoint.Data{Extents: []checkpoint.Extent{{Len: int64(len(body))}}, Strides: c.strides, Offset: 7}
		putOdd(t, fs, "in/a.odd", body, e)
		p, err := makePlan(fs, &memory.Checkpoint{}, plan.Request{})
		if err != nil {
			t.Fatal(err)
		}
		w := watch(fs)
		res, err := Run(context.Background(), p, small(w))
		if err != nil {
			t.Fatal(err)
		}
		if got := payload(t, fs, p.Format, "out/model.safetensors", "x"); !bytes.Equal(got, want) {
			t.Errorf("shape %v with strides %v: the bytes written are not those expected", c.shape, c.strides)
		}
		if limit := MinMemory(1) - reserve; res.Peak > limit {
			t.Errorf("shape %v with strides %v: buffers take %d bytes, at most %d are allowed", c.shape, c.strides, res.Peak, limit)
		}
		if most := 2 * int64(len(body)); w.reads > most {
			t.Errorf("shape %v with strides %v: %d bytes are read of a storage of %d", c.shape, c.strides, w.reads, len(body))
		}
	}
}

// Large transfers have buffers whose addresses agree with the file's offsets,
// so that they may go past the page cache.
func TestTransfersAreAligned(t *testing.T) {
	fs := storage.NewMemory()
	c, to := single("w", dtype.F32, 3, 3*5, 77_777)
	s, err := to.Strategy()
	if err != nil {
		t.Fatal(err)
	}
	w := watch(fs)
	o := small(w)
	o.Verify = VerifyNone
	o.sizes = sizes{band: 300 << 10, floor: 1}
	if _, err := convert(t, fs, c, plan.Request{Strategy: s, Folder: true, Format: mindspore.Format{}}, o); err != nil {
		t.Fatal(err)
	}
	if w.large == 0 || w.aligned < w.large {
		t.Errorf("of %d large transfers %d are aligned", w.large, w.aligned)
	}
}
