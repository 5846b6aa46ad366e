package layout

import "slices"

// Regroup turns a layout of an expanded tensor into that of the real one.
// Where two mesh axes cut one dim, MindSpore's JSON strategies show that dim as
// several: shape (32, 16) cut by two axes of 2 on dim 0 becomes (2, 16, 16).
// expanded is that global shape, local the shape of a stored part, which has
// fewer dims. It is false where the dims cannot be put together so that every
// part has the local shape.
func Regroup(l *Layout, expanded, local []int64) (*Layout, bool) {
	dims := make([][]int, 0, len(local))
	at := 0
	for i, want := range local {
		// Take expanded dims until their local sizes multiply to the part's.
		var axes []int
		n := int64(1)
		taken := 0
		for at < len(expanded) {
			rest := len(expanded) - at
			if taken > 0 && n == want && (rest == len(local)-i-1 || l.counts[at] == 1) {
				break
			}
			k := int64(l.counts[at])
			if k == 0 || expanded[at]%k != 0 {
				return nil, false
			}
			n *= expanded[at] / k
			axes = append(axes, l.dims[at]...)
			at++
			taken++
			if n > want || n == want && len(expanded)-at == len(local)-i-1 {
				break
			}
		}
		if n != want {
			return nil, false
		}
		dims = append(dims, axes)
	}
	if at != len(expanded) {
		return nil, false
	}
	out, err := New(l.mesh, dims, l.opt)
	if err != nil || !slices.Equal(out.mesh.Shape, l.mesh.Shape) {
		return nil, false
	}
	return out, true
}
