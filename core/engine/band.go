package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"
	"unsafe"

	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/sum"
	"github.com/seed-e934e81e/convert/core/tensor"
)

// worker carries out bands, one at a time.
type worker struct {
	*run
	pieces  []piece
	parts   []part
	inflate inflater
	own     *tensor.Buffer // for the bands of a usual size, kept for all of them
	more    *tensor.Buffer // for the band at hand, where that is greater
}

// piece is what a band takes from one source part.
type piece struct {
	block []int
	box   box.Box // in the tensor
	held  box.Box // the source part
	rank  int
	entry *checkpoint.Entry
	data  []byte // row-major, in the source's type and our byte order
}

// part is what a band gives to one target part.
type part struct {
	sink *sink
	box  box.Box // in the tensor
	side int
}

// newWorker makes a worker with its memory. The same pages serve all its bands:
// fresh ones would have to be cleared by the system first.
func newWorker(ctx context.Context, r *run) (*worker, error) {
	own, err := r.pool.Get(ctx, int(r.usual))
	return &worker{run: r, own: own}, err
}

func (w *worker) close() {
	w.inflate.close()
	w.drop()
	if w.own != nil {
		w.own.Release()
	}
}

// drop gives back the memory that only one band needed.
func (w *worker) drop() {
	if w.more != nil {
		w.more.Release()
		w.more = nil
	}
}

// take gets the next band and the memory for it. Both are had under one lock,
// so that memory goes to bands in their order: a worker that waits for an
// earlier band can be sure that the earlier band has its memory.
func (w *worker) take(ctx context.Context, jobs <-chan job) (j job, mem []byte, ok bool, err error) {
	w.taking.Lock()
	defer w.taking.Unlock()
	if j, ok = <-jobs; !ok || ctx.Err() != nil {
		return j, nil, ok, nil
	}
	w.findTargets(j.unit, j.band)
	if len(w.parts) == 0 {
		return j, nil, true, nil
	}
	if err := w.findSources(j.unit, j.band); err != nil {
		return j, nil, true, err
	}
	if n := w.need(j.unit); n > int64(w.own.Len()) {
		if int64(tensor.Footprint(int(n))) > w.spare() { // it would wait for what the workers never give back
			return j, nil, true, diag.Errorf(diag.Failed, "internal error: a band of `%s` needs %d bytes, %d are to spare", j.unit.source.Name, n, w.spare())
		}
		if w.more, err = w.pool.Get(ctx, int(n)); err != nil {
			return j, nil, true, err
		}
		return j, w.more.Bytes(), true, nil
	}
	return j, w.own.Bytes(), true, nil
}

// band reads one band, arranges it, and writes it to all that need it.
func (w *worker) band(ctx context.Context, j job, mem []byte) error {
	if mem != nil {
		if err := w.move(ctx, j.unit, mem); err != nil {
			return err
		}
	}
	if j.unit.left.Add(-1) == 0 {
		return w.unitDone(j.unit)
	}
	return nil
}

func (w *worker) findTargets(u *unit, band box.Box) {
	w.parts = w.parts[:0]
	for i, sd := range u.sides {
		sd.layout.Overlap(u.shape, band, func(b []int, p box.Box) bool {
			if k := sd.sinks[number(sd.layout, b)]; k != nil {
				w.parts = append(w.parts, part{sink: k, box: p.Clone(), side: i})
			}
			return true
		})
	}
}

// findSources lists the source parts that some target part needs.
func (w *worker) findSources(u *unit, band box.Box) error {
	w.pieces = w.pieces[:0]
	var err error
	u.layout.Overlap(u.shape, band, func(b []int, p box.Box) bool {
		if !u.full && !slices.ContainsFunc(w.parts, func(t part) bool { _, ok := box.Intersect(t.box, p); return ok }) {
			return true
		}
		block := slices.Clone(b)
		rank, e := w.Holder(u.source, u.place, w.blockOf(u, block), u.selector)
		if e == nil {
			err = diag.Errorf(diag.Failed, "internal error: no rank holds block %v of `%s`", block, u.source.Name)
			return false
		}
		w.pieces = append(w.pieces, piece{block: block, box: p.Clone(), held: u.layout.BlockBox(u.shape, block), rank: rank, entry: e})
		return true
	})
	return err
}

// blockOf is the block in the tensor's own layout; a tensor that is moved as
// bytes has only the one.
func (w *worker) blockOf(u *unit, b []int) []int {
	if n := u.source.Places[u.place].Layout.NDim(); n != len(b) {
		return make([]int, n)
	}
	return b
}

// align rounds up to whole blocks.
func align(n int64) int64 { return (n + storage.Block - 1) &^ (storage.Block - 1) }

