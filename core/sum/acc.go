package sum

import "sync/atomic"

// Acc sums a message of known length whose pieces come in any order. It is
// safe for concurrent use. Each byte is to be added once.
type Acc struct {
	kind    Kind
	total   int64
	state   atomic.Uint64 // raw
	missing atomic.Int64
}

// NewAcc begins a message of total bytes.
func NewAcc(k Kind, total int64) *Acc {
	a := &Acc{kind: k, total: total}
	a.missing.Store(total)
	return a
}

// Kind is the check that is computed.
func (a *Acc) Kind() Kind { return a.kind }

// Total is the length of the message.
func (a *Acc) Total() int64 { return a.total }

// Missing is the number of bytes not added yet. It is not 0 at the end where a
// piece was forgotten or added twice.
func (a *Acc) Missing() int64 { return a.missing.Load() }

// Add adds the n bytes at off, whose sum is s.
func (a *Acc) Add(s uint64, off, n int64) {
	a.xor(a.kind.shift(a.kind.raw(s, n), a.total-off-n))
	a.missing.Add(-n)
}

// AddBytes adds the bytes p at off.
func (a *Acc) AddBytes(p []byte, off int64) { a.Add(a.kind.Of(p), off, int64(len(p))) }

// AddZeros adds n zero bytes, wherever they are.
func (a *Acc) AddZeros(n int64) { a.missing.Add(-n) }

// AddBand adds the bytes that b picks from p; its first run lies at off in the
// message.
func (a *Acc) AddBand(p []byte, off int64, b Band) {
	n := b.Bytes()
	if n == 0 {
		return
	}
	a.xor(a.kind.shift(a.kind.band(p, b), a.total-off-b.span()))
	a.missing.Add(-n)
}

// Merge adds all that b has: another accumulator of the same message, which
// was given other pieces.
func (a *Acc) Merge(b *Acc) {
	a.xor(b.state.Load())
	a.missing.Add(b.Missing() - b.total)
}

// Sum is the sum of the message once nothing is missing.
func (a *Acc) Sum() uint64 { return a.state.Load() ^ a.kind.Zeros(a.total) }

func (a *Acc) xor(raw uint64) {
	for {
		old := a.state.Load()
		if a.state.CompareAndSwap(old, old^raw) {
			return
		}
	}
}
