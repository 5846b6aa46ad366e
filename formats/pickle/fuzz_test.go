package pickle

import (
	"errors"
	"testing"
)

// FuzzPickle: whatever the bytes, the machine ends with a value inside of its
// limits or with an *Error, and reads the same again.
func FuzzPickle(f *testing.F) {
	for _, s := range []string{
		"N.", "\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01K\x05u.", "cos\nsystem\n(S'ls'\ntR.", "]q\x00h\x00a.",
		"\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00K\x05.", "(I01\nL5L\nF1.5\nV\\u00e9\nt.", "(im\nC\n}b.", "\x8f(K\x01\x90.",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse(b, Limits{Ops: 1 << 16, Nodes: 1 << 12})
		if pe := (*Error)(nil); err != nil {
			if !errors.As(err, &pe) || pe.At < 0 || pe.At > len(b) {
				t.Errorf("hostile bytes must give an *Error inside of them, got %T: %v", err, err)
			}
			return
		}
		if r.Root == nil || r.End <= 0 || r.End > len(b) || b[r.End-1] != '.' || r.Nodes > 1<<12 {
			t.Errorf("Parse(%q) = %+v", b, r)
		}
		again, err := Parse(b[:r.End], Limits{Ops: 1 << 16, Nodes: 1 << 12})
		if err != nil || again.Nodes != r.Nodes {
			t.Errorf("the same bytes without what follows: %v", err)
		}
	})
}
