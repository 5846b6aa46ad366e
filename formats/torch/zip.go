package torch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/seed-e934e81e/convert/core/checkpoint"
)

// An archive is  (local header | data | descriptor)* | directory | [end64 | locator] | end.
// Only the directory has the sizes; only the local header says where its data
// begins (specs/formats/torch.md).
const (
	centralSig = "PK\x01\x02"
	endSig     = "PK\x05\x06"
	end64Sig   = "PK\x06\x06"
	locatorSig = "PK\x06\x07"

	localSize   = 30
	centralSize = 46
	endSize     = 22
	end64Size   = 56
	locatorSize = 20

	// tailSize holds the end of an archive and the junk behind it that
	// readers tolerate.
	tailSize = 1<<16 + endSize + end64Size + locatorSize

	maxDirectory = 256 << 20 // some millions of records
	maxInflation = 1032      // deflate cannot do more

	stored   = 0
	deflated = 8

	// Encrypted, patched, strongly encrypted, names masked: miniz refuses them.
	forbiddenFlags = 1<<0 | 1<<5 | 1<<6 | 1<<13
)

// record is one file in the archive.
type record struct {
	name   string
	method uint16
	crc    uint32
	csize  int64 // bytes in the archive
	usize  int64 // bytes, inflated
	header int64 // offset of the local header
	data   int64 // offset of the bytes
}

// archive is the directory of a zip file.
type archive struct {
	recs   []record
	byName map[string]*record
	at     int64 // offset of the directory
}

func bad(off int64, format string, args ...any) *checkpoint.FormatError {
	return &checkpoint.FormatError{Format: name, Off: off, Msg: fmt.Sprintf(format, args...)}
}

// openArchive reads the directory and all local headers: the tail of the file,
// what of the directory lies before it, and one vectored read.
func (r *reader) openArchive(ctx context.Context) (*archive, error) {
	size := r.in.File.Size()
	head := make([]byte, min(size, 512))
	tail := make([]byte, min(size, tailSize))
	tailAt := size - int64(len(tail))
	if err := r.in.File.ReadRanges(ctx, []int64{0, tailAt}, [][]byte{head, tail}); err != nil {
		return nil, fmt.Errorf("read the ends of the file: %w", err)
	}
	if container(head) != zipFile {
		return nil, refuse(head)
	}
	e, err := r.readEnd(ctx, tail, tailAt)
	if err != nil {
		return nil, err
	}
	var dir []byte
	if e.at >= tailAt {
		dir = tail[e.at-tailAt:][:e.size]
	} else {
		dir = make([]byte, e.size)
		if err := r.in.File.ReadRanges(ctx, []int64{e.at}, [][]byte{dir}); err != nil {
			return nil, fmt.Errorf("read the directory: %w", err)
		}
	}
	a := &archive{at: e.at}
	if err := r.readDirectory(a, dir, e); err != nil {
		return nil, err
	}
	if err := r.readHeaders(ctx, a); err != nil {
		return nil, err
	}
	return a, a.checkOverlap()
}

// end is what the end of an archive says of its directory.
type end struct {
	at, size, count int64
}

func (r *reader) readEnd(ctx context.Context, tail []byte, tailAt int64) (end, error) {
	size := r.in.File.Size()
	k := bytes.LastIndex(tail, []byte(endSig))
	if k < 0 || len(tail)-k < endSize {
		err := bad(size, "the archive has no directory at its end: the file is cut short")
		err.Hint = fmt.Sprintf("the file has %d bytes; compare with the original and copy it again", size)
		return end{}, err
	}
	le, b, at := binary.LittleEndian, tail[k:], tailAt+int64(k)
	e := end{count: int64(le.Uint16(b[10:])), size: int64(le.Uint32(b[12:])), at: int64(le.Uint32(b[16:]))}
	disks := le.Uint16(b[4:]) | le.Uint16(b[6:])
	if junk := int64(len(b)) - endSize - int64(le.Uint16(b[20:])); junk > 0 {
		if err := r.odd(at+endSize, "%d bytes follow the archive", junk); err != nil {
			return end{}, err
		}
	}
	limit := at
	if k >= locatorSize && string(tail[k-locatorSize:][:4]) == locatorSig {
		p := tail[k-locatorSize:]
		at64 := le.Uint64(p[8:])
		limit = at - locatorSize
		if at64 > uint64(limit) || limit-int64(at64) < end64Size {
			return end{}, bad(limit, "the zip64 end of the directory is said to be at byte %d", at64)
		}
		limit = int64(at64)
		b := make([]byte, end64Size)
		if limit >= tailAt {
			copy(b, tail[limit-tailAt:])
		} else if err := r.in.File.ReadRanges(ctx, []int64{limit}, [][]byte{b}); err != nil {
			return end{}, fmt.Errorf("read the zip64 end of the directory: %w", err)
		}
		if string(b[:4]) != end64Sig {
			return end{}, bad(limit, "no zip64 end of the directory is here")
		}
		count, dirSize, dirAt := le.Uint64(b[32:]), le.Uint64(b[40:]), le.Uint64(b[48:])
		if count > math.MaxInt64 || dirSize > math.MaxInt64 || dirAt > math.MaxInt64 {
			return end{}, bad(limit, "the directory is said to have %d bytes at %d", dirSize, dirAt)
		}
		e = end{count: int64(count), size: int64(dirSize), at: int64(dirAt)}
		disks = 0
	}
	switch {
	case disks != 0:
		return end{}, bad(at, "the archive is one of several volumes")
	case e.at > limit || e.size > limit-e.at:
		return end{}, bad(at, "the directory of %d bytes at %d does not lie before byte %d", e.size, e.at, limit)
	case e.size > maxDirectory:
		return end{}, bad(at, "a directory of %d bytes is over the limit of %d", e.size, maxDirectory)
	case e.count > e.size/centralSize:
		return end{}, bad(at, "%d records do not fit a directory of %d bytes", e.count, e.size)
	case e.count == 0:
		return end{}, bad(at, "the archive is empty")
	}
	return e, nil
}

