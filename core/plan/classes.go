package plan

import (
	"github.com/seed-e934e81e/convert/core/box"
	"github.com/seed-e934e81e/convert/core/layout"
)

// classify says of every tensor what happens to it. Tensors with equal shapes
// and layouts are looked at once.
func (m *maker) classify() {
	type key struct{ shape, from, to string }
	known := map[key]Class{}
	for gi := range m.Groups {
		for i, it := range m.Groups[gi].Items {
			if i%64 == 0 {
				m.Yield()
			}
			t := &m.Tensors[it.Tensor]
			if t.Class != "" {
				continue
			}
			from := m.Source.Tensors[t.Source].Places[it.From].Layout
			k := key{box.Whole(t.Shape).String(), from.Key(), it.Layout.Key()}
			c, ok := known[k]
			if !ok {
				c = class(t.Shape, from, it.Layout)
				known[k] = c
			}
			t.Class = c
		}
	}
}

// class compares the cuts of two layouts dim by dim.
func class(shape []int64, from, to *layout.Layout) Class {
	if from.Blocks() == 1 && to.Blocks() == 1 {
		return Replicated
	}
	finer, coarser := true, true
	for i := range shape {
		a, b := from.Counts()[i], to.Counts()[i]
		finer = finer && b%a == 0
		coarser = coarser && a%b == 0
	}
	switch {
	case !from.Even() || !to.Even():
		return ReCut
	case finer && coarser:
		return Same
	case finer:
		return SplitFurther
	case coarser:
		return Merged
	}
	return ReCut
}
