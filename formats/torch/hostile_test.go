package torch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
)

// rec is a record of a test archive.
type rec struct{ name, data string }

// zipOf writes an archive as this package does.
func zipOf(recs ...rec) []byte {
	w := &archiveWriter{}
	for _, r := range recs {
		w.text(r.name, []byte(r.data))
	}
	return render(w.finish(), nil)
}

// fileOf is a checkpoint with that pickle and two storages of eight bytes.
func fileOf(pickle string, more ...rec) []byte {
	return zipOf(append([]rec{{"m/data.pkl", pickle}, {"m/data/0", "\x00\x00\x80?\x00\x00\x00@"}, {"m/data/1", "12345678"}, {"m/version", "3\n"}}, more...)...)
}

// patch overwrites bytes behind the n-th occurrence of a signature.
func patch(b []byte, sig string, n, off int, with ...byte) []byte {
	b = bytes.Clone(b)
	at := -1
	for range n + 1 {
		at += 1 + bytes.Index(b[at+1:], []byte(sig))
	}
	copy(b[at+off:], with)
	return b
}

func u64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

func TestHostileArchivesAreRefused(t *testing.T) {
	good := fileOf("N.")
	if _, err := indexOf(good, true); err != nil {
		t.Fatalf("the file that is to be damaged: %v", err)
	}
	ff := []byte{0xff, 0xff, 0xff, 0xff}
	end := func(off int, with ...byte) []byte { // without the zip64 end, which would win
		b := patch(good, locatorSig, 0, 0, 'X')
		return patch(b, endSig, 0, off, with...)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"no directory", good[:len(good)-30], "cut short"},
		{"a directory behind the file", end(16, ff...), "does not lie before"},
		{"a directory longer than the file", end(12, ff...), "does not lie before"},
		{"more records than fit", end(10, 0xff, 0xff), "records do not fit"},
		{"no records", end(10, 0, 0), "the archive is empty"},
		{"several volumes", end(4, 1, 0), "several volumes"},
		{"a zip64 end behind the file", patch(good, locatorSig, 0, 8, u64(1<<62)...), "zip64 end of the directory is said"},
		{"a zip64 end that is none", patch(good, end64Sig, 0, 0, 'X'), "no zip64 end"},
		{"a directory of 2^63 bytes", patch(good, end64Sig, 0, 40, u64(1<<63)...), "is said to have"},
		{"a record count of 2^40", patch(good, end64Sig, 0, 32, u64(1<<40)...), "records do not fit"},
		{"an entry that is none", patch(good, centralSig, 1, 0, 'X'), "an entry of the directory is wanted"},
		{"an entry longer than the directory", patch(good, centralSig, 3, 32, 0xff, 0xff), "runs past its end"},
		{"an encrypted record", patch(good, centralSig, 1, 8, 1), "encrypted"},
		{"a record that is encrypted only in its header", patch(good, localSig, 1, 6, 1), "encrypted"},
		{"an unknown method", patch(good, centralSig, 1, 10, 9), "packed by method 9"},
		{"another method in the header", patch(good, localSig, 1, 8, 8), "packed by method 8 here"},
		{"a stored record of two sizes", patch(good, centralSig, 1, 24, 9), "is stored, but has 8 bytes of 9"},
		{"a record longer than the file", patch(patch(good, centralSig, 1, 20, 0, 0, 1), centralSig, 1, 24, 0, 0, 1), "does not lie before the directory"},
		{"zip64 sizes that are missing", patch(patch(good, centralSig, 1, 20, ff...), centralSig, 1, 24, ff...), "zip64 sizes are missing"},
		{"a header that is none", patch(good, localSig, 1, 0, 'X'), "header of record `m/data/0` is wanted"},
		{"another name in the header", patch(good, localSig, 1, 30, 'n'), "has another name in its header"},
		{"two entries with one header", patch(good, centralSig, 2, 42, binary.LittleEndian.AppendUint32(nil, uint32(bytes.Index(good, []byte("m/data/0"))-30))...), "has another name"},
		{"records that share bytes", patch(patch(good, centralSig, 0, 20, 120), centralSig, 0, 24, 120), "begins inside of record"},
		{"two records of one name that differ", zipOf(rec{"m/data.pkl", "N."}, rec{"m/data.pkl", "K\x01."}, rec{"m/version", "3\n"}), "two records are called"},
		{"no version", zipOf(rec{"m/data.pkl", "N."}), "`m/version` is missing"},
		{"a version of the future", zipOf(rec{"m/data.pkl", "N."}, rec{"m/version", "99\n"}), "want 1 to 10"},
		{"a version that is text", zipOf(rec{"m/data.pkl", "N."}, rec{"m/version", "three"}), "want 1 to 10"},
		{"a byte order that is none", fileOf("N.", rec{"m/byteorder", "pdp"}), "want `little` or `big`"},
		{"no folder", zipOf(rec{"data.pkl", "N."}, rec{"version", "3\n"}), "is not in a folder"},
		{"TorchScript", fileOf("N.", rec{"m/constants.pkl", "N."}), "TorchScript"},
		{"torch.export", zipOf(rec{"m/archive_format", "pt2"}), "torch.export"},
		{"files in a zip", zipOf(rec{"a/x.pth", "…"}), "not of torch.save"},
	} {
		_, err := indexOf(c.b, false)
		if fe := (*checkpoint.FormatError)(nil); !errors.As(err, &fe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want a FormatError that says %q", c.name, err, c.want)
		}
	}
}