func (r *reader) readDirectory(a *archive, dir []byte, e end) error {
	a.recs = make([]record, 0, e.count)
	a.byName = make(map[string]*record, e.count)
	at := e.at
	for i := range e.count {
		if i%64 == 0 {
			r.in.Yield()
		}
		rec, n, err := readCentral(dir, at)
		if err != nil {
			return err
		}
		if rec.header > e.at-localSize || rec.csize > e.at-localSize-rec.header {
			return bad(at, "record `%s` of %d bytes at %d does not lie before the directory", rec.name, rec.csize, rec.header)
		}
		a.recs = append(a.recs, rec)
		at += int64(n)
		dir = dir[n:]
	}
	for i := range a.recs {
		rec := &a.recs[i]
		if first, twice := a.byName[rec.name]; twice {
			if first.crc != rec.crc || first.usize != rec.usize {
				return bad(rec.header, "two records are called `%s` and differ: readers do not agree on which they take", rec.name)
			}
			if err := r.odd(rec.header, "two records are called `%s`", rec.name); err != nil {
				return err
			}
			continue
		}
		a.byName[rec.name] = rec
	}
	if len(dir) > 0 {
		return r.odd(at, "%d bytes of the directory name no record", len(dir))
	}
	return nil
}

// readCentral reads the first entry of a directory and returns its length.
func readCentral(dir []byte, at int64) (record, int, error) {
	if len(dir) < centralSize || string(dir[:4]) != centralSig {
		return record{}, 0, bad(at, "an entry of the directory is wanted here")
	}
	le := binary.LittleEndian
	flags, method := le.Uint16(dir[8:]), le.Uint16(dir[10:])
	names, extras, comments := int(le.Uint16(dir[28:])), int(le.Uint16(dir[30:])), int(le.Uint16(dir[32:]))
	n := centralSize + names + extras + comments
	if n > len(dir) {
		return record{}, 0, bad(at, "an entry of the directory runs past its end")
	}
	rec := record{name: string(dir[centralSize:][:names]), method: method, crc: le.Uint32(dir[16:])}
	wide, err := zip64Fields(dir[centralSize+names:][:extras], [3]uint32{le.Uint32(dir[24:]), le.Uint32(dir[20:]), le.Uint32(dir[42:])})
	if err != nil {
		return record{}, 0, bad(at, "record `%s`: %v", rec.name, err)
	}
	rec.usize, rec.csize, rec.header = wide[0], wide[1], wide[2]
	switch {
	case flags&forbiddenFlags != 0:
		return record{}, 0, bad(at, "record `%s` is encrypted or patched (flags 0x%04x)", rec.name, flags)
	case method != stored && method != deflated:
		return record{}, 0, bad(at, "record `%s` is packed by method %d, only deflate is known", rec.name, method)
	case method == stored && rec.csize != rec.usize:
		return record{}, 0, bad(at, "record `%s` is stored, but has %d bytes of %d", rec.name, rec.csize, rec.usize)
	case method == deflated && rec.usize/maxInflation > rec.csize:
		return record{}, 0, bad(at, "record `%s` claims to inflate %d bytes to %d", rec.name, rec.csize, rec.usize)
	}
	return rec, n, nil
}

// zip64Fields replaces the fields that are all ones by those of the zip64
// extra, where they stand in this order.
func zip64Fields(extra []byte, narrow [3]uint32) (wide [3]int64, err error) {
	var more []byte
	for len(extra) >= 4 {
		id, n := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if n > len(extra)-4 {
			break
		}
		if id == 1 {
			more = extra[4:][:n]
			break
		}
		extra = extra[4+n:]
	}
	for i, v := range narrow {
		wide[i] = int64(v)
		if v != math.MaxUint32 {
			continue
		}
		if len(more) < 8 {
			return wide, errors.New("its zip64 sizes are missing")
		}
		v := binary.LittleEndian.Uint64(more)
		if v > math.MaxInt64 {
			return wide, fmt.Errorf("a zip64 field is %d", v)
		}
		wide[i], more = int64(v), more[8:]
	}
	return wide, nil
}
