package torch

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

const (
	maxText = 256 << 20 // of a data.pkl; real ones of the largest models have a few MiB

	minVersion = 1 // of the archive, as torch accepts them
	maxVersion = 10
)

// reader reads one file.
type reader struct {
	in      checkpoint.Input
	index   *checkpoint.Index
	archive *archive
	prefix  string // of all records, with the slash
	big     bool   // storages are big endian
	pkl     *record
}

// odd reports an oddity that torch lets pass: an error under Strict, else a
// warning.
func (r *reader) odd(off int64, format string, args ...any) error {
	if r.in.Strict {
		return bad(off, format, args...)
	}
	r.warn(diag.Warnf(format, args...).AtByte(off))
	return nil
}

func (r *reader) warn(d *diag.Diagnostic) {
	r.index.Warnings = append(r.index.Warnings, d.InFile(r.in.Name))
}

func (r *reader) find(rest string) *record { return r.archive.byName[r.prefix+rest] }

func (r *reader) read(ctx context.Context) error {
	var err error
	if r.archive, err = r.openArchive(ctx); err != nil {
		return err
	}
	if err := r.checkLayout(); err != nil {
		return err
	}
	text, err := r.readTexts(ctx)
	if err != nil {
		return err
	}
	if sum := crc32.ChecksumIEEE(text); r.pkl.crc != 0 && sum != r.pkl.crc {
		if err := r.odd(r.pkl.data, "the CRC-32 of record `%s` is %08x, its bytes give %08x", r.pkl.name, r.pkl.crc, sum); err != nil {
			return err
		}
	}
	p, err := pickle.Parse(text, pickle.Limits{Yield: r.in.Yield})
	if err != nil {
		return r.pickleError(err)
	}
	if err := r.checkGlobals(p.Globals); err != nil {
		return err
	}
	if rest := len(text) - p.End; rest > 0 {
		if err := r.odd(r.at(p.End), "%d bytes follow the pickle in record `%s`", rest, r.pkl.name); err != nil {
			return err
		}
	}
	if err := newWalker(ctx, r, p, len(text)).run(p.Root); err != nil {
		return err
	}
	r.listChecks()
	return nil
}

// at is where byte i of data.pkl lies in the file; of a deflated one where it
// begins.
func (r *reader) at(i int) int64 {
	if r.pkl.method == stored {
		return r.pkl.data + int64(i)
	}
	return r.pkl.data
}

func (r *reader) pickleError(err error) error {
	var pe *pickle.Error
	if !errors.As(err, &pe) {
		return err
	}
	return bad(r.at(pe.At), "record `%s`, byte %d: %s", r.pkl.name, pe.At, pe.Msg)
}

// checkLayout finds the folder and the pickle in it. torch takes the folder
// of the first record, whatever the file is called.
func (r *reader) checkLayout() error {
	recs := r.archive.recs
	first := recs[0]
	i := strings.IndexByte(first.name, '/')
	if i >= 0 {
		r.prefix = first.name[:i+1]
		r.pkl = r.find("data.pkl")
	}
	switch {
	case r.find("constants.pkl") != nil || r.find("model.json") != nil:
		e := bad(first.header, "a TorchScript archive is not supported yet")
		e.Hint, e.Other = "if you trust it, in torch: torch.save(torch.jit.load(f).state_dict(), g)", true
		return e
	case r.find("archive_format") != nil || r.find("serialized_exported_program.json") != nil:
		e := bad(first.header, "an archive of torch.export is not supported yet")
		e.Other = true
		return e
	case r.pkl == nil:
		return r.notTorch(i < 0)
	}
	foreign := 0
	for i := range recs {
		if !strings.HasPrefix(recs[i].name, r.prefix) {
			foreign++
		}
	}
	if foreign > 0 {
		return r.odd(first.header, "%d records are not in the folder `%s` of the first", foreign, r.prefix)
	}
	return nil
}

// notTorch refuses a zip without data.pkl where torch looks for it.
func (r *reader) notTorch(noFolder bool) error {
	recs := r.archive.recs
	e := bad(recs[0].header, "a zip archive, but not of torch.save: it has no `%sdata.pkl`", r.prefix)
	inner := 0
	for i := range recs {
		n := recs[i].name
		switch {
		case n == "data.pkl" && noFolder:
			e.Msg = fmt.Sprintf("the first record, `%s`, is not in a folder", recs[0].name)
			e.Hint = "torch.load refuses it, too; the records belong into one folder, such as `archive/`"
			return e
		case strings.HasSuffix(n, ".pth"), strings.HasSuffix(n, ".pt"), strings.HasSuffix(n, ".ckpt"):
			inner++
		}
	}
	if inner > 0 {
		e.Hint = fmt.Sprintf("it holds %d files that may be checkpoints themselves: unpack it", inner)
	}
	return e
}

// readTexts reads the pickle, the version, which torch demands, and the byte
// order. It returns the pickle.
func (r *reader) readTexts(ctx context.Context) ([]byte, error) {
	version := r.find(".data/version")
	if version == nil {
		version = r.find("version")
	}
	if version == nil {
		e := bad(r.archive.at, "record `%sversion` is missing", r.prefix)
		e.Hint = "torch.load refuses it, too; its content is the digit 3 and a newline"
		return nil, e
	}
	recs := []*record{r.pkl, version}
	order := r.find("byteorder")
	if order != nil {
		recs = append(recs, order)
	}
	texts, err := r.contents(ctx, maxText, recs...)
	if err != nil {
		return nil, err
	}
	v, err := strconv.Atoi(strings.TrimSpace(string(texts[1])))
	if err != nil || v < minVersion || v > maxVersion {
		return nil, bad(version.data, "the version is `%.40s`, want %d to %d", texts[1], minVersion, maxVersion)
	}
	if order == nil {
		return texts[0], nil
	}
	switch string(texts[2]) {
	case "little":
	case "big":
		r.big = true
	default:
		return nil, bad(order.data, "the byte order is `%.40s`, want `little` or `big`", texts[2])
	}
	return texts[0], nil
}

// listChecks gives the CRCs of the storages. torch checks none, and writes
// none where it was told so: then the field is 0.
func (r *reader) listChecks() {
	for i := range r.archive.recs {
		rec := &r.archive.recs[i]
		if rec.method == stored && rec.crc != 0 && rec != r.pkl {
			r.index.Checks = append(r.index.Checks, checkpoint.Check{
				Algorithm: checkpoint.CRC32,
				Range:     checkpoint.Extent{Off: rec.data, Len: rec.csize},
				Want:      uint64(rec.crc),
				Name:      rec.name,
				Advisory:  true,
			})
		}
	}
}
