package safetensors

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
)

// oddity is something that the reference reader lets pass and that a careful
// writer does not produce.
type oddity uint8

const (
	leadingSpace oddity = iota
	otherPadding
	oddLength
	nullMetadata
	doubleKey
	doubleName
	extraField
	listEntry
	objectType
	emptyName
	controlName
	misaligned
	hugeDim
	badLeaves
	oddityCount
)

// describe says what was found, and of what.
func (o oddity) describe(what string) string {
	switch o {
	case leadingSpace:
		return "the header begins with whitespace, not with `{`"
	case otherPadding:
		return "the header is padded with whitespace other than spaces"
	case oddLength:
		return "the length of the header is not a multiple of 8"
	case nullMetadata:
		return "`" + metadataKey + "` is null"
	case doubleKey:
		return "the metadata has the key " + quote(what) + " twice, the last value counts"
	case doubleName:
		return "the header has the tensor " + quote(what) + " twice, the last entry counts"
	case extraField:
		return "the entry of tensor " + quote(what) + " has a field other than dtype, shape and data_offsets"
	case listEntry:
		return "the entry of tensor " + quote(what) + " is a list, not an object"
	case objectType:
		return "the dtype of tensor " + quote(what) + " is an object, not a string"
	case emptyName:
		return "a tensor has the empty name"
	case controlName:
		return "the name of tensor " + quote(what) + " has control characters"
	case misaligned:
		return "tensor " + quote(what) + " does not begin at a multiple of its element's size in the data"
	case hugeDim:
		return "tensor " + quote(what) + " is empty and has dims that are too large to count, they are shown smaller"
	case badLeaves:
		return "the metadata `" + leavesKey + "` is not what this program writes and is left alone: " + what
	}
	return "odd"
}

// oddities counts what was let pass. A file can have one kind many thousand
// times, so only the first of a kind is kept.
type oddities [oddityCount]struct {
	count  int
	off    int64 // in the file
	tensor string
	text   string
}

// note adds one at an offset in the file, and returns an error where the
// caller is strict. tensor may be empty.
func (o *oddities) note(kind oddity, off int64, tensor, what string, strict bool) error {
	if strict {
		return bad(off, tensor, "%s", kind.describe(what))
	}
	n := &o[kind]
	if n.count++; n.count == 1 {
		n.off, n.tensor, n.text = off, tensor, kind.describe(what)
	}
	return nil
}

// warnings gives what was noted, one warning for each kind.
func (o *oddities) warnings() diag.List {
	var list diag.List
	for i := range o {
		n := &o[i]
		if n.count == 0 {
			continue
		}
		text := n.text
		if n.count > 1 {
			text += fmt.Sprintf(" (and %d more like it)", n.count-1)
		}
		list = append(list, diag.Warnf("%s", text).AtByte(n.off).OfTensor(n.tensor))
	}
	return list
}

// odd notes an oddity of the header, at an offset in it.
func (p *parser) odd(kind oddity, at int) error {
	return p.oddities.note(kind, lenSize+int64(at), "", "", p.strict)
}

// oddTensor notes an oddity of a tensor, at an offset in the header.
func (p *parser) oddTensor(kind oddity, at int, tensor string) error {
	return p.oddities.note(kind, lenSize+int64(at), tensor, tensor, p.strict)
}

// bad makes a format error at an offset in the file.
func bad(off int64, tensor, format string, args ...any) *checkpoint.FormatError {
	return &checkpoint.FormatError{Format: formatName, Off: off, Tensor: tensor, Msg: fmt.Sprintf(format, args...)}
}

// quote puts a name of a file into a message: control characters escaped, cut
// where it is long.
func quote(s string) string {
	const most = 100
	cut := ""
	if len(s) > most {
		s, cut = strings.ToValidUTF8(s[:most], ""), "…"
	}
	q := strconv.Quote(s)
	return "`" + strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`) + cut + "`"
}
