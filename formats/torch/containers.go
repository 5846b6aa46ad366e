package torch

import (
	"bytes"
	"encoding/binary"

	"github.com/seed-e934e81e/convert/core/checkpoint"
)

// kind is what a file begins like.
type kind uint8

const (
	unknownFile kind = iota
	emptyFile
	zipFile
	legacyFile  // the stream of torch 0.1.7 to 1.5
	tarFile     // torch 0.1.6 and before
	previewFile // a container of 2018 that no release wrote
	pickleFile
	pointerFile // Git LFS
)

const localSig = "PK\x03\x04"

// The magic number of the legacy stream, as LONG1 and as text.
var (
	legacyMagic     = []byte("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")
	legacyMagicText = []byte("L119547037146038801333356L")
)

func container(head []byte) kind {
	switch {
	case len(head) == 0:
		return emptyFile
	case bytes.HasPrefix(head, []byte(localSig)):
		return zipFile
	case bytes.Contains(head[:min(len(head), 32)], legacyMagic), bytes.HasPrefix(head, legacyMagicText):
		return legacyFile
	case bytes.HasPrefix(head, []byte("PYTORCH1")):
		return previewFile
	case isTar(head):
		return tarFile
	case bytes.HasPrefix(head, []byte("version https://git-lfs")):
		return pointerFile
	case len(head) > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		return pickleFile
	}
	return unknownFile
}

// isTar tells whether a tar file begins with a member of torch's.
func isTar(head []byte) bool {
	if len(head) < 512 || string(head[257:262]) != "ustar" {
		return false
	}
	member, _, _ := bytes.Cut(head[:100], []byte{0})
	switch string(bytes.TrimPrefix(member, []byte("./"))) {
	case "sys_info", "pickle", "tensors", "storages", "":
		return true
	}
	return false
}

// firstRecord is the name in the local header at the beginning of head.
func firstRecord(head []byte) []byte {
	if len(head) < localSize {
		return nil
	}
	n := int(binary.LittleEndian.Uint16(head[26:]))
	if n > len(head)-localSize {
		return nil
	}
	return head[localSize : localSize+n]
}

// hasRecord tells whether the part of a directory in tail names a record that
// ends in suffix.
func hasRecord(tail []byte, suffix string) bool {
	for {
		i := bytes.Index(tail, []byte(centralSig))
		if i < 0 || len(tail)-i < centralSize {
			return false
		}
		tail = tail[i:]
		n := int(binary.LittleEndian.Uint16(tail[28:]))
		if n <= len(tail)-centralSize && bytes.HasSuffix(tail[centralSize:centralSize+n], []byte(suffix)) {
			return true
		}
		tail = tail[4:]
	}
}

// refuse says by name what a file is that is no zip archive.
func refuse(head []byte) error {
	const again = "if you trust it, write it anew in torch: torch.save(torch.load(f), g); loading a pickle runs what it says"
	e := &checkpoint.FormatError{Format: name, Other: true}
	switch container(head) {
	case emptyFile:
		e.Msg, e.Hint, e.Other = "the file is empty", "copy it again", false
	case legacyFile:
		e.Msg, e.Hint = "the legacy stream of torch.save (torch 0.1.7 to 1.5) is not supported yet", again
	case tarFile:
		e.Msg, e.Hint = "the tar container of torch.save (torch 0.1.6 and before) is not supported yet", again
	case previewFile:
		e.Msg, e.Hint = "the container `PYTORCH1` of 2018 was never released and is not supported", again
	case pickleFile:
		e.Msg, e.Hint = "a plain pickle, not written by torch.save", "its own program knows how to read it; loading a pickle runs what it says"
	case pointerFile:
		e.Msg, e.Hint = "a Git LFS pointer, not the file that it points to", "`git lfs pull` fetches the file"
	default:
		e.Other = false
		e.Msg = "begins like no zip archive: want `PK\\x03\\x04`"
		e.Hint = "torch.load refuses bytes before the archive, too"
	}
	return e
}
