package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/seed-e934e81e/convert/core/storage"
)

// tree is a file system to be tested and a folder in it.
type tree struct {
	name string
	fs   storage.FS
	dir  string
	mode storage.IOMode
}

// trees are all file systems, with all their ways to transfer.
func trees(t *testing.T) []tree {
	t.Helper()
	local := func(mode storage.IOMode) *storage.Local {
		return storage.NewLocal(storage.LocalOptions{Mode: mode})
	}
	out := []tree{
		{"auto", local(storage.Auto), t.TempDir(), storage.Auto},
		{"direct", local(storage.Direct), t.TempDir(), storage.Direct},
		{"buffered", local(storage.Buffered), t.TempDir(), storage.Buffered},
		{"open refused", local(storage.Direct).RefuseOpen(), t.TempDir(), storage.Direct},
		{"first transfer refused", local(storage.Direct).RefuseTransfer(0), t.TempDir(), storage.Direct},
		{"fifth transfer refused", local(storage.Direct).RefuseTransfer(4), t.TempDir(), storage.Direct},
		{"three descriptors", storage.NewLocal(storage.LocalOptions{MaxOpen: 3}), t.TempDir(), storage.Auto},
		{"memory", memoryWith(t, "x"), "x", storage.Auto},
	}
	if dir, err := os.MkdirTemp("/dev/shm", "convert-test-"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		out = append(out, tree{"tmpfs", local(storage.Direct), dir, storage.Direct})
	}
	return out
}

func memoryWith(t *testing.T, dir string) *storage.Memory {
	t.Helper()
	m := storage.NewMemory()
	if _, err := m.MakeDir(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return m
}

func (x tree) path(name string) string { return filepath.Join(x.dir, name) }

// create begins a file, and aborts it if the test has not published it.
func (x tree) create(t *testing.T, name string, size int64) storage.Writer {
	t.Helper()
	w, err := x.fs.Create(t.Context(), x.path(name), size, storage.CreateOptions{Mode: x.mode})
	if err != nil {
		t.Fatalf("%s: Create: %v", x.name, err)
	}
	t.Cleanup(func() {
		if err := w.Abort(); err != nil {
			t.Errorf("%s: Abort: %v", x.name, err)
		}
	})
	return w
}

// put writes a file.
func (x tree) put(t *testing.T, name string, p []byte) {
	t.Helper()
	w := x.create(t, name, int64(len(p)))
	if _, err := w.WriteAt(p, 0); err != nil {
		t.Fatalf("%s: WriteAt: %v", x.name, err)
	}
	if err := w.Publish(); err != nil {
		t.Fatalf("%s: Publish: %v", x.name, err)
	}
}

// names lists the folder, which must hold no file but those wanted.
func (x tree) names(t *testing.T, want ...string) {
	t.Helper()
	list, err := x.fs.List(t.Context(), x.dir)
	if err != nil {
		t.Fatalf("%s: List: %v", x.name, err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: the folder holds %q, want %q", x.name, got, want)
	}
}

// alignedAt is a buffer of n bytes whose address has the given phase.
func alignedAt(n, phase int) []byte {
	p := make([]byte, n+2*storage.Block)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(p))) & (storage.Block - 1))
	return p[at+phase:][:n]
}

