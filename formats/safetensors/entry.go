package safetensors

import (
	"errors"
	"strings"

	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/jsontext"
)

// tensor reads the value of a tensor's name. Of two tensors with one name the
// last counts, but both must be well formed.
func (p *parser) tensor(name string, at int) error {
	r := record{name: name, at: at}
	var err error
	switch p.Peek() {
	case jsontext.Object:
		err = p.fields(&r)
	case jsontext.Array:
		err = p.positional(&r)
	default:
		err = p.Want("an object with `dtype`, `shape` and `data_offsets`")
	}
	if err != nil {
		var je *jsontext.Error
		if errors.As(err, &je) {
			return bad(lenSize+int64(je.Off), name, "the entry of tensor %s %s", quote(name), je.Msg)
		}
		return err
	}
	if name == "" {
		if err := p.oddTensor(emptyName, at, name); err != nil {
			return err
		}
	}
	if hasControl(name) {
		if err := p.oddTensor(controlName, at, name); err != nil {
			return err
		}
	}
	known := len(p.byName)
	p.byName[name] = int32(len(p.records))
	p.records = append(p.records, r)
	if len(p.byName) == known {
		p.twice = true
		return p.oddTensor(doubleName, at, name)
	}
	return nil
}

// dropTwins keeps the last record of each name.
func (p *parser) dropTwins() {
	if !p.twice {
		return
	}
	last := p.records[:0]
	for i, r := range p.records {
		if p.byName[r.name] == int32(i) {
			last = append(last, r)
		}
	}
	p.records = last
}

func hasControl(name string) bool {
	for i := range len(name) {
		if name[i] < ' ' || name[i] == 0x7f {
			return true
		}
	}
	return false
}

const (
	hasDType = 1 << iota
	hasShape
	hasOffsets
	hasAll = hasDType | hasShape | hasOffsets
)

func (p *parser) fields(r *record) error {
	begin, has := p.Pos(), 0
	err := p.BeginObject()
	for err == nil && p.More('}', &err) {
		p.Space()
		at := p.Pos()
		var key []byte
		if key, err = p.Key(); err != nil {
			break
		}
		this := 0
		switch string(key) {
		case "dtype":
			this, err = hasDType, p.readDType(r)
		case "shape":
			this, err = hasShape, p.readShape(r)
		case "data_offsets":
			this, err = hasOffsets, p.readOffsets(r)
		default:
			if err = p.oddTensor(extraField, at, r.name); err == nil {
				err = p.Skip()
			}
		}
		if err == nil && has&this != 0 {
			err = p.Fail(at, "has the same field twice")
		}
		has |= this
	}
	if err == nil && has != hasAll {
		err = p.Fail(begin, "has no `%s`", missing(has))
	}
	return err
}

func missing(has int) string {
	switch {
	case has&hasDType == 0:
		return "dtype"
	case has&hasShape == 0:
		return "shape"
	}
	return "data_offsets"
}

// positional reads an entry that is a list of dtype, shape and offsets, which
// serde takes for the object.
func (p *parser) positional(r *record) error {
	begin := p.Pos()
	if err := p.oddTensor(listEntry, begin, r.name); err != nil {
		return err
	}
	err := p.BeginArray()
	n := 0
	for ; err == nil && p.More(']', &err); n++ {
		switch n {
		case 0:
			err = p.readDType(r)
		case 1:
			err = p.readShape(r)
		case 2:
			err = p.readOffsets(r)
		default:
			err = p.Skip()
		}
	}
	if err == nil && n != 3 {
		err = p.Fail(begin, "is a list of %d, not of dtype, shape and data_offsets", n)
	}
	return err
}

// readDType reads a type's name, or {"F32":null}, serde's other form of it.
func (p *parser) readDType(r *record) error {
	begin := p.Pos()
	if p.Peek() == jsontext.String {
		name, err := p.Str()
		if err != nil {
			return err
		}
		return p.setType(r, begin, name)
	}
	if p.Peek() != jsontext.Object {
		return p.Want("a `dtype` that is a string")
	}
	if err := p.oddTensor(objectType, begin, r.name); err != nil {
		return err
	}
	err := p.BeginObject()
	n := 0
	for ; err == nil && p.More('}', &err); n++ {
		var name []byte
		if name, err = p.Key(); err != nil {
			break
		}
		if err = p.setType(r, begin, name); err == nil {
			err = p.Null()
		}
	}
	if err == nil && n != 1 {
		err = p.Fail(begin, "has a `dtype` that is an object of %d keys", n)
	}
	return err
}

func (p *parser) setType(r *record, at int, name []byte) error {
	if string(name) != p.lastName || p.lastName == "" {
		t, ok := dtype.FromSafetensors(string(name))
		if !ok {
			return p.Fail(at, "has the unknown element type %s, known are %s", quote(string(name)), typeNames())
		}
		p.lastName, p.lastType = string(name), t
	}
	r.dtype = p.lastType
	return nil
}

func typeNames() string {
	names := make([]string, len(order))
	for i, t := range order {
		names[i] = t.Safetensors()
	}
	return strings.Join(names, " ")
}

func (p *parser) readShape(r *record) error {
	r.dims[0] = len(p.dims)
	if p.Peek() != jsontext.Array {
		return p.Want("a `shape` that is a list")
	}
	err := p.BeginArray()
	for err == nil && p.More(']', &err) {
		var d uint64
		if d, err = p.Uint(); err == nil {
			p.dims = append(p.dims, d)
		}
	}
	r.dims[1] = len(p.dims)
	return err
}

func (p *parser) readOffsets(r *record) error {
	if p.Peek() != jsontext.Array {
		return p.Want("`data_offsets` that are a list")
	}
	begin := p.Pos()
	err := p.BeginArray()
	n := 0
	for ; err == nil && p.More(']', &err); n++ {
		var v uint64
		if v, err = p.Uint(); err != nil {
			break
		}
		switch n {
		case 0:
			r.begin = v
		case 1:
			r.end = v
		}
	}
	if err == nil && n != 2 {
		err = p.Fail(begin, "has `data_offsets` of %d numbers, not of 2", n)
	}
	return err
}