// room is the buffer space for n bytes that are read in whole blocks.
func room(n int64) int64 { return align(n) + 2*storage.Block }

// need is the memory for the band at hand: all its source pieces, and after
// them one target part at a time or a copy to compare with.
func (w *worker) need(u *unit) int64 {
	size, copies := w.sourceRoom(u)
	stage := int64(0)
	for _, t := range w.parts {
		n := t.box.Elements() * u.to
		for _, d := range t.sink.dests {
			_, lead := d.at(t.offset(u))
			n = max(n, t.box.Elements()*u.to+int64(len(lead)))
		}
		stage = max(stage, room(n))
	}
	if !u.compare {
		copies = 0
	}
	return size + max(stage, copies)
}

// blockwise is the size from which on a source piece is read by whole blocks. A
// band may meet thousands of smaller ones, which lie close together.
const blockwise = 64 << 10

// lie is where in a band's memory a piece of n bytes lies, the first free byte
// being at.
func lie(at, n int64) (begin, end int64) {
	if n < blockwise {
		return at, at + (n+7)&^7
	}
	return align(at), align(at) + room(n)
}

// sourceRoom is the room of all source pieces, and of the greatest.
func (w *worker) sourceRoom(u *unit) (all, most int64) {
	for i := range w.pieces {
		n := w.pieces[i].box.Elements() * u.from
		_, all = lie(all, n)
		most = max(most, room(n))
	}
	return align(all), most
}

func (w *worker) move(ctx context.Context, u *unit, mem []byte) error {
	size, _ := w.sourceRoom(u)
	staging := mem[size:]
	phase, straight := w.straight(u)
	var err error
	at := int64(0)
	for i := range w.pieces {
		p := &w.pieces[i]
		n := p.box.Elements() * u.from
		begin, end := lie(at, n)
		if p.data, err = w.fetch(ctx, u, p.rank, p.entry, p.held, p.box, mem[begin:end], phase); err != nil {
			return err
		}
		w.read.Add(n)
		at = end
		if u.compare {
			if err := w.compareCopies(ctx, u, p, staging); err != nil {
				return err
			}
		}
		if u.full && !straight {
			addBand(u.read, p.data, p.box, u.shape, u.from)
		}
	}
	if straight {
		return w.writeStraight(ctx, u, mem, staging)
	}
	for _, t := range w.parts {
		if err := w.write(ctx, u, t, staging, nil, 0); err != nil {
			return err
		}
	}
	return nil
}

// straight reports whether a band is one source piece that becomes one target
// part as it is, and at which phase of its buffer the piece is best read so
// that it can be written from there.
func (w *worker) straight(u *unit) (phase int, ok bool) {
	if len(w.pieces) != 1 || len(w.parts) != 1 || u.cast || !w.pieces[0].box.Equal(w.parts[0].box) ||
		w.pieces[0].box.Elements()*u.from < blockwise || !w.pieces[0].box.Contiguous(u.shape) {
		return 0, false
	}
	t := w.parts[0]
	at, lead := t.sink.dests[0].at(t.offset(u))
	if len(lead) > storage.Block {
		return 0, false
	}
	return int((at-int64(len(lead)))%storage.Block) + len(lead), true
}

