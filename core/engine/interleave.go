package engine

import (
	"fmt"

	"github.com/seed-e934e81e/convert/core/box"
)

// list is the bands of a unit in the order in which they are handed out. Where
// a digest takes the bytes of each file in order, bands of different files
// alternate, so that several files are digested at once: bands that follow
// each other in a tensor mostly go to the same file.
func (u *unit) list(alternate bool) []box.Box {
	var out []box.Box
	u.bands.each(func(b box.Box) bool {
		out = append(out, b.Clone())
		return true
	})
	if !alternate || len(u.sides) != 1 || len(out) < 2 {
		return out
	}
	var order []string
	groups := map[string][]box.Box{}
	for _, b := range out {
		k, ok := u.row(b)
		if !ok {
			return out // one band for two rows of files: only the tensor's own order is safe
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], b)
	}
	out = out[:0]
	for i := 0; ; i++ {
		before := len(out)
		for _, k := range order {
			if i < len(groups[k]) {
				out = append(out, groups[k][i])
			}
		}
		if len(out) == before {
			return out
		}
	}
}

// row names the target parts that a band goes to by their place along the dims
// up to the bands' axis; false if it goes to several such places.
func (u *unit) row(b box.Box) (key string, ok bool) {
	ok = true
	u.sides[0].layout.Overlap(u.shape, b, func(block []int, _ box.Box) bool {
		k := fmt.Sprint(block[:min(u.bands.axis+1, len(block))])
		ok = key == "" || key == k
		key = k
		return ok
	})
	return key, ok
}
