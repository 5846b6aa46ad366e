package checkpoint

import (
	"bytes"
	"strconv"
)

// LFSPointerMax is the size that a Git LFS pointer stays below.
const LFSPointerMax = 1024

// LFSPointer is what stands in a repository in place of a large file.
type LFSPointer struct {
	OID  string // "sha256:…"
	Size int64  // of the file itself
}

// ParseLFSPointer recognises a Git LFS pointer: a clone without Git LFS holds
// these few lines where checkpoints should be. head is the begin of a file of
// size bytes.
func ParseLFSPointer(head []byte, size int64) (LFSPointer, bool) {
	var p LFSPointer
	version, rest, _ := bytes.Cut(head, []byte("\n"))
	if size >= LFSPointerMax || int64(len(head)) < size || !bytes.HasPrefix(version, []byte("version https://")) ||
		!bytes.Contains(version, []byte("git-lfs")) && !bytes.Contains(version, []byte("hawser")) {
		return p, false
	}
	for line := range bytes.Lines(rest) {
		key, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(" "))
		switch string(key) {
		case "oid":
			p.OID = string(value)
		case "size":
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil || n < 0 {
				return LFSPointer{}, false
			}
			p.Size = n
		}
	}
	return p, p.OID != ""
}
