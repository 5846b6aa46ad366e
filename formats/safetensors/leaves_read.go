package safetensors

import (
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/formats/jsontext"
)

// restoreLeaves takes the value of leavesKey out of the metadata of x and
// gives x its leaves, paths and order back. A value that is not well formed
// stays in the metadata.
func (h *header) restoreLeaves(x *checkpoint.Index, strict bool, yield func() error) error {
	at := slices.IndexFunc(x.Metadata, func(m checkpoint.KV) bool { return m.Key == leavesKey })
	if at < 0 {
		return nil
	}
	r := leavesReader{Reader: jsontext.NewReader([]byte(x.Metadata[at].Value)), yield: yield}
	err := r.top()
	if err == nil && r.order != nil && len(r.order) != len(x.Entries) {
		r.order = nil // tensors were added or removed since
	}
	if err != nil {
		var je *jsontext.Error
		if !errors.As(err, &je) {
			return err
		}
		what := "at byte " + strconv.Itoa(je.Off) + " it " + je.Msg
		return h.oddities.note(badLeaves, 0, "", what, strict)
	}
	x.Metadata = slices.Delete(x.Metadata, at, at+1)
	x.Leaves = r.leaves
	last := -1
	for i := range x.Leaves {
		last = max(last, x.Leaves[i].Seq)
	}
	for i := range x.Entries {
		e := &x.Entries[i]
		if p, ok := r.paths[e.Name]; ok {
			e.Path = p
		}
		if r.order != nil {
			e.Seq = r.order[i]
		} else {
			e.Seq = last + 1 + i
		}
	}
	return nil
}

// leavesReader reads the value of leavesKey. What version 1 does not know is
// an error: it would be lost.
type leavesReader struct {
	*jsontext.Reader
	yield  func() error
	leaves []checkpoint.Leaf
	paths  map[string]checkpoint.Path
	order  []int
	parts  int
	seen   int
}

// object reads an object, each key of which is given to f once.
func (r *leavesReader) object(f func(key string) error) error {
	err := r.BeginObject()
	for err == nil && r.More('}', &err) {
		var key []byte
		if key, err = r.Key(); err == nil {
			err = f(string(key))
		}
	}
	return err
}

func (r *leavesReader) array(f func() error) error {
	err := r.BeginArray()
	for err == nil && r.More(']', &err) {
		err = f()
	}
	return err
}

// tick counts items, and yields where it should.
func (r *leavesReader) tick() error {
	if r.seen++; r.seen%64 == 0 {
		return r.yield()
	}
	return nil
}

// once makes sure that a field comes once.
func (r *leavesReader) once(has *int, field int) error {
	if *has&field != 0 {
		return r.Fail(r.Pos(), "has the same field twice")
	}
	*has |= field
	return nil
}

func (r *leavesReader) top() error {
	has := 0
	err := r.object(func(key string) error {
		switch key {
		case "version":
			if v, err := r.Uint(); err != nil || v != leavesVersion {
				return r.Fail(r.Pos(), "is not of version %d", leavesVersion)
			}
			return r.once(&has, 1)
		case "leaves":
			if err := r.once(&has, 2); err != nil {
				return err
			}
			return r.array(r.leaf)
		case "paths":
			if err := r.once(&has, 4); err != nil {
				return err
			}
			r.paths = map[string]checkpoint.Path{}
			return r.object(func(name string) error {
				if _, twice := r.paths[name]; twice {
					return r.Fail(r.Pos(), "has the tensor %s twice", quote(name))
				}
				p, err := r.path()
				if err != nil {
					return err
				}
				r.paths[name] = p
				return r.tick()
			})
		case "order":
			if err := r.once(&has, 8); err != nil {
				return err
			}
			r.order = []int{}
			return r.array(func() error {
				seq, err := r.count()
				if err != nil {
					return err
				}
				r.order = append(r.order, seq)
				return r.tick()
			})
		}
		return r.Fail(r.Pos(), "has the unknown field %s", quote(key))
	})
	if err == nil && has&1 == 0 {
		err = r.Fail(0, "has no version")
	}
	if err == nil {
		err = r.End()
	}
	return err
}

func (r *leavesReader) leaf() error {
	if len(r.leaves) == maxLeaves {
		return r.Fail(r.Pos(), "has more than %d leaves", maxLeaves)
	}
	var l checkpoint.Leaf
	has := 0
	err := r.object(func(key string) (err error) {
		field := 0
		switch key {
		case "path":
			field = 1
			l.Path, err = r.path()
		case "type":
			field = 2
			l.Type, err = r.string()
		case "value":
			field = 4
			l.Value, err = r.value()
		case "seq":
			field = 8
			l.Seq, err = r.count()
		default:
			return r.Fail(r.Pos(), "has a leaf with the unknown field %s", quote(key))
		}
		if err != nil {
			return err
		}
		return r.once(&has, field)
	})
	if err != nil {
		return err
	}
	if has != 15 {
		return r.Fail(r.Pos(), "has a leaf without path, type, value or seq")
	}
	r.leaves = append(r.leaves, l)
	return r.tick()
}

func (r *leavesReader) path() (checkpoint.Path, error) {
	path := checkpoint.Path{}
	err := r.array(func() error {
		if r.parts++; r.parts > maxParts || len(path) == maxDepth {
			return r.Fail(r.Pos(), "has paths that are too long")
		}
		p, err := r.part()
		path = append(path, p)
		return err
	})
	return path, err
}

