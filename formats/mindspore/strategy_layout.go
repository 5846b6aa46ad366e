package mindspore

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mesh"
)

// key is a string that is equal for items that say the same of a parameter,
// whatever its name. The shape is not part of it.
func (it *item) key() string {
	b := make([]byte, 0, 64)
	list := func(v []int64) {
		b = binary.AppendUvarint(b, uint64(len(v)))
		for _, x := range v {
			b = binary.AppendVarint(b, x)
		}
	}
	list(it.matrix)
	b = binary.AppendUvarint(b, uint64(len(it.maps)))
	for _, m := range it.maps {
		list(m)
	}
	list(it.rows)
	list(it.offsets)
	list([]int64{it.field, it.step, it.size})
	return string(b)
}

// bad says that the strategy cannot be as the item has it.
func (it *item) bad(format string, args ...any) *diag.Diagnostic {
	return diag.Errorf(diag.Damaged, format, args...).AtByte(it.off).OfTensor(it.name)
}

// checkShape compares the global shape, where the file has it, with the layout.
func (it *item) checkShape(l *layout.Layout) error {
	switch {
	case it.shape == nil:
	case len(it.shape) != l.NDim():
		return it.bad("`%s` has a tensor_map of %d dims and a tensor_shape of %d", it.name, l.NDim(), len(it.shape))
	case slices.ContainsFunc(it.shape, func(n int64) bool { return n < 0 }):
		return it.bad("`%s` has the tensor_shape %v", it.name, it.shape)
	}
	return nil
}

// layout makes the layout that the item describes. misfit says why its manual
// split could not be kept, and is empty where all is well.
func (it *item) layout() (l *layout.Layout, misfit string, err error) {
	if len(it.matrix) == 0 {
		return nil, "", it.bad("the device matrix of `%s` is empty: the run was parallel by pipeline only", it.name).
			WithHint("such a strategy cuts no tensor: take the rank folders one by one")
	}
	shape := make([]int, len(it.matrix))
	for i, n := range it.matrix {
		if n < 1 || n > mesh.MaxRanks {
			return nil, "", it.bad("the device matrix %v of `%s` is not possible", it.matrix, it.name)
		}
		shape[i] = int(n)
	}
	m, err := mesh.New(nil, shape)
	if err != nil {
		return nil, "", it.bad("`%s`: %v", it.name, err)
	}
	dims, err := it.dims()
	if err != nil {
		return nil, "", err
	}
	opt, err := it.opt()
	if err != nil {
		return nil, "", err
	}
	l, err = layout.New(m, dims, opt)
	if err != nil {
		return nil, "", it.bad("`%s`: %v", it.name, err)
	}
	if len(it.rows) == 0 {
		return l, "", nil
	}
	l, misfit = it.manual(l)
	return l, misfit, nil
}

// dims gives for each tensor dim the mesh axes that cut it. The file counts
// axes from the right, −1 for none. More than one list is the nested form, one
// list for each dim; there an empty list is only the mark that the form is
// nested.
func (it *item) dims() ([][]int, error) {
	axis := func(v int64) (int, error) {
		if v < 0 || v >= int64(len(it.matrix)) {
			return 0, it.bad("the tensor_map of `%s` names axis %d of %d", it.name, v, len(it.matrix))
		}
		return len(it.matrix) - 1 - int(v), nil
	}
	var dims [][]int
	add := func(axes []int64) error {
		var out []int
		for _, v := range axes {
			if v == -1 && len(axes) == 1 {
				break
			}
			a, err := axis(v)
			if err != nil {
				return err
			}
			out = append(out, a)
		}
		dims = append(dims, out)
		return nil
	}
	if len(it.maps) == 1 {
		for i := range it.maps[0] {
			if err := add(it.maps[0][i : i+1]); err != nil {
				return nil, err
			}
		}
		return dims, nil
	}
	for _, m := range it.maps {
		if len(m) == 0 {
			continue
		}
		if err := add(m); err != nil {
			return nil, err
		}
	}
	return dims, nil
}

// opt is the size of the optimizer shard. The stored step is only an average
// distance of ranks and tells no more than that there is a shard: the slices
// go to consecutive runs of the group of ranks with the same part.
func (it *item) opt() (int, error) {
	switch {
	case it.step == 0 || it.size == 0:
		return 0, nil
	case it.size == -1:
		return layout.All, nil
	case it.size < 0:
		return 0, it.bad("`%s` has the optimizer shard size %d", it.name, it.size)
	}
	return int(min(it.size, mesh.MaxRanks)), nil // New takes at most the group
}

// manual applies the manual split of a table: rows has the number of rows of
// each slice, offsets where it begins. A table that is cut by columns too has
// an entry for each slice, row by row.
func (it *item) manual(l *layout.Layout) (*layout.Layout, string) {
	if l.NDim() == 0 || l.Opt() > 1 || l.Replicas() > 1 {
		return l, "the table is not cut by its strategy alone"
	}
	n := l.Counts()[0]
	if len(it.rows) != l.Blocks() && len(it.rows) != n {
		return l, "it has not one entry for each slice"
	}
	columns := len(it.rows) / n
	sizes := make([]int64, n)
	var begin int64
	for i := range sizes {
		sizes[i] = it.rows[i*columns]
		for j := i * columns; j < (i+1)*columns; j++ {
			if it.rows[j] != sizes[i] || len(it.offsets) > 0 && (j >= len(it.offsets) || it.offsets[j] != begin) {
				return l, "its rows and offsets do not follow each other"
			}
		}
		if sizes[i] < 0 || begin > math.MaxInt64/2-sizes[i] {
			return l, "a slice has an impossible number of rows"
		}
		begin += sizes[i]
	}
	if !slices.ContainsFunc(sizes, func(s int64) bool { return s != sizes[0] }) {
		return l, "" // even after all
	}
	cut, err := l.WithCuts(0, sizes)
	if err != nil {
		return l, err.Error()
	}
	return cut, ""
}

// optUnknown reports whether the strategy of a state is known not to describe
// the stored tensor: gradients that are summed keep the step and size of their
// weight without being cut, AdaFactor's and CAME's states are cut without
// having them.
func optUnknown(name string) bool {
	for _, p := range [...]string{"accu_grads.", "exp_avg_sq_row.", "exp_avg_sq_col.", "exp_avg_insta_row.", "exp_avg_insta_col.", "exp_avg_sq."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