// writeStraight writes the one piece to the one part, from where it was read
// if its place in memory suits the first file. The bytes are summed once.
func (w *worker) writeStraight(ctx context.Context, u *unit, mem, staging []byte) error {
	p, t := &w.pieces[0], w.parts[0]
	crc := sum.CRC64.Of(p.data)
	if u.full {
		u.read.Add(crc, p.box.Index(u.shape)*u.from, int64(len(p.data)))
	}
	at, lead := t.sink.dests[0].at(t.offset(u))
	start := int(uintptr(unsafe.Pointer(unsafe.SliceData(p.data))) - uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	if start < len(lead) || int64(start)%storage.Block != at%storage.Block {
		return w.write(ctx, u, t, staging, p.data, crc)
	}
	return w.write(ctx, u, t, mem[start-len(lead)-int((at-int64(len(lead)))%storage.Block):], p.data, crc)
}

// offset is where a part begins in the bytes of its sink.
func (t part) offset(u *unit) int64 { return t.box.In(t.sink.box).Index(t.sink.box.Ext) * u.to }

// at is where the bytes from an offset of the tensor's part on begin in the
// files, and the literal that is written before them.
func (d use) at(off int64) (at int64, lead []byte) {
	runs := d.class.laid.Payload[d.item]
	run := runs[sort.Search(len(runs), func(i int) bool { return runs[i].Off+runs[i].Len > off })]
	if run.Off == off {
		lead = run.Lead
	}
	return run.At + off - run.Off, lead
}

// addBand adds the bytes of a box, which are row-major in p, to the digest of
// the tensor.
func addBand(a *sum.Acc, p []byte, b box.Box, shape []int64, elem int64) {
	off := b.Index(shape) * elem
	if b.Contiguous(shape) {
		a.AddBytes(p, off)
		return
	}
	n := len(shape)
	stride := box.Strides(shape)
	inner := box.Strides(b.Ext)
	k := n - 1
	width := b.Ext[k] * elem
	band := sum.Band{Width: width}
	for i := range k {
		if b.Ext[i] > 1 {
			band.Dims = append(band.Dims, sum.Dim{N: b.Ext[i], Stride: inner[i] * elem, Pitch: stride[i] * elem})
		}
	}
	a.AddBand(p, off, band)
}

// write arranges a target part and writes it to all its files. have is the
// part's bytes with their sum, if they are arranged already.
func (w *worker) write(ctx context.Context, u *unit, t part, staging, have []byte, crc uint64) error {
	n := t.box.Elements() * u.to
	off := t.offset(u)
	for i, d := range t.sink.dests {
		at, lead := d.at(off)
		// The buffer begins where the file's offset agrees with its address.
		phase := (at - int64(len(lead))) % storage.Block
		place := staging[phase+int64(len(lead)):][:n]
		switch {
		case have == nil:
			w.arrange(u, t, place)
			crc = sum.CRC64.Of(place)
		case unsafe.SliceData(have) != unsafe.SliceData(place):
			copy(place, have) // may overlap; copy moves
		}
		if i == 0 {
			w.digest(u, t, place, crc)
		}
		have = place
		copy(staging[phase:], lead)
		if err := w.put(ctx, d, place, staging[phase:][:int64(len(lead))+n], crc, off); err != nil {
			return err
		}
	}
	return nil
}

// digest adds a target part to the tensor's digest, once for each element.
func (w *worker) digest(u *unit, t part, p []byte, crc uint64) {
	if t.side != u.summed() {
		return
	}
	if t.box.Contiguous(u.shape) {
		u.wrote.Add(crc, t.box.Index(u.shape)*u.to, int64(len(p)))
		return
	}
	addBand(u.wrote, p, t.box, u.shape, u.to)
}

// put writes payload bytes, which begin at an offset of the tensor's part, to
// the files of one class. all is the same bytes with the literal before them.
func (w *worker) put(ctx context.Context, d use, payload, all []byte, crc uint64, off int64) error {
	c := d.class
	runs := c.laid.Payload[d.item]
	k := sort.Search(len(runs), func(i int) bool { return runs[i].Off+runs[i].Len > off })
	n := int64(len(payload))
	if off+n > runs[k].Off+runs[k].Len {
		return w.putSlices(ctx, c, runs[k:], payload, off)
	}
	at := runs[k].At + off - runs[k].Off
	from := at - int64(len(all)-len(payload))
	if from < at {
		lead := all[:at-from]
		c.crc.AddBytes(lead, from)
		c.addHoles(lead, from)
	}
	c.add(crc, at, n)
	c.addHoles(payload, at)
	return w.send(ctx, c, all, from)
}

// putSlices writes a part that spans several runs: MindSpore cuts large
// parameters, with a header before each slice.
func (w *worker) putSlices(ctx context.Context, c *class, runs []plan.Run, payload []byte, off int64) error {
	for _, r := range runs {
		if len(payload) == 0 {
			return nil
		}
		n := min(int64(len(payload)), r.Off+r.Len-off)
		if off == r.Off && len(r.Lead) > 0 {
			at := r.At - int64(len(r.Lead))
			c.crc.AddBytes(r.Lead, at)
			c.addHoles(r.Lead, at)
			if err := w.send(ctx, c, r.Lead, at); err != nil {
				return err
			}
		}
		at := r.At + off - r.Off
		c.crc.AddBytes(payload[:n], at)
		c.addHoles(payload[:n], at)
		if err := w.send(ctx, c, payload[:n], at); err != nil {
			return err
		}
		payload = payload[n:]
		off += n
	}
	return nil
}

// send writes bytes to every file of a class.
func (w *worker) send(ctx context.Context, c *class, p []byte, at int64) error {
	if c.ordered != nil {
		if err := c.ordered.add(ctx, p, at); err != nil {
			return err
		}
	}
	for i, f := range c.writers {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if _, err := f.WriteAt(p, at); err != nil {
			return diag.Errorf(diag.Failed, "cannot write").InFile(c.names[i]).AtByte(at).Wrap(err)
		}
	}
	done := w.done.Add(int64(len(p)) * int64(len(c.ranks)))
	w.event("copy", done, c.names[0])
	return nil
}

// arrange makes a target part of the source pieces that it overlaps.
func (w *worker) arrange(u *unit, t part, dst []byte) {
	for i := range w.pieces {
		p := &w.pieces[i]
		common, ok := box.Intersect(t.box, p.box)
		if !ok {
			continue
		}
		u.copy(dst, t.box, p.data, p.box, common)
	}
}

// copy moves the elements of common from a row-major source box into a
// row-major target box.
func (u *unit) copy(dst []byte, to box.Box, src []byte, from box.Box, common box.Box) {
	di, si := common.In(to), common.In(from)
	n := common.Elements()
	d0, s0 := di.Index(to.Ext), si.Index(from.Ext)
	whole := di.Contiguous(to.Ext) && si.Contiguous(from.Ext)
	switch {
	case whole && !u.cast:
		copy(dst[d0*u.to:(d0+n)*u.to], src[s0*u.from:])
	case whole:
		u.convert(dst[d0*u.to:(d0+n)*u.to], src[s0*u.from:(s0+n)*u.from])
	case !u.cast:
		ds, ss := box.Strides(to.Ext), box.Strides(from.Ext)
		for i := range ds {
			ds[i] *= u.to
			ss[i] *= u.from
		}
		tensor.Copy(dst[d0*u.to:], ds, src[s0*u.from:], ss, common.Ext, u.to)
	default:
		u.convertRuns(dst, to, src, from, common)
	}
}

func (u *unit) convert(dst, src []byte) {
	if n := tensor.Cast(dst, src, u.target.DType, u.source.DType); n > 0 {
		u.overflow.Add(n)
	}
}

// convertRuns casts run by run: as long a run as lies without gap on both
// sides.
func (u *unit) convertRuns(dst []byte, to box.Box, src []byte, from box.Box, common box.Box) {
	k := len(common.Ext) - 1
	width := common.Ext[k]
	for k > 0 && common.Ext[k] == to.Ext[k] && common.Ext[k] == from.Ext[k] {
		k--
		width *= common.Ext[k]
	}
	ds, ss := box.Strides(to.Ext), box.Strides(from.Ext)
	d, s := common.In(to).Index(to.Ext), common.In(from).Index(from.Ext)
	idx := make([]int64, k)
	for {
		u.convert(dst[d*u.to:(d+width)*u.to], src[s*u.from:(s+width)*u.from])
		i := k - 1
		for ; i >= 0; i-- {
			d, s = d+ds[i], s+ss[i]
			if idx[i]++; idx[i] < common.Ext[i] {
				break
			}
			d, s = d-idx[i]*ds[i], s-idx[i]*ss[i]
			idx[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// compareCopies reads the same box from every other rank that holds it.
func (w *worker) compareCopies(ctx context.Context, u *unit, p *piece, scratch []byte) error {
	var err error
	w.Copies(u.source, w.blockOf(u, p.block), p.rank, func(rank int, e *checkpoint.Entry) bool {
		var other []byte
		if other, err = w.fetch(ctx, u, rank, e, p.held, p.box, scratch, 0); err != nil {
			return false
		}
		w.compared.Add(int64(len(other)))
		if bytes.Equal(other, p.data) {
			return true
		}
		if w.Replicas != plan.First {
			err = differ(u, p, rank, other)
			return false
		}
		if _, told := u.told.LoadOrStore(rank, true); !told {
			d := differ(u, p, rank, other)
			d.Severity = diag.Warning
			w.warn(d.WithHint("`source.replicas` is \"first\": the bytes of rank %d are taken", p.rank))
		}
		return true
	})
	return err
}

func differ(u *unit, p *piece, rank int, other []byte) *diag.Diagnostic {
	i := 0
	for i < len(other) && other[i] == p.data[i] {
		i++
	}
	i = i / int(u.from) * int(u.from)
	a, b := p.data[i:i+int(u.from)], other[i:i+int(u.from)]
	d := diag.Errorf(diag.Damaged, "copies of `%s` differ: ranks %d and %d hold different bytes, first at element %d of %v (%s and %s)",
		u.source.Name, p.rank, rank, int64(i)/u.from, p.box, digits(a), digits(b)).OfTensor(u.source.Name).OfRank(rank)
	if u.source.Named {
		return d.WithHint("the ranks may be of different steps; set `source.replicas` to \"first\" or \"by-rank\" to choose, or `verify.replicas` to \"none\"")
	}
	return d.WithHint("no strategy names it, so every rank should hold the whole tensor; if it differs by rank, set `source.replicas = \"by-rank\"`; if it is cut, the strategy is not complete")
}

func digits(p []byte) string { return fmt.Sprintf("%x", p) }