func (r *leavesReader) part() (p checkpoint.Part, err error) {
	switch r.Peek() {
	case jsontext.Number:
		p.Kind = checkpoint.IndexPart
		p.Index, err = r.integer()
		return p, err
	case jsontext.String:
		var s []byte
		s, err = r.Str()
		p.Text = string(s)
		return p, err
	}
	err = r.tagged(func(tag string) (err error) {
		if tag == "raw" {
			p.Text, err = r.base64()
			return err
		}
		kind := slices.Index(partKeys[:], tag)
		if tag == "" || kind < 0 {
			return r.Fail(r.Pos(), "has a part of a path of the unknown kind %s", quote(tag))
		}
		p.Kind = checkpoint.PartKind(kind)
		p.Text, err = r.string()
		return err
	})
	return p, err
}

// tagged reads an object of one key.
func (r *leavesReader) tagged(f func(tag string) error) error {
	n := 0
	begin := r.Pos()
	err := r.object(func(tag string) error {
		if n++; n > 1 {
			return r.Fail(begin, "has an object of more than one key")
		}
		return f(tag)
	})
	if err == nil && n == 0 {
		err = r.Fail(begin, "has an empty object")
	}
	return err
}

func (r *leavesReader) value() (v checkpoint.Value, err error) {
	switch r.Peek() {
	case jsontext.Null:
		return v, r.Null()
	case jsontext.Bool:
		v.Kind = checkpoint.Boolean
		v.Bool, err = r.Boolean()
		return v, err
	case jsontext.String:
		v.Kind = checkpoint.Text
		var s []byte
		s, err = r.Str()
		v.Text = string(s)
		return v, err
	case jsontext.Number:
		return r.number()
	}
	err = r.tagged(func(tag string) (err error) {
		switch tag {
		case "raw":
			v.Kind = checkpoint.Text
			v.Text, err = r.base64()
		case "bytes":
			v.Kind = checkpoint.Bytes
			v.Text, err = r.base64()
		case "len":
			v.Kind = checkpoint.Sized
			v.Len, err = r.count()
		case "opaque":
			v.Kind = checkpoint.Opaque
			v.Text, err = r.string()
		case "int":
			v.Kind = checkpoint.Integer
			v.Big, err = r.big()
		case "float":
			v.Kind = checkpoint.Float
			v.Float, err = r.special()
		default:
			err = r.Fail(r.Pos(), "has a value of the unknown kind %s", quote(tag))
		}
		return err
	})
	return v, err
}

// number reads a number: one with a point or an exponent is a float.
func (r *leavesReader) number() (v checkpoint.Value, err error) {
	at := r.Pos()
	text, err := r.Num()
	if err != nil {
		return v, err
	}
	if strings.ContainsAny(string(text), ".eE") {
		v.Kind = checkpoint.Float
		v.Float, err = strconv.ParseFloat(string(text), 64)
	} else {
		v.Kind = checkpoint.Integer
		v.Int, err = strconv.ParseInt(string(text), 10, 64)
	}
	if err != nil {
		return v, r.Fail(at, "has a number of more than 64 bits")
	}
	return v, nil
}

func (r *leavesReader) integer() (int64, error) {
	at := r.Pos()
	v, err := r.number()
	if err == nil && v.Kind != checkpoint.Integer {
		err = r.Fail(at, "has a fraction for an index")
	}
	return v.Int, err
}

// count reads a number of things.
func (r *leavesReader) count() (int, error) {
	at := r.Pos()
	n, err := r.Uint()
	if err == nil && n > math.MaxInt32 {
		err = r.Fail(at, "has a count of more than %d", math.MaxInt32)
	}
	return int(n), err
}

// string reads text as appendText writes it.
func (r *leavesReader) string() (s string, err error) {
	if r.Peek() == jsontext.Object {
		err = r.tagged(func(tag string) (err error) {
			if tag != "raw" {
				return r.Fail(r.Pos(), "has text of the unknown kind %s", quote(tag))
			}
			s, err = r.base64()
			return err
		})
		return s, err
	}
	b, err := r.Str()
	return string(b), err
}

func (r *leavesReader) base64() (string, error) {
	at := r.Pos()
	b, err := r.Str()
	if err != nil {
		return "", err
	}
	raw, err := base64.StdEncoding.Strict().AppendDecode(nil, b)
	if err != nil {
		return "", r.Fail(at, "has bytes that are not base64")
	}
	return string(raw), nil
}

// big reads the decimal digits of an integer that int64 cannot hold.
func (r *leavesReader) big() (string, error) {
	at := r.Pos()
	b, err := r.Str()
	if err != nil {
		return "", err
	}
	digits := strings.TrimPrefix(string(b), "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return "", r.Fail(at, "has an integer that is not decimal digits")
	}
	return string(b), nil
}

// special reads a float that JSON has no number for.
func (r *leavesReader) special() (float64, error) {
	at := r.Pos()
	b, err := r.Str()
	if err != nil {
		return 0, err
	}
	switch s := string(b); s {
	case "inf":
		return math.Inf(1), nil
	case "-inf":
		return math.Inf(-1), nil
	case "nan":
		return math.Float64frombits(quietNaN), nil
	default:
		digits, ok := strings.CutPrefix(s, "nan:")
		n, err := strconv.ParseUint(digits, 16, 64)
		if f := math.Float64frombits(n); ok && err == nil && f != f {
			return f, nil
		}
		return 0, r.Fail(at, "has a float that is neither a number, `inf`, `-inf` nor `nan`")
	}
}
