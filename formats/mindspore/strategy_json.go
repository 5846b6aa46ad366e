package mindspore

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// maxDepth bounds the nesting of what is passed over in a JSON strategy.
const maxDepth = 32

// parseStrategyJSON reads the JSON form:
//
//	{"current_stage": n,
//	 "parallel_strategy_item": {operator: {"stage": s, …}, …},
//	 "parallel_layout_item": {parameter: {"dev_matrix": […], "tensor_map": […],
//	    "tensor_shape": […], "field": n, "opt_weight_shard_step": n,
//	    "opt_weight_shard_size": n, …}, …}}
//
// It walks tokens, because a parameter that is named twice must be seen.
func parseStrategyJSON(b []byte) (*strategyText, error) {
	if !utf8.Valid(b) {
		return nil, bad(0, "the text is not UTF-8")
	}
	w := &walker{d: json.NewDecoder(bytes.NewReader(b))}
	w.d.UseNumber()
	t := &strategyText{}
	seen := map[string]bool{}
	err := w.object(func(key string) error {
		if seen[key] {
			return w.bad("`%s` occurs twice", key)
		}
		switch key {
		case "parallel_strategy_item":
			seen[key] = true
			return w.object(func(string) error { return t.operatorJSON(w) })
		case "parallel_layout_item":
			seen[key] = true
			return w.object(func(name string) error {
				if len(t.items) == maxParams {
					return w.bad("the strategy has more than %d parameters", maxParams)
				}
				it := item{name: name, off: w.d.InputOffset()}
				if name == "" {
					return w.bad("a parameter has no name")
				}
				err := it.parseJSON(w)
				t.items = append(t.items, it)
				return ofTensor(err, name)
			})
		}
		return w.skip()
	})
	if err != nil {
		return nil, err
	}
	if _, err := w.d.Token(); !errors.Is(err, io.EOF) {
		return nil, w.bad("something follows the JSON object")
	}
	return t, nil
}

// operatorJSON reads an operator; only the first one's stage counts.
func (t *strategyText) operatorJSON(w *walker) error {
	if t.hasStage {
		return w.skip()
	}
	t.hasStage = true
	return w.object(func(key string) (err error) {
		if key != "stage" {
			return w.skip()
		}
		t.stage, err = w.int()
		return err
	})
}

func (it *item) parseJSON(w *walker) error {
	seen := 0
	once := func(bit int) error {
		if seen&bit != 0 {
			return w.bad("a key of `%s` occurs twice", it.name)
		}
		seen |= bit
		return nil
	}
	return w.object(func(key string) (err error) {
		switch key {
		case "dev_matrix":
			if err = once(1); err == nil {
				it.matrix, err = w.ints(maxAxes)
			}
		case "tensor_map":
			if err = once(2); err == nil {
				it.maps, err = w.maps()
			}
		case "tensor_shape":
			if err = once(4); err == nil {
				it.shape, err = w.ints(maxDims)
			}
		case "param_split_shape":
			if err = once(8); err == nil {
				it.rows, err = w.ints(maxPieces)
			}
		case "indices_offset":
			if err = once(16); err == nil {
				it.offsets, err = w.ints(maxPieces)
			}
		case "field":
			it.field, err = w.int()
		case "opt_weight_shard_step":
			it.step, err = w.int()
		case "opt_weight_shard_size":
			it.size, err = w.int()
		default:
			err = w.skip()
		}
		return err
	})
}

// walker reads JSON token by token.
type walker struct{ d *json.Decoder }

// bad says what is wrong where the decoder stands.
func (w *walker) bad(format string, args ...any) error {
	return bad(w.d.InputOffset(), format, args...)
}

func (w *walker) token() (json.Token, error) {
	t, err := w.d.Token()
	var s *json.SyntaxError
	switch {
	case errors.As(err, &s):
		return nil, bad(s.Offset, "not JSON: %v", s)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, w.bad("the JSON text ends too early")
	case err != nil:
		return nil, w.bad("not JSON: %v", err)
	}
	return t, nil
}

// open reads the token that begins an object or array.
func (w *walker) open(want json.Delim) error {
	t, err := w.token()
	if err != nil {
		return err
	}
	if t != want {
		return w.bad("found `%v`, want `%v`", t, want)
	}
	return nil
}

// object calls f with each key; f reads the value.
func (w *walker) object(f func(key string) error) error {
	if err := w.open('{'); err != nil {
		return err
	}
	for w.d.More() {
		t, err := w.token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return w.bad("found `%v`, want a key", t)
		}
		if err := f(key); err != nil {
			return err
		}
	}
	_, err := w.token()
	return err
}

func (w *walker) int() (int64, error) {
	t, err := w.token()
	if err != nil {
		return 0, err
	}
	return w.asInt(t)
}

func (w *walker) asInt(t json.Token) (int64, error) {
	n, ok := t.(json.Number)
	if !ok {
		return 0, w.bad("found `%v`, want a number", t)
	}
	v, err := n.Int64()
	if err != nil {
		return 0, w.bad("`%s` is not a whole number of 64 bits", clip(n.String()))
	}
	return v, nil
}

// clip shortens what a hostile file may have made long.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// ints reads an array of at most limit numbers.
func (w *walker) ints(limit int) ([]int64, error) {
	if err := w.open('['); err != nil {
		return nil, err
	}
	return w.rest(nil, limit)
}

// rest reads the numbers up to the end of an array that is open.
func (w *walker) rest(out []int64, limit int) ([]int64, error) {
	for w.d.More() {
		if len(out) == limit {
			return nil, w.bad("an array has more than %d numbers", limit)
		}
		v, err := w.int()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := w.token()
	return out, err
}

// maps reads a tensor_map: numbers for the flat form, as MindSpore writes it,
// or an array for each dim.
func (w *walker) maps() ([][]int64, error) {
	if err := w.open('['); err != nil {
		return nil, err
	}
	var nested [][]int64
	for w.d.More() {
		t, err := w.token()
		if err != nil {
			return nil, err
		}
		if t != json.Delim('[') {
			if nested != nil {
				return nil, w.bad("a tensor_map mixes numbers and arrays")
			}
			v, err := w.asInt(t)
			if err != nil {
				return nil, err
			}
			flat, err := w.rest([]int64{v}, maxDims)
			return [][]int64{flat}, err
		}
		if len(nested) == maxDims {
			return nil, w.bad("a tensor_map has more than %d dims", maxDims)
		}
		axes, err := w.rest(nil, maxAxes)
		if err != nil {
			return nil, err
		}
		nested = append(nested, axes)
	}
	if len(nested) == 1 {
		nested = append(nested, nil) // the mark of the nested form of one dim
	}
	_, err := w.token()
	return nested, err
}

// skip passes over a value.
func (w *walker) skip() error {
	for depth := 0; ; {
		t, err := w.token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return w.bad("values are nested over %d deep", maxDepth)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
