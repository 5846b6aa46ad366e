package mindspore

import (
	"fmt"
	"slices"

	"github.com/seed-e934e81e/convert/core/layout"
)

// WriteStrategy writes a strategy in the protobuf form, as MindSpore does: the
// file of the run where it has one stage, the merged file where it has more.
// Reading it gives an equal strategy but for global shapes and names of axes,
// which this form does not have; so a parameter whose dims are shown expanded
// has to be regrouped first.
func WriteStrategy(s *layout.Strategy) []byte {
	// Where all names of a run of one stage look as if they began with theirs,
	// only writing it in front of them makes the file clear.
	merged := s.Stages > 1 || !slices.ContainsFunc(s.Params, func(p layout.Param) bool {
		_, _, ok := cutStage(p.Name)
		return !ok
	})
	b := appendNumber(nil, 1, 1)
	for stage := range s.Stages {
		b = appendOperator(b, stage)
	}
	for i := range s.Params {
		p := &s.Params[i]
		it := itemOf(p)
		if merged {
			it.name = fmt.Sprintf("%d-%s", p.Stage, p.Name)
		}
		b = it.append(b)
	}
	return b
}

// appendOperator appends an operator, of which only the stage counts. A file
// without operators is empty to MindSpore.
func appendOperator(b []byte, stage int) []byte {
	strategys := appendNumber(nil, 1, int64(stage))
	op := appendBytes(nil, 1, fmt.Appendf(nil, "Stage%d", stage))
	return appendBytes(b, 2, appendBytes(op, 2, strategys))
}

// itemOf is the inverse of item.layout.
func itemOf(p *layout.Param) item {
	l := p.Layout
	shape := l.Mesh().Shape
	it := item{name: p.Name, field: p.Field}
	for _, n := range shape {
		it.matrix = append(it.matrix, int64(n))
	}
	it.maps = tensorMap(l)
	it.rows, it.offsets = manualSplit(l)
	if l.Opt() > 1 {
		it.step, it.size = optShard(l)
	}
	return it
}

// tensorMap is the flat form where every dim is cut by at most one axis.
func tensorMap(l *layout.Layout) [][]int64 {
	nested := make([][]int64, l.NDim())
	var flat []int64
	for i := range nested {
		for _, a := range l.Axes(i) {
			nested[i] = append(nested[i], int64(len(l.Mesh().Shape)-1-a))
		}
		if len(nested[i]) == 0 {
			nested[i] = []int64{-1}
		}
		flat = append(flat, nested[i][0])
	}
	for _, axes := range nested {
		if len(axes) > 1 {
			if len(nested) == 1 {
				nested = append(nested, nil) // the mark of the nested form
			}
			return nested
		}
	}
	return [][]int64{flat}
}

// optShard gives step and size as MindSpore computes them: the whole group is
// −1, the step the average distance of its ranks.
func optShard(l *layout.Layout) (step, size int64) {
	group := l.Opt() * l.Replicas()
	used := make(map[int]bool)
	for i := range l.NDim() {
		for _, a := range l.Axes(i) {
			used[a] = true
		}
	}
	shape, last, stride := l.Mesh().Shape, 0, 1
	for a := len(shape) - 1; a >= 0; a-- {
		if !used[a] {
			last += (shape[a] - 1) * stride
		}
		stride *= shape[a]
	}
	step, size = int64(last/(group-1)), int64(l.Opt())
	if l.Opt() == group {
		size = -1
	}
	return step, size
}

// manualSplit gives the rows and offsets of the uneven slices of dim 0, one
// entry for each slice, row by row; nothing where the cut is even.
func manualSplit(l *layout.Layout) (rows, offsets []int64) {
	// In a tensor without elements only an explicit cut gives dim 0 an extent.
	total, ok := l.Global(make([]int64, l.NDim()))
	if !ok || len(total) == 0 || total[0] == 0 {
		return nil, nil
	}
	counts := l.Counts()
	block := make([]int, len(counts))
	for i := range counts[0] {
		block[0] = i
		b := l.BlockBox(total, block)
		for range l.Blocks() / counts[0] {
			rows = append(rows, b.Ext[0])
			offsets = append(offsets, b.Off[0])
		}
	}
	return rows, offsets
}
