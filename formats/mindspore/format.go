package mindspore

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
)

const name = "mindspore"

// kindText is the tensor_type of strings.
const kindText = "str"

// Format is MindSpore's .ckpt.
type Format struct{}

// Describe implements checkpoint.Format.
func (Format) Describe() checkpoint.Description {
	return checkpoint.Description{
		Name:       name,
		Title:      "MindSpore .ckpt",
		Extensions: []string{".ckpt"},
		Read:       true,
		Write:      true,
		Covers:     "tensors of all types but map parameters, strings, slices of large parameters, the crc_num trailer; no encrypted files",
		Leaves:     true,
		Trailer:    true,
	}
}

// Probe implements checkpoint.Format. A file is a checkpoint where its first
// record has a name and a tensor of a type that MindSpore has. Encrypted
// checkpoints are recognised too; Index then says what to do.
func (Format) Probe(s checkpoint.Sample) checkpoint.Match {
	if cipher(s.Head) != "" {
		return checkpoint.Yes
	}
	// The record need not be whole, nor in the sample whole: what was read of
	// it before the first error tells enough.
	r, _ := readRecord(newCursor(bytes.NewReader(s.Head), s.Size))
	switch {
	case !r.hasTag || !isPlain(r.tag):
		return checkpoint.No
	case r.hasMap:
		return checkpoint.Maybe
	case !r.hasTensor || !r.hasKind:
		return checkpoint.No
	case r.kind == kindText:
		return checkpoint.Yes
	}
	if _, ok := dtype.FromMindSpore(r.kind); !ok {
		return checkpoint.No
	}
	return checkpoint.Yes
}

// isPlain reports whether s is not empty and has no control characters.
func isPlain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7F })
}

// cipher names the cipher of an encrypted checkpoint that begins with head, or
// is "". Each block begins with a magic, its length, and the length of its IV,
// which is always 16; AES-GCM has its tag before the lengths.
func cipher(head []byte) string {
	const ivSize = 16
	if len(head) < 4 {
		return ""
	}
	cipher, iv := "", 8
	switch binary.LittleEndian.Uint32(head) {
	case 0x7F3A5ED8:
		cipher, iv = "AES-GCM", 24
	case 0x7F3A5ED9:
		cipher = "AES-CBC"
	case 0x7F3A5EDA:
		cipher = "SM4-CBC"
	}
	if len(head) < iv+4 || binary.LittleEndian.Uint32(head[iv:]) != ivSize {
		return ""
	}
	return cipher
}

var _ checkpoint.Format = Format{}