func random(r *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// pieces cuts a file at places where writes go wrong: anywhere, near the edges
// of blocks, and far apart.
func pieces(r *rand.Rand, n int64) []storage.Range {
	var out []storage.Range
	for at := int64(0); at < n; {
		size := []int64{1 + r.Int64N(100), 1 + r.Int64N(20000), storage.Block, 1 + r.Int64N(600<<10), 4 << 20}[r.IntN(5)]
		end := min(at+size, n)
		if r.IntN(3) == 0 && end < n {
			end = min(n, end&^(storage.Block-1)+r.Int64N(3))
			end = max(end, at+1)
		}
		out = append(out, storage.Range{Off: at, Len: end - at})
		at = end
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func TestAFileEqualsWhatWasWrittenInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, x := range trees(t) {
		for round := range 12 {
			size := []int64{0, 1, storage.Block - 1, storage.Block, 300<<10 + 7, 3<<20 + 1234, 9 << 20}[r.IntN(7)]
			want := random(r, int(size))
			name := fmt.Sprintf("%d", round)
			w := x.create(t, name, size)
			work := make(chan storage.Range)
			var wg sync.WaitGroup
			for range 3 {
				seed := r.Uint64()
				wg.Go(func() {
					r := rand.New(rand.NewPCG(seed, 0))
					for p := range work {
						phase := int(p.Off % storage.Block)
						if r.IntN(2) == 0 {
							phase = r.IntN(storage.Block)
						}
						buf := alignedAt(int(p.Len), phase)
						copy(buf, want[p.Off:])
						if n, err := w.WriteAt(buf, p.Off); err != nil || n != len(buf) {
							t.Errorf("%s: WriteAt of %d bytes at %d = %d, %v", x.name, p.Len, p.Off, n, err)
						}
						clear(buf) // the writer must not keep the buffer
					}
				})
			}
			for _, p := range pieces(r, size) {
				work <- p
			}
			close(work)
			wg.Wait()
			if r.IntN(2) == 0 {
				if err := w.Sync(); err != nil {
					t.Fatalf("%s: Sync: %v", x.name, err)
				}
			}
			early, err := w.Reopen(t.Context())
			if err != nil {
				t.Fatalf("%s: Reopen: %v", x.name, err)
			}
			equal(t, x.name+" before Publish", early, want)
			if err := w.Publish(); err != nil {
				t.Fatalf("%s: Publish: %v", x.name, err)
			}
			equal(t, x.name+" opened before Publish", early, want)
			f, err := x.fs.Open(t.Context(), x.path(name))
			if err != nil {
				t.Fatalf("%s: Open: %v", x.name, err)
			}
			equal(t, x.name, f, want)
			f.Close()
			early.Close()
		}
	}
}

// equal compares a file with its contents, read in blocks.
func equal(t *testing.T, name string, f storage.File, want []byte) {
	t.Helper()
	if f.Size() != int64(len(want)) {
		t.Fatalf("%s: Size = %d, want %d", name, f.Size(), len(want))
	}
	const step = 300<<10 + 111
	buf := alignedAt(step+2*storage.Block, 0)
	for at := 0; at < len(want); at += step {
		n := min(step, len(want)-at)
		p, err := f.ReadBlock(context.Background(), buf, int64(at), n, at%storage.Block)
		if err != nil {
			t.Fatalf("%s: ReadBlock of %d bytes at %d: %v", name, n, at, err)
		}
		if !bytes.Equal(p, want[at:at+n]) {
			t.Fatalf("%s: bytes %d to %d differ from what was written", name, at, at+n)
		}
		if phase := int(uintptr(unsafe.Pointer(unsafe.SliceData(p))) % storage.Block); phase != at%storage.Block {
			t.Fatalf("%s: the bytes at %d lie at phase %d of the buffer, want %d", name, at, phase, at%storage.Block)
		}
	}
}

func TestReadsOfEveryKindGiveTheSameBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	want := random(r, 2<<20+777)
	size := int64(len(want))
	for _, x := range trees(t) {
		x.put(t, "f", want)
		f, err := x.fs.Open(t.Context(), x.path("f"))
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			off := r.Int64N(size + 1)
			n := r.Int64N(min(size-off, 700<<10) + 1)
			p := make([]byte, n)
			if err := f.ReadRanges(t.Context(), []int64{off, 5}, [][]byte{p, make([]byte, 9)}); err != nil || !bytes.Equal(p, want[off:off+n]) {
				t.Fatalf("%s: ReadRanges of %d bytes at %d: %v, or wrong bytes", x.name, n, off, err)
			}
			phase := r.IntN(2) * r.IntN(storage.Block)
			q, err := f.ReadBlock(t.Context(), alignedAt(int(n)+2*storage.Block, phase), off, int(n), 7)
			if err != nil || !bytes.Equal(q, p) {
				t.Fatalf("%s: ReadBlock of %d bytes at %d: %v, or wrong bytes", x.name, n, off, err)
			}
			long := make([]byte, n+100)
			k, err := f.ReadAt(long, off)
			wantN, wantErr := min(n+100, size-off), error(nil)
			if wantN < n+100 {
				wantErr = io.EOF
			}
			if int64(k) != wantN || err != wantErr || !bytes.Equal(long[:k], want[off:off+wantN]) {
				t.Fatalf("%s: ReadAt of %d bytes at %d = %d, %v, want %d, %v", x.name, n+100, off, k, err, wantN, wantErr)
			}
		}
		for _, c := range []storage.Range{{Off: size - 1, Len: 2}, {Off: size + 1, Len: 0}, {Off: -1, Len: 1}, {Off: 1<<63 - 1, Len: 1}} {
			if err := f.ReadRanges(t.Context(), []int64{c.Off}, [][]byte{make([]byte, c.Len)}); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: ReadRanges of %v = %v, want %v", x.name, c, err, io.ErrUnexpectedEOF)
			}
			if _, err := f.ReadBlock(t.Context(), make([]byte, 3*storage.Block), c.Off, int(c.Len), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: ReadBlock of %v = %v, want %v", x.name, c, err, io.ErrUnexpectedEOF)
			}
		}
		if _, err := f.ReadBlock(t.Context(), make([]byte, 2*storage.Block+9), 0, 10, 0); err == nil {
			t.Errorf("%s: ReadBlock into a buffer one byte too small succeeded, want an error", x.name)
		}
		if err := f.Close(); err != nil {
			t.Errorf("%s: Close: %v", x.name, err)
		}
	}
}

