package sum

import "encoding/binary"

// Band is a set of runs of equal width that lie at regular distances, both in
// a buffer and in the message: what a box of a tensor is to the tensor's
// row-major bytes.
type Band struct {
	Width int64 // bytes of a run
	Dims  []Dim // outermost first; none is a single run
}

// Dim is one level of repetition: N runs, or groups of runs, that begin Stride
// bytes apart in the buffer and Pitch bytes apart in the message. Stride may
// be negative or 0, Pitch is positive.
type Dim struct{ N, Stride, Pitch int64 }

// Rows is the band of n rows of width bytes that lie without gaps in the
// buffer and pitch bytes apart in the message.
func Rows(n, width, pitch int64) Band {
	return Band{Width: width, Dims: []Dim{{N: n, Stride: width, Pitch: pitch}}}
}

// Bytes is the number of bytes of all runs.
func (b Band) Bytes() int64 {
	n := b.Width
	for _, d := range b.Dims {
		n *= d.N
	}
	return n
}

// span is the distance in the message from the first run's beginning to the
// last run's end.
func (b Band) span() int64 {
	n := b.Width
	for _, d := range b.Dims {
		n += (d.N - 1) * d.Pitch
	}
	return n
}

// short is the width of rows below which the tables here are faster than the
// assembly of the packages that sum long messages.
const short = 128

// tabled is the number of multiplications by one constant from which on it
// pays to make its tables.
const tabled = 96

// band is the raw sum of b's runs in p, as if everything between them in the
// message were zeros. By Horner's rule each level costs one multiplication by
// x^(8·Pitch) a run.
func (k Kind) band(p []byte, b Band) uint64 {
	w := b.Width
	dims := b.Dims
	if n := len(dims); n > 0 && dims[n-1].Stride == w && dims[n-1].Pitch == w {
		w *= dims[n-1].N // the runs of the last level touch in both
		return k.band(p, Band{Width: w, Dims: dims[:n-1]})
	}
	r := reader{k: k, f: k.field(), p: p, width: w, levels: make([]level, len(dims))}
	for i, d := range dims {
		l := &r.levels[i]
		l.Dim = d
		gap := d.Pitch
		if i == len(dims)-1 && gap >= w {
			gap -= w // the update itself shifts by the row
			r.fused = true
		}
		l.c = k.shift(r.f.one, gap)
		if d.N >= tabled {
			l.op = new(op)
			r.f.setOp(l.op, l.c)
		}
	}
	return r.sum(0, 0)
}

type reader struct {
	k      Kind
	f      *field
	p      []byte
	width  int64
	levels []level
	fused  bool // the innermost level's constant leaves out the row
}

type level struct {
	Dim
	c  uint64
	op *op // multiplication by c, or nil
}

func (r *reader) sum(i int, at int64) uint64 {
	if i == len(r.levels) {
		return r.update(0, at)
	}
	l := &r.levels[i]
	if r.fused && i == len(r.levels)-1 {
		return r.rows(l, at)
	}
	var s uint64
	for range l.N {
		s = r.shift(l, s) ^ r.sum(i+1, at)
		at += l.Stride
	}
	return s
}

// rows sums the innermost level.
func (r *reader) rows(l *level, at int64) (s uint64) {
	for range l.N {
		s = r.update(r.shift(l, s), at)
		at += l.Stride
	}
	return s
}

// shift multiplies by the level's constant.
func (r *reader) shift(l *level, s uint64) uint64 {
	switch {
	case l.op != nil:
		return l.op.apply(s)
	case s == 0:
		return 0
	}
	return r.f.mul(s, l.c)
}

// update is the raw sum of a message followed by the run at p[at:], where s is
// the raw sum of the message.
func (r *reader) update(s uint64, at int64) uint64 {
	p := r.p[at : at+r.width]
	if len(p) >= short {
		return r.k.Update(s^r.f.ones, p) ^ r.f.ones
	}
	return r.f.update(s, p)
}

// update sums words and the bytes that are left by table. A word is as wide as
// the sum; adding one is (s ^ word) · x^width.
func (f *field) update(s uint64, p []byte) uint64 {
	t := &f.word
	if f.one>>63 == 0 {
		for ; len(p) >= 4; p = p[4:] {
			v := s ^ uint64(binary.LittleEndian.Uint32(p))
			s = t[0][v&0xff] ^ t[1][v>>8&0xff] ^ t[2][v>>16&0xff] ^ t[3][v>>24&0xff]
		}
		for _, b := range p {
			s = s>>8 ^ t[3][byte(s)^b]
		}
		return s
	}
	for ; len(p) >= 8; p = p[8:] {
		s = t.apply(s ^ binary.LittleEndian.Uint64(p))
	}
	if len(p) >= 4 {
		v := s ^ uint64(binary.LittleEndian.Uint32(p))
		s = s>>32 ^ t[4][v&0xff] ^ t[5][v>>8&0xff] ^ t[6][v>>16&0xff] ^ t[7][v>>24&0xff]
		p = p[4:]
	}
	if len(p) >= 2 {
		v := s ^ uint64(binary.LittleEndian.Uint16(p))
		s = s>>16 ^ t[6][v&0xff] ^ t[7][v>>8&0xff]
		p = p[2:]
	}
	if len(p) == 1 {
		s = s>>8 ^ t[7][byte(s)^p[0]]
	}
	return s
}