func TestOdditiesAreWarningsOrUnderStrictErrors(t *testing.T) {
	good := fileOf("N.")
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"bytes behind the archive", append(bytes.Clone(good), make([]byte, 100)...), "100 bytes follow the archive"},
		{"equal records of one name", zipOf(rec{"m/data.pkl", "N."}, rec{"m/version", "3\n"}, rec{"m/version", "3\n"}), "two records are called `m/version`"},
		{"records of another folder", fileOf("N.", rec{"n/data.pkl", "N."}), "1 records are not in the folder `m/`"},
		{"a wrong sum of the pickle", patch(good, centralSig, 0, 16, 1, 2, 3, 4), "the CRC-32 of record"},
		{"bytes behind the pickle", fileOf("N.N."), "2 bytes follow the pickle"},
		{"a record longer than its storage", fileOf(tensorPickle("FloatStorage", "0", "K\x01", "K\x00", "K\x01", "K\x01")), "has 8 bytes, its storage 4"},
		{"a class that is no part of a checkpoint", fileOf("cmy.lib\nClass\n."), "names `my.lib.Class`"},
		{"a dangerous name", fileOf("cposix\nsystem\n(X\x02\x00\x00\x00lstR."), "DANGEROUS: the pickle names `posix.system`"},
		{"eval under its old name", fileOf("c__builtin__\neval\n."), "DANGEROUS: the pickle names `builtins.eval`"},
	} {
		x, err := indexOf(c.b, false)
		if err != nil || len(x.Warnings) != 1 || !strings.Contains(x.Warnings[0].Summary, c.want) {
			t.Errorf("%s: %+v, %v, want one warning that says %q", c.name, x, err, c.want)
			continue
		}
		_, err = indexOf(c.b, true)
		if fe := (*checkpoint.FormatError)(nil); !errors.As(err, &fe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, strict: error %v, want a FormatError that says %q", c.name, err, c.want)
		}
	}
}

func TestDeflatedRecords(t *testing.T) {
	pickle := tensorPickle("FloatStorage", "0", "K\x02", "K\x01", "K\x01", "K\x01")
	deflate := func(recs ...rec) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for _, r := range recs {
			f, err := w.Create(r.name) // deflates
			if err != nil {
				t.Fatal(err)
			}
			f.Write([]byte(r.data))
		}
		w.Close()
		return b.Bytes()
	}
	b := deflate(rec{"m/data.pkl", pickle}, rec{"m/data/0", "\x00\x00\x80?\x00\x00\x00@"}, rec{"m/version", "3\n"})
	x, err := indexOf(b, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Validate([]int64{int64(len(b))}); err != nil {
		t.Fatal(err)
	}
	got, err := gather(b, &x.Entries[0])
	if err != nil || string(got) != "\x00\x00\x00@" || x.Entries[0].Data.Codec != checkpoint.Deflate {
		t.Errorf("the second element is %x, %v, want 2.0", got, err)
	}
	if len(x.Checks) != 0 {
		t.Errorf("deflated records have sums of what they inflate to; %v are listed", x.Checks)
	}

	bomb := deflate(rec{"m/data.pkl", strings.Repeat("N0", 1<<20) + "N."}, rec{"m/version", "3\n"})
	if _, err := indexOf(bomb, true); err != nil {
		t.Errorf("a pickle that deflates well: %v", err)
	}
	for _, c := range []struct {
		name string
		size uint32
		want string
	}{
		{"more than deflate can", 0xfffffff0, "claims to inflate"},
		{"more than there is", 1<<21 + 3, "inflates to 2097154 bytes of 2097155"},
		{"less than there is", 1 << 21, "inflates to more than 2097152 bytes"},
	} {
		lie := patch(bomb, centralSig, 0, 24, binary.LittleEndian.AppendUint32(nil, c.size)...)
		if _, err := indexOf(lie, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a size of %s: error %v, want one that says %q", c.name, err, c.want)
		}
	}
}

func TestProbe(t *testing.T) {
	long := make([]rec, 0, 200)
	for i := range 200 {
		long = append(long, rec{fmt.Sprintf("m/data/%d", i), strings.Repeat("x", 100)})
	}
	for _, c := range []struct {
		name string
		b    []byte
		want checkpoint.Match
	}{
		{"a checkpoint", fileOf("N."), checkpoint.Yes},
		{"a checkpoint whose pickle is not the first record", zipOf(append(long, rec{"m/data.pkl", "N."})...), checkpoint.Yes},
		{"another zip", zipOf(rec{"a.npy", "…"}), checkpoint.Maybe},
		{"the legacy stream", []byte("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"), checkpoint.Yes},
		{"the legacy stream in protocol 1", []byte("L119547037146038801333356L\n."), checkpoint.Yes},
		{"the preview container", []byte("PYTORCH1…"), checkpoint.Yes},
		{"a plain pickle", []byte("\x80\x04N."), checkpoint.Maybe},
		{"nothing", nil, checkpoint.No},
		{"text", []byte("hello, this is text"), checkpoint.No},
		{"a zip signature alone", []byte(localSig), checkpoint.Maybe},
	} {
		if got := (Format{}).Probe(sampleOf("f", c.b)); got != c.want {
			t.Errorf("%s: Probe = %d, want %d", c.name, got, c.want)
		}
	}
}

func TestIndexTakesFewReads(t *testing.T) {
	recs := []rec{{"m/data.pkl", "N."}, {"m/byteorder", "little"}, {"m/version", "3\n"}}
	for i := range 3000 {
		recs = append(recs, rec{fmt.Sprintf("m/data/%d", i), "x"})
	}
	f := &memory{b: zipOf(recs...)}
	if _, err := (Format{}).Index(t.Context(), checkpoint.Input{File: f, Yield: func() {}}); err != nil {
		t.Fatal(err)
	}
	if f.reads > 4 {
		t.Errorf("%d reads for 3003 records, want 4 at most: the ends, the directory, the headers, the texts", f.reads)
	}
}
