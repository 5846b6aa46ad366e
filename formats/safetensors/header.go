package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/jsontext"
)

const (
	lenSize     = 8
	maxHeader   = 100_000_000 // the bound of the reference, checked before anything is allocated
	metadataKey = "__metadata__"
)

// order is the order of the element types in the reference, from the least
// aligned to the most; files are written from the last to the first.
var order = [...]dtype.Type{
	dtype.Bool, dtype.F4E2M1, dtype.F6E2M3, dtype.F6E3M2, dtype.U8, dtype.I8, dtype.F8E5M2, dtype.F8E4M3, dtype.F8E8M0,
	dtype.F8E4M3FNUZ, dtype.F8E5M2FNUZ, dtype.I16, dtype.U16, dtype.F16, dtype.BF16, dtype.I32, dtype.U32, dtype.F32,
	dtype.C64, dtype.F64, dtype.I64, dtype.U64,
}

// record is one tensor of a header.
type record struct {
	name       string
	at         int // of its name in the header
	dtype      dtype.Type
	dims       [2]int // which of header.dims
	begin, end uint64 // in the data
}

// header is a parsed header.
type header struct {
	records  []record // by (begin, end, name)
	dims     []uint64
	metadata []checkpoint.KV
	oddities oddities
}

func (h *header) shape(r *record) []uint64 { return h.dims[r.dims[0]:r.dims[1]] }

// parser reads one header. It demands what the reference demands: a header
// goes through serde's flattened map there, hence the odder forms that pass.
type parser struct {
	*jsontext.Reader
	header
	strict   bool
	yield    func() error
	byName   map[string]int32 // place of the last record of a name
	twice    bool             // a name has several
	hasMeta  bool
	lastType dtype.Type // of the name lastName: neighbours mostly share it
	lastName string
}

// parse reads the text of a header. Errors are *checkpoint.FormatError with
// offsets in the file.
func parse(text []byte, strict bool, yield func() error) (*header, error) {
	if at := invalidUTF8(text); at >= 0 {
		return nil, bad(lenSize+int64(at), "", "header is not UTF-8")
	}
	p := &parser{Reader: jsontext.NewReader(text), strict: strict, yield: yield}
	n := min(bytes.Count(text, []byte(`"data_offsets"`)), len(text)/len(`"":{"dtype":"U8","shape":[],"data_offsets":[0,0]}`))
	p.records = make([]record, 0, n)
	p.dims = make([]uint64, 0, 2*n)
	p.byName = make(map[string]int32, n)
	if err := p.top(text); err != nil {
		var je *jsontext.Error
		if errors.As(err, &je) {
			return nil, bad(lenSize+int64(je.Off), "", "header %s", je.Msg)
		}
		return nil, err
	}
	p.dropTwins()
	slices.SortFunc(p.records, func(a, b record) int {
		if c := cmp.Compare(a.begin, b.begin); c != 0 {
			return c
		}
		if c := cmp.Compare(a.end, b.end); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return &p.header, nil
}

func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	at := 0
	for at < len(text) {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

func (p *parser) top(text []byte) error {
	p.Space()
	if p.Pos() > 0 && p.Pos() < len(text) && text[p.Pos()] == '{' {
		if err := p.odd(leadingSpace, 0); err != nil {
			return err
		}
	}
	err := p.BeginObject()
	for n := 1; err == nil && p.More('}', &err); n++ {
		if n%64 == 0 {
			if err = p.yield(); err != nil {
				break
			}
		}
		p.Space()
		at := p.Pos()
		var key []byte
		if key, err = p.Key(); err != nil {
			break
		}
		if string(key) == metadataKey {
			err = p.readMetadata(at)
		} else {
			err = p.tensor(string(key), at)
		}
	}
	if err != nil {
		return err
	}
	pad := text[p.Pos():]
	if err := p.End(); err != nil {
		return err
	}
	if i := bytes.IndexAny(pad, "\t\n\r"); i >= 0 {
		return p.odd(otherPadding, len(text)-len(pad)+i)
	}
	return nil
}

// readMetadata reads the value of the metadata's key: null, or strings by key.
func (p *parser) readMetadata(at int) error {
	if p.hasMeta {
		return p.Fail(at, "has `%s` twice", metadataKey)
	}
	p.hasMeta = true
	if p.Peek() == jsontext.Null {
		if err := p.odd(nullMetadata, at); err != nil {
			return err
		}
		return p.Null()
	}
	seen := map[string]int{}
	err := p.BeginObject()
	for n := 1; err == nil && p.More('}', &err); n++ {
		if n%64 == 0 {
			if err = p.yield(); err != nil {
				break
			}
		}
		p.Space()
		at := p.Pos()
		var key, value []byte
		if key, err = p.Key(); err != nil {
			break
		}
		k := string(key)
		if p.Peek() != jsontext.String {
			return p.Want("a string as the value of the metadata " + quote(k))
		}
		if value, err = p.Str(); err != nil {
			break
		}
		if i, twice := seen[k]; twice {
			if err = p.oddities.note(doubleKey, lenSize+int64(at), "", k, p.strict); err != nil {
				break
			}
			p.metadata[i].Value = string(value)
			continue
		}
		seen[k] = len(p.metadata)
		p.metadata = append(p.metadata, checkpoint.KV{Key: k, Value: string(value)})
	}
	return err
}

// marshal makes the header of tensors in the order they are to have in the
// file, padded with spaces to a multiple of 8. metadata is sorted by key.
func marshal(tensors []placed, metadata []checkpoint.KV, yield func() error) ([]byte, error) {
	size := 16
	for _, m := range metadata {
		size += len(m.Key) + len(m.Value) + 8
	}
	for i := range tensors {
		size += len(tensors[i].name) + 96
	}
	b := make([]byte, lenSize, lenSize+min(size, maxHeader))
	b = append(b, '{')
	for i, m := range metadata {
		if i == 0 {
			b = append(b, `"`+metadataKey+`":{`...)
		} else {
			b = append(b, ',')
		}
		b = jsontext.AppendString(b, m.Key)
		b = append(b, ':')
		b = jsontext.AppendString(b, m.Value)
	}
	if len(metadata) > 0 {
		b = append(b, '}')
	}
	for i := range tensors {
		if i%64 == 63 {
			if err := yield(); err != nil {
				return nil, err
			}
		}
		if i > 0 || len(metadata) > 0 {
			b = append(b, ',')
		}
		b = tensors[i].appendJSON(b)
		if len(b) > lenSize+maxHeader {
			return nil, errTooLarge
		}
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if len(b) > lenSize+maxHeader {
		return nil, errTooLarge
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-lenSize))
	return b, nil
}

// placed is a tensor with its place in the data.
type placed struct {
	name       string
	dtype      dtype.Type
	shape      []uint64
	begin, end int64
	index      int // in Output.Tensors
}

func (t *placed) appendJSON(b []byte) []byte {
	b = jsontext.AppendString(b, t.name)
	b = append(b, `:{"dtype":"`...)
	b = append(b, stored(t.dtype).Safetensors()...)
	b = append(b, `","shape":[`...)
	for i, d := range t.shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, d, 10)
	}
	b = append(b, `],"data_offsets":[`...)
	b = strconv.AppendInt(b, t.begin, 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, t.end, 10)
	return append(b, "]}"...)
}
