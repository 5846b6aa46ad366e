package weightmap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is the number of containers that may stand within each other.
const maxDepth = 64

// ParseWeightMap reads an index in the Hub's or in MindFormers' flat form.
// Errors are *Error. The caller bounds the size of data.
func ParseWeightMap(data []byte) (WeightMap, error) {
	p := parser{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	m, err := p.top()
	var e *Error
	if err != nil && !errors.As(err, &e) {
		err = p.fail("", "the index is not JSON: %v", err)
	}
	return m, err
}

// parser walks the tokens, because a decoded map would hide that a tensor
// stands twice.
type parser struct {
	data  []byte
	dec   *json.Decoder
	depth int
	start int64 // where the last token may begin
}

func (p *parser) fail(name, format string, args ...any) error {
	return &Error{Off: p.start, Name: name, Msg: fmt.Sprintf(format, args...)}
}

func (p *parser) token() (json.Token, error) {
	p.start = p.dec.InputOffset()
	t, err := p.dec.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	switch t {
	case json.Delim('{'), json.Delim('['):
		if p.depth++; p.depth > maxDepth {
			return nil, p.fail("", "the index nests deeper than %d", maxDepth)
		}
	case json.Delim('}'), json.Delim(']'):
		p.depth--
	}
	// The decoder puts U+FFFD where an escape is half a surrogate pair.
	if s, ok := t.(string); ok && strings.ContainsRune(s, utf8.RuneError) {
		if raw := p.data[p.start:p.dec.InputOffset()]; bytes.Contains(raw, []byte(`\u`)) {
			return nil, p.fail("", "the index has a string that is not Unicode text")
		}
	}
	return t, err
}

// object gives f each key of an object whose brace was read, and refuses a key
// that comes twice.
func (p *parser) object(f func(key string) error) error {
	seen := map[string]bool{}
	for p.dec.More() {
		t, err := p.token()
		if err != nil {
			return err
		}
		key := t.(string) // the decoder lets no other key pass
		if seen[key] {
			return p.fail(key, "the index has the key %q twice", key)
		}
		seen[key] = true
		if err := f(key); err != nil {
			return err
		}
	}
	_, err := p.token()
	return err
}

func (p *parser) top() (WeightMap, error) {
	none := WeightMap{TotalSize: -1}
	if !utf8.Valid(p.data) {
		return none, p.fail("", "the index is not UTF-8")
	}
	t, err := p.token()
	if err != nil {
		return none, err
	}
	if t != json.Delim('{') {
		return none, p.fail("", "the index is not a JSON object")
	}
	m, flat := none, []Weight(nil)
	hub, others := false, ""
	err = p.object(func(key string) error {
		t, err := p.token()
		switch v := t.(type) {
		case nil:
			if err != nil {
				return err
			}
		case string:
			flat = append(flat, Weight{Name: key, File: v})
			return nil
		case json.Delim:
			if v == '{' && key == "weight_map" {
				hub = true
				m.Weights, err = p.weights()
				return err
			}
			if v == '{' && key == "metadata" {
				return p.metadata(&m)
			}
			if key != "metadata" {
				others = key
			}
			return p.skip()
		}
		if key != "metadata" {
			others = key
		}
		return nil
	})
	if err != nil {
		return none, err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		p.start = p.dec.InputOffset()
		return none, p.fail("", "the index goes on after its end")
	}
	p.start = 0
	if hub {
		return m, nil
	}
	if others != "" || len(flat) == 0 {
		return none, p.fail(others, "the index has no `weight_map`, and is no map from tensors to files")
	}
	for _, w := range flat {
		if err := CheckFile(w.File); err != nil {
			return none, p.fail(w.Name, "tensor %q: %v", w.Name, err)
		}
	}
	m.Weights = flat
	return m, nil
}

func (p *parser) weights() ([]Weight, error) {
	var list []Weight
	err := p.object(func(name string) error {
		t, err := p.token()
		if err != nil {
			return err
		}
		file, ok := t.(string)
		if !ok {
			return p.fail(name, "tensor %q: the index has no file name for it", name)
		}
		if err := CheckFile(file); err != nil {
			return p.fail(name, "tensor %q: %v", name, err)
		}
		list = append(list, Weight{Name: name, File: file})
		return nil
	})
	return list, err
}

// metadata keeps the text of each value; total_size is the one that is read.
func (p *parser) metadata(m *WeightMap) error {
	return p.object(func(key string) error {
		begin := p.dec.InputOffset()
		t, err := p.token()
		if _, container := t.(json.Delim); container && err == nil {
			err = p.skip()
		}
		if err != nil {
			return err
		}
		raw := strings.TrimLeft(string(p.data[begin:p.dec.InputOffset()]), ": \t\r\n")
		if n, err := strconv.ParseInt(raw, 10, 64); key == "total_size" && err == nil && n >= 0 {
			m.TotalSize = n
			return nil
		}
		m.Metadata = append(m.Metadata, KV{Key: key, Value: raw})
		return nil
	})
}

// skip drops the rest of a container whose opening was read.
func (p *parser) skip() error {
	for outer := p.depth - 1; p.depth > outer; {
		if _, err := p.token(); err != nil {
			return err
		}
	}
	return nil
}
