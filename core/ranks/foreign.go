package ranks

import (
	"bytes"
	"context"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
)

// foreign is a kind of file that lies where checkpoints are looked for, by its
// first bytes.
type foreign struct{ magic, what, hint string }

var foreigners = []foreign{
	{"\x1f\x8b", "this is compressed with gzip", "uncompress it first: `gunzip`, or `tar xzf` if it is an archive"},
	{"\x28\xb5\x2f\xfd", "this is compressed with zstd", "uncompress it first: `unzstd`"},
	{"\xfd7zXZ\x00", "this is compressed with xz", "uncompress it first: `unxz`, or `tar xJf` if it is an archive"},
	{"BZh", "this is compressed with bzip2", "uncompress it first: `bunzip2`, or `tar xjf` if it is an archive"},
	{"7z\xbc\xaf\x27\x1c", "this is a 7z archive", "unpack it first"},
	{"GGUF", "this is a GGUF file, which is not supported", ""},
	{"\x93NUMPY", "this is a NumPy array, which is not supported", ""},
	{"\x89HDF\r\n\x1a\n", "this is an HDF5 file, which is not supported", ""},
	{"\x89PNG\r\n\x1a\n", "this is a PNG image", ""},
	{"PK\x03\x04", "this is a zip archive without a torch pickle in it", ""},
	{"<!DOCTYPE", "this is a web page, not a checkpoint", "the download was answered with a page; download it again"},
	{"<!doctype", "this is a web page, not a checkpoint", "the download was answered with a page; download it again"},
	{"<html", "this is a web page, not a checkpoint", "the download was answered with a page; download it again"},
}

// unknown says what a file that no format knows looks like.
func (f *finder) unknown(ctx context.Context, s checkpoint.Sample, name string) *diag.Diagnostic {
	d := diag.Errorf(diag.Damaged, "no format knows this file").InFile(name)
	if d.Summary, d.Hint = looksLike(s); d.Summary == "" {
		d.Summary = "no format knows this file"
		if f.isStrategy(ctx, s, name) {
			d.Summary, d.Hint = "this is a strategy file, not a checkpoint", "it tells how a checkpoint is cut: give it as `source.strategy`"
		}
	}
	if d.Hint == "" {
		var known []string
		for _, f := range f.Formats {
			known = append(known, f.Describe().Name)
		}
		d.Hint = "formats are recognised by content: " + strings.Join(known, ", ")
	}
	return d
}

// looksLike names what the first and last bytes show, "" where they show
// nothing.
func looksLike(s checkpoint.Sample) (what, hint string) {
	if s.Size == 0 {
		return "the file is empty", "copy it again"
	}
	if _, ok := checkpoint.ParseLFSPointer(s.Head, s.Size); ok {
		return "this is a Git LFS pointer, not the file itself", "fetch the file: `git lfs pull`"
	}
	for _, x := range foreigners {
		if bytes.HasPrefix(s.Head, []byte(x.magic)) {
			return x.what, x.hint
		}
	}
	switch {
	case len(bytes.Trim(s.Head, "\x00")) == 0:
		return "the file begins with zeros only", "it may be the hole that a broken copy has left; copy it again"
	case s.Head[0] == '\n' && bytes.Contains(s.Head, []byte("\x12\x04type")):
		return "this is a TensorFlow graph, which holds no weights", ""
	case !isText(s.Head, s.Size):
		return "", ""
	case bytes.Contains(s.Head, []byte("p0\n")) && s.Tail[len(s.Tail)-1] == '.':
		return "this is a plain pickle of protocol 0, not written by torch.save", ""
	case bytes.HasPrefix(bytes.TrimSpace(s.Head), []byte("{")) && bytes.Contains(s.Head, []byte(`"weight_map"`)):
		return "this is the index of a checkpoint of several files", "give the folder that holds the index and the files"
	case bytes.HasPrefix(bytes.TrimSpace(s.Head), []byte("{")):
		return "", "" // JSON; it may be a strategy
	}
	return "this is text, not a checkpoint", ""
}

// isText reports whether the first bytes of a file are text. Its end may cut a
// character in two.
func isText(head []byte, size int64) bool {
	if int64(len(head)) < size {
		head = head[:max(len(head)-utf8.UTFMax, 0)]
		for len(head) > 0 && !utf8.RuneStart(head[len(head)-1]) {
			head = head[:len(head)-1]
		}
		head = head[:max(len(head)-1, 0)]
	}
	for _, c := range head {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' && c != '\f' {
			return false
		}
	}
	return utf8.Valid(head)
}

// isStrategy reports whether a file is a strategy file, whole and readable.
func (f *finder) isStrategy(ctx context.Context, s checkpoint.Sample, name string) bool {
	if f.Strategies == nil || s.Size > MaxStrategyBytes>>4 {
		return false
	}
	full := path.Join(f.root, name)
	b, err := f.FS.ReadFile(ctx, full, MaxStrategyBytes>>4)
	if err != nil {
		return false
	}
	_, _, err = f.Strategies([]StrategyFile{{Name: full, Bytes: b}})
	return err == nil
}