func TestACancelledContextStopsEveryOperation(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range trees(t) {
		x.put(t, "f", []byte("abc"))
		f, err := x.fs.Open(t.Context(), x.path("f"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		name := x.path("f")
		one := func(_ any, err error) error { return err }
		for op, err := range map[string]error{
			"Open":       one(x.fs.Open(done, name)),
			"Stat":       one(x.fs.Stat(done, name)),
			"List":       one(x.fs.List(done, x.dir)),
			"ReadFile":   one(x.fs.ReadFile(done, name, 10)),
			"MakeDir":    one(x.fs.MakeDir(done, x.path("d"))),
			"Create":     one(x.fs.Create(done, x.path("g"), 1, storage.CreateOptions{})),
			"Link":       x.fs.Link(done, name, x.path("g")),
			"Rename":     x.fs.Rename(done, name, x.path("g")),
			"Remove":     x.fs.Remove(done, name),
			"SyncDir":    x.fs.SyncDir(done, x.dir),
			"Lock":       one(x.fs.Lock(done, x.dir)),
			"Same":       one(x.fs.Same(done, name, name)),
			"ReadRanges": f.ReadRanges(done, []int64{0}, [][]byte{make([]byte, 1)}),
			"ReadBlock":  one(f.ReadBlock(done, make([]byte, 3*storage.Block), 0, 1, 0)),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %s = %v, want %v", x.name, op, err, context.Canceled)
			}
		}
		x.names(t, "f")
	}
}

func TestNothingIsSeenBeforePublishAndNothingLeftAfterAbort(t *testing.T) {
	for _, x := range trees(t) {
		w := x.create(t, "a", 100<<10)
		if _, err := w.WriteAt(make([]byte, 70<<10), 3); err != nil {
			t.Fatal(err)
		}
		if _, err := x.fs.Stat(t.Context(), x.path("a")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: Stat before Publish = %v, want %v", x.name, err, fs.ErrNotExist)
		}
		if err := w.Abort(); err != nil {
			t.Errorf("%s: Abort: %v", x.name, err)
		}
		x.names(t)
		if _, err := w.WriteAt([]byte{1}, 0); err == nil {
			t.Errorf("%s: WriteAt after Abort succeeded, want an error", x.name)
		}
		if err := w.Publish(); err == nil {
			t.Errorf("%s: Publish after Abort succeeded, want an error", x.name)
		}
		if err := w.Abort(); err != nil {
			t.Errorf("%s: the second Abort: %v", x.name, err)
		}
		x.names(t)
	}
}

func TestAFinalNameIsReplacedOnlyIfAsked(t *testing.T) {
	for _, x := range trees(t) {
		early := x.create(t, "a", 3)
		if _, err := early.WriteAt([]byte("new"), 0); err != nil {
			t.Fatal(err)
		}
		x.put(t, "a", []byte("old!"))
		if err := early.Publish(); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: Publish where the name has appeared = %v, want %v", x.name, err, fs.ErrExist)
		}
		if err := early.Abort(); err != nil {
			t.Errorf("%s: Abort: %v", x.name, err)
		}
		if _, err := x.fs.Create(t.Context(), x.path("a"), 1, storage.CreateOptions{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: Create of a name that exists = %v, want %v", x.name, err, fs.ErrExist)
		}
		content(t, x, "a", "old!")
		w, err := x.fs.Create(t.Context(), x.path("a"), 3, storage.CreateOptions{Replace: true, Mode: x.mode})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteAt([]byte("new"), 0); err != nil {
			t.Fatal(err)
		}
		content(t, x, "a", "old!")
		if err := w.Publish(); err != nil {
			t.Errorf("%s: Publish: %v", x.name, err)
		}
		content(t, x, "a", "new")
		if err := w.Abort(); err != nil {
			t.Errorf("%s: Abort after Publish: %v", x.name, err)
		}
		content(t, x, "a", "new")
		x.names(t, "a")
	}
}

func content(t *testing.T, x tree, name, want string) {
	t.Helper()
	got, err := x.fs.ReadFile(t.Context(), x.path(name), 100)
	if err != nil || string(got) != want {
		t.Errorf("%s: %s holds %q, %v; want %q", x.name, name, got, err, want)
	}
}

func TestWritesOutsideTheFileAreRefused(t *testing.T) {
	for _, x := range trees(t) {
		w := x.create(t, "a", 10)
		for _, off := range []int64{-1, 10, 7, 1<<63 - 1} {
			if _, err := w.WriteAt(make([]byte, 4), off); err == nil {
				t.Errorf("%s: WriteAt of 4 bytes at %d of 10 succeeded, want an error", x.name, off)
			}
		}
		if _, err := w.WriteAt(make([]byte, 10), 0); err != nil {
			t.Errorf("%s: WriteAt after a refused one: %v", x.name, err)
		}
	}
}

func TestFoldersAndNames(t *testing.T) {
	for _, x := range trees(t) {
		ctx := t.Context()
		made, err := x.fs.MakeDir(ctx, x.path("b/c/d"))
		if want := []string{x.path("b"), x.path("b/c"), x.path("b/c/d")}; err != nil || !slices.Equal(made, want) {
			t.Errorf("%s: MakeDir = %q, %v, want %q", x.name, made, err, want)
		}
		if made, err := x.fs.MakeDir(ctx, x.path("b/c")); err != nil || len(made) != 0 {
			t.Errorf("%s: MakeDir of a folder that exists = %q, %v, want none", x.name, made, err)
		}
		x.put(t, "b/c/f", []byte("abc"))
		if _, err := x.fs.MakeDir(ctx, x.path("b/c/f/g")); err == nil {
			t.Errorf("%s: MakeDir below a file succeeded, want an error", x.name)
		}
		if err := x.fs.Link(ctx, x.path("b/c/f"), x.path("b/e")); err != nil {
			t.Errorf("%s: Link: %v", x.name, err)
		}
		if err := x.fs.Link(ctx, x.path("b/c/f"), x.path("b/e")); err == nil {
			t.Errorf("%s: Link to a name that exists succeeded, want an error", x.name)
		}
		if err := x.fs.Rename(ctx, x.path("b/c/f"), x.path("b/c/g")); err != nil {
			t.Errorf("%s: Rename: %v", x.name, err)
		}
		content(t, x, "b/e", "abc")
		content(t, x, "b/c/g", "abc")
		if _, err := x.fs.ReadFile(ctx, x.path("b/e"), 2); err == nil {
			t.Errorf("%s: ReadFile of 3 bytes with at most 2 succeeded, want an error", x.name)
		}
		list, err := x.fs.List(ctx, x.path("b"))
		if err != nil || len(list) != 2 || list[0].Name != "c" || !list[0].Dir || list[1].Name != "e" || list[1].Dir || list[1].Size != 3 {
			t.Errorf("%s: List = %+v, %v, want the folder c and the file e of 3 bytes", x.name, list, err)
		}
		if e, err := x.fs.Stat(ctx, x.path("b/e")); err != nil || e.Name != "e" || e.Size != 3 || e.Dir || e.Time.IsZero() {
			t.Errorf("%s: Stat = %+v, %v, want the file e of 3 bytes", x.name, e, err)
		}
		if err := x.fs.Remove(ctx, x.path("b")); err == nil {
			t.Errorf("%s: Remove of a folder with files succeeded, want an error", x.name)
		}
		for _, name := range []string{"b/e", "b/c/g", "b/c/d", "b/c", "b"} {
			if err := x.fs.Remove(ctx, x.path(name)); err != nil {
				t.Errorf("%s: Remove: %v", x.name, err)
			}
		}
		x.names(t)
		if err := x.fs.SyncDir(ctx, x.dir); err != nil {
			t.Errorf("%s: SyncDir: %v", x.name, err)
		}
		if _, err := x.fs.Open(ctx, x.dir); err == nil {
			t.Errorf("%s: Open of a folder succeeded, want an error", x.name)
		}
		for op, err := range map[string]error{
			"SyncDir": x.fs.SyncDir(ctx, x.path("none")),
			"Remove":  x.fs.Remove(ctx, x.path("none")),
			"Rename":  x.fs.Rename(ctx, x.path("none"), x.path("f")),
		} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %s of a name that does not exist = %v, want %v", x.name, op, err, fs.ErrNotExist)
			}
		}
		if _, err := x.fs.Create(ctx, x.path("none/f"), 1, storage.CreateOptions{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: Create in a folder that does not exist = %v, want %v", x.name, err, fs.ErrNotExist)
		}
	}
}

