package mindspore

import (
	"bytes"
	"unicode/utf8"
)

// The bounds of what a strategy may say.
const (
	maxAxes   = 64
	maxPieces = 1 << 16 // of a manual split
	maxParams = 1 << 20
)

// item is what a strategy says of one parameter, in either form.
type item struct {
	name          string
	matrix        []int64   // dev_matrix, the outermost axis first
	maps          [][]int64 // tensor_map: one list of all dims, or one list for each dim
	rows, offsets []int64   // param_split_shape, indices_offset
	field         int64
	step, size    int64   // opt_weight_shard_step, opt_weight_shard_size
	shape         []int64 // tensor_shape, which only JSON has
	off           int64   // where it stands in its file
}

// strategyText is a strategy file as it stands.
type strategyText struct {
	items    []item
	stage    int64 // of the first operator
	hasStage bool
}

// parseStrategyMap reads a message of type ParallelStrategyMap:
//
//	map    = 08 current_stage  (12 len operator)*  (1A len param)*
//	param  = 0A len name  12 len layouts
func parseStrategyMap(b []byte) (*strategyText, error) {
	c := newCursor(bytes.NewReader(b), int64(len(b)))
	t := &strategyText{}
	for c.pos < c.size {
		at := c.pos
		field, wire, err := c.key(c.size)
		if err != nil {
			return nil, err
		}
		switch field {
		case 1: // a counter of saves, not the pipeline stage
			_, err = c.number(wire, c.size, "current_stage")
		case 2:
			err = t.operator(c, wire)
		case 3:
			if len(t.items) == maxParams {
				return nil, bad(at, "the strategy has more than %d parameters", maxParams)
			}
			it := item{off: at}
			err = it.parse(c, wire)
			t.items = append(t.items, it)
		default:
			err = c.skip(wire, c.size)
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// operator reads of an operator only its pipeline stage, and only the first
// operator's counts:
//
//	operator = 0A len name  12 len (08 stage  (12 len shard)*)
func (t *strategyText) operator(c *cursor, wire int) error {
	end, err := c.message(wire, c.size, "parallel_strategy_item")
	if err != nil || t.hasStage {
		c.pos = end
		return err
	}
	return c.fields(end, func(field uint64, wire int) error {
		if field != 2 {
			return c.skip(wire, end)
		}
		end, err := c.message(wire, end, "parallel_strategys")
		if err != nil {
			return err
		}
		t.hasStage = true
		return c.fields(end, func(field uint64, wire int) (err error) {
			if field != 1 {
				return c.skip(wire, end)
			}
			t.stage, err = c.number(wire, end, "stage")
			return err
		})
	})
}

// fields calls f with each field of a message that ends at end.
func (c *cursor) fields(end int64, f func(field uint64, wire int) error) error {
	for c.pos < end {
		field, wire, err := c.key(end)
		if err != nil {
			return err
		}
		if err := f(field, wire); err != nil {
			return err
		}
	}
	return nil
}

// parse reads a message of type ParallelLayoutItem.
func (it *item) parse(c *cursor, wire int) error {
	end, err := c.message(wire, c.size, "parallel_layout_item")
	if err != nil {
		return err
	}
	layouts := false
	err = c.fields(end, func(field uint64, wire int) (err error) {
		switch field {
		case 1:
			it.name, err = c.text(wire, end, "param_name", maxName)
			return err
		case 2:
			layouts = true
			return it.parseLayouts(c, wire, end)
		}
		return c.skip(wire, end)
	})
	switch {
	case err != nil:
		return ofTensor(err, it.name)
	case it.name == "" || !utf8.ValidString(it.name):
		return bad(it.off, "a parameter has no name in UTF-8")
	case !layouts:
		return ofTensor(bad(it.off, "`%s` has no parallel_layouts", it.name), it.name)
	}
	return nil
}

// parseLayouts reads a message of type ParallelLayouts. Files of 2020 lack
// fields 6 and 7; what is missing is 0.
func (it *item) parseLayouts(c *cursor, wire int, end int64) error {
	end, err := c.message(wire, end, "parallel_layouts")
	if err != nil {
		return err
	}
	matrices := 0
	return c.fields(end, func(field uint64, wire int) (err error) {
		at := c.pos
		switch field {
		case 1:
			if matrices++; matrices > 1 {
				return bad(at, "`%s` has two device matrices", it.name)
			}
			it.matrix, err = c.list(nil, wire, end, "dev_matrix", maxAxes)
		case 2:
			if len(it.maps) == maxDims {
				return bad(at, "the tensor_map of `%s` has more than %d dims", it.name, maxDims)
			}
			var m []int64
			m, err = c.list(nil, wire, end, "tensor_map", max(maxAxes, maxDims))
			it.maps = append(it.maps, m)
		case 3:
			it.rows, err = c.list(it.rows, wire, end, "param_split_shape", maxPieces)
		case 4:
			it.offsets, err = c.list(it.offsets, wire, end, "indices_offset", maxPieces)
		case 5:
			it.field, err = c.number(wire, end, "field")
		case 6:
			it.step, err = c.number(wire, end, "opt_weight_shard_step")
		case 7:
			it.size, err = c.number(wire, end, "opt_weight_shard_size")
		default:
			err = c.skip(wire, end)
		}
		return err
	})
}

// list reads a message whose field 1 is a list of numbers, which is what
// DevMatrix, TensorMap and their like are.
func (c *cursor) list(dst []int64, wire int, end int64, what string, limit int) ([]int64, error) {
	end, err := c.message(wire, end, what)
	if err != nil {
		return nil, err
	}
	err = c.fields(end, func(field uint64, wire int) (err error) {
		if field != 1 {
			return c.skip(wire, end)
		}
		dst, err = c.ints(dst, wire, end, what, limit)
		return err
	})
	return dst, err
}

// append appends the item as a message of type ParallelLayoutItem, as Google's
// serializer writes it.
func (it *item) append(b []byte) []byte {
	var l []byte
	l = appendList(l, 1, it.matrix)
	for _, m := range it.maps {
		l = appendList(l, 2, m)
	}
	l = appendList(l, 3, it.rows)
	l = appendList(l, 4, it.offsets)
	l = appendNumber(l, 5, it.field)
	l = appendNumber(l, 6, it.step)
	l = appendNumber(l, 7, it.size)
	var p []byte
	p = appendBytes(p, 1, []byte(it.name))
	p = appendBytes(p, 2, l)
	return appendBytes(b, 3, p)
}

func appendList(b []byte, field byte, v []int64) []byte {
	var m []byte
	for _, x := range v {
		m = appendNumber(m, 1, x)
	}
	return appendBytes(b, field, m)
}

func appendBytes(b []byte, field byte, v []byte) []byte {
	return append(appendLen(b, field, int64(len(v))), v...)
}
