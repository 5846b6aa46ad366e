package safetensors

import (
	"encoding/binary"

	"github.com/seed-e934e81e/convert/core/checkpoint"
)

const formatName = "safetensors"

// Format is the safetensors format.
type Format struct{}

// Describe implements checkpoint.Format. Leaves and nested paths live in the
// metadata.
func (Format) Describe() checkpoint.Description {
	return checkpoint.Description{
		Name:       formatName,
		Title:      "safetensors",
		Extensions: []string{".safetensors"},
		Read:       true,
		Write:      true,
		Covers:     "all element types of safetensors, MindSpore's 4-bit integers, metadata, leaves in the metadata",
		Metadata:   true,
		Leaves:     true,
		Nested:     true,
	}
}

// Probe implements checkpoint.Format. A plausible length before a JSON object
// says it; where the file is shorter than the header claims to be, the bytes
// merely allow it.
func (Format) Probe(s checkpoint.Sample) checkpoint.Match {
	if len(s.Head) <= lenSize {
		return checkpoint.No
	}
	n := binary.LittleEndian.Uint64(s.Head)
	if n < 2 || n > maxHeader {
		return checkpoint.No
	}
	text := s.Head[lenSize:]
	text = text[:min(uint64(len(text)), n)]
	i := skipSpace(text, 0)
	if i == len(text) {
		// Whitespace as far as the sample goes.
		if n > uint64(len(text)) && s.Size-lenSize >= int64(n) {
			return checkpoint.Maybe
		}
		return checkpoint.No
	}
	if text[i] != '{' {
		return checkpoint.No
	}
	j := skipSpace(text, i+1)
	if j < len(text) && text[j] != '"' && text[j] != '}' {
		return checkpoint.No
	}
	if s.Size-lenSize < int64(n) {
		return checkpoint.Maybe
	}
	return checkpoint.Yes
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

var _ checkpoint.Format = Format{}