func TestOneRunAtATimeHoldsAFolder(t *testing.T) {
	for _, x := range trees(t) {
		release, err := x.fs.Lock(t.Context(), x.dir)
		if err != nil {
			t.Fatalf("%s: Lock: %v", x.name, err)
		}
		if l, ok := x.fs.(*storage.Local); ok && l.Stats().Unlocked > 0 {
			t.Skipf("%s has no locks", x.dir)
		}
		if _, err := x.fs.Lock(t.Context(), x.dir); !errors.Is(err, storage.ErrLocked) {
			t.Errorf("%s: a second Lock = %v, want %v", x.name, err, storage.ErrLocked)
		}
		if err := release(); err != nil {
			t.Errorf("%s: release: %v", x.name, err)
		}
		x.names(t)
		release, err = x.fs.Lock(t.Context(), x.dir)
		if err != nil {
			t.Fatalf("%s: Lock after release: %v", x.name, err)
		}
		release()
	}
}

func TestNamesThatLeadToTheSamePlace(t *testing.T) {
	for _, x := range trees(t) {
		if _, err := x.fs.MakeDir(t.Context(), x.path("a/b")); err != nil {
			t.Fatal(err)
		}
		x.put(t, "a/f", []byte("1"))
		x.put(t, "a/g", []byte("1"))
		if err := x.fs.Link(t.Context(), x.path("a/f"), x.path("h")); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			a, b string
			want bool
		}{
			{"a", "a/../a", true},
			{"a", "a/b", true},
			{"a/b", "a", true},
			{"a", "a/none/deep", true},
			{"none/deep", "none", true},
			{"none", "none", true},
			{"a/f", "h", true},
			{"a", "ab", false},
			{"a/f", "a/g", false},
			{"a/b", "a/none", false},
			{"none", "other", false},
		} {
			if got, err := x.fs.Same(t.Context(), x.path(tt.a), x.path(tt.b)); err != nil || got != tt.want {
				t.Errorf("%s: Same(%q, %q) = %v, %v, want %v", x.name, tt.a, tt.b, got, err, tt.want)
			}
		}
	}
}

func TestTemporaryNamesAreRecognisedAndFit(t *testing.T) {
	m := memoryWith(t, "d")
	for _, base := range []string{"a", "model-00001-of-00002.safetensors", ".hidden", strings.Repeat("x", 255)} {
		w, err := m.Create(t.Context(), "d/"+base, 1, storage.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		temp := filepath.Base(m.Names()[0])
		if !storage.IsTemp(temp) || len(temp) > 255 {
			t.Errorf("the temporary name of %q is %q of %d bytes, want one that is recognised, of 255 at most", base, temp, len(temp))
		}
		if err := w.Abort(); err != nil {
			t.Fatal(err)
		}
	}
	for _, base := range []string{"a.convert-tmp", ".a.convert-tmp", ".a.ABCDEFGHIJKLMNOPQRSTUVWXYz.convert-tmp", "a.ABCDEFGHIJKLMNOPQRSTUVWXYZ.convert-tmp", ".ABCDEFGHIJKLMNOPQRSTUVWXYZ.convert-tmp"} {
		if storage.IsTemp(base) {
			t.Errorf("%q is taken for a temporary name, want it left alone", base)
		}
	}
}
