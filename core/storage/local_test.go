package storage_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/storage"
)

// directTree is a Local on a disk that takes direct transfers.
func directTree(t *testing.T, mode storage.IOMode) (tree, *storage.Local) {
	t.Helper()
	l := storage.NewLocal(storage.LocalOptions{Mode: mode})
	x := tree{"local", l, t.TempDir(), mode}
	x.put(t, "probe", alignedAt(1<<20, 0))
	if err := l.Remove(t.Context(), x.path("probe")); err != nil {
		t.Fatal(err)
	}
	if l.Stats().DirectWrite == 0 {
		t.Skipf("%s has no direct transfers", x.dir)
	}
	return x, storage.NewLocal(storage.LocalOptions{Mode: mode})
}

func TestWholeBlocksOfASuitingBufferAreWrittenWithoutACopy(t *testing.T) {
	for _, mode := range []storage.IOMode{storage.Auto, storage.Direct} {
		x, l := directTree(t, mode)
		x.fs = l
		const n, off = 1<<20 + 10, 100
		w := x.create(t, "f", 2<<20)
		if _, err := w.WriteAt(alignedAt(n, off), off); err != nil {
			t.Fatal(err)
		}
		body := int64((n+off)&^(storage.Block-1) - storage.Block)
		if got := l.Stats(); got.DirectWrite != body || got.Staged != 0 || got.BufferedWrite != 0 {
			t.Errorf("%v: before Sync %+v, want %d bytes direct, none staged or buffered", mode, got, body)
		}
		if err := w.Sync(); err != nil {
			t.Fatal(err)
		}
		if got := l.Stats(); got.DirectWrite != body || got.BufferedWrite != n-body {
			t.Errorf("%v: after Sync %+v, want %d bytes direct and %d buffered", mode, got, body, n-body)
		}
	}
}

func TestAnUnsuitableBufferIsStaged(t *testing.T) {
	x, l := directTree(t, storage.Auto)
	x.fs = l
	w := x.create(t, "f", 5<<20)
	if _, err := w.WriteAt(alignedAt(5<<20, 1), 0); err != nil {
		t.Fatal(err)
	}
	if got := l.Stats(); got.Staged != 5<<20 || got.DirectWrite != 5<<20 {
		t.Errorf("%+v, want 5 MiB staged", got)
	}
}

func TestABlockOfManyPartsIsWrittenDirectlyOnceWhole(t *testing.T) {
	x, l := directTree(t, storage.Direct)
	x.fs = l
	w := x.create(t, "f", 10*storage.Unit())
	for off := range storage.Unit() { // the last byte first
		if _, err := w.WriteAt([]byte{byte(off)}, 3*storage.Unit()-1-off); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := l.Stats(); got.DirectWrite != storage.Unit() || got.BufferedWrite != 0 {
		t.Errorf("%+v, want one block of %d bytes direct", got, storage.Unit())
	}
}

func TestColdFilesAreReadPastThePageCacheAndWarmOnesFromIt(t *testing.T) {
	x, _ := directTree(t, storage.Auto)
	const size = 4 << 20
	x.put(t, "f", random(rand.New(rand.NewPCG(1, 2)), size)) // direct, so that the cache has none of it
	l := storage.NewLocal(storage.LocalOptions{})
	f, err := l.Open(t.Context(), x.path("f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := alignedAt(size+2*storage.Block, 0)
	read := func() storage.Stats {
		before := l.Stats()
		if _, err := f.ReadBlock(t.Context(), buf, 10, size-20, 0); err != nil {
			t.Fatal(err)
		}
		after := l.Stats()
		return storage.Stats{DirectRead: after.DirectRead - before.DirectRead, BufferedRead: after.BufferedRead - before.BufferedRead}
	}
	if got := read(); got.DirectRead != size-20 {
		if got.BufferedRead == size-20 {
			t.Skip("this system does not tell what is in the page cache")
		}
		t.Errorf("a cold file was read %+v, want all direct", got)
	}
	if _, err := f.ReadAt(make([]byte, size), 0); err != nil { // into the cache
		t.Fatal(err)
	}
	if got := read(); got.BufferedRead != size-20 {
		t.Errorf("a warm file was read %+v, want all buffered", got)
	}
	n := l.Stats().DirectRead
	if _, err := f.ReadBlock(t.Context(), buf, 0, 100<<10, 0); err != nil || l.Stats().DirectRead != n {
		t.Errorf("a small read: %v, %d direct bytes, want none", err, l.Stats().DirectRead-n)
	}
}

func TestRefusalsAreCountedOnceAFile(t *testing.T) {
	for name, l := range map[string]*storage.Local{
		"at open":     storage.NewLocal(storage.LocalOptions{Mode: storage.Direct}).RefuseOpen(),
		"at transfer": storage.NewLocal(storage.LocalOptions{Mode: storage.Direct}).RefuseTransfer(0),
	} {
		x := tree{name, l, t.TempDir(), storage.Direct}
		w := x.create(t, "f", 1<<20)
		for off := int64(0); off < 1<<20; off += 256 << 10 {
			if _, err := w.WriteAt(alignedAt(256<<10, 0), off); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.Stats(); got.Refused != 1 || got.BufferedWrite != 1<<20 || got.DirectWrite != 0 {
			t.Errorf("%s: %+v, want one refusal and all buffered", name, got)
		}
	}
}

func TestEdgesOfManyFilesStayBounded(t *testing.T) {
	l := storage.NewLocal(storage.LocalOptions{})
	x := tree{"local", l, t.TempDir(), storage.Auto}
	// 3,000 blocks of which one byte is written, in three files: more than are kept.
	var ws []storage.Writer
	for i := range 3 {
		ws = append(ws, x.create(t, fmt.Sprint(i), 1000*storage.Unit()))
	}
	for i := range int64(1000) {
		for j, w := range ws {
			if _, err := w.WriteAt([]byte{byte(i + int64(j))}, i*storage.Unit()+i%storage.Unit()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if l.Stats().BufferedWrite == 0 {
		t.Error("no edge was written before Sync, want them bounded")
	}
	for j, w := range ws {
		if err := w.Publish(); err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 1000*storage.Unit())
		for i := range int64(1000) {
			want[i*storage.Unit()+i%storage.Unit()] = byte(i + int64(j))
		}
		if got, err := os.ReadFile(x.path(fmt.Sprint(j))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("file %d: %v, or it differs from what was written", j, err)
		}
	}
}

func TestAWriteErrorIsFinal(t *testing.T) {
	disk := errors.New("the disk is on fire")
	for _, op := range []string{"write", "sync"} {
		broken := true
		l := storage.NewLocal(storage.LocalOptions{}).FailWrites(func(o string) error {
			if broken && o == op {
				return disk
			}
			return nil
		})
		x := tree{op, l, t.TempDir(), storage.Auto}
		w := x.create(t, "f", 1<<20)
		_, err := w.WriteAt(alignedAt(1<<20, 7), 0)
		if op == "sync" && err == nil {
			err = w.Sync()
		}
		if !errors.Is(err, disk) {
			t.Errorf("%s: %v, want %v", op, err, disk)
		}
		broken = false
		if err := w.Sync(); !errors.Is(err, disk) {
			t.Errorf("%s: Sync after the error = %v, want %v", op, err, disk)
		}
		if err := w.Publish(); !errors.Is(err, disk) {
			t.Errorf("%s: Publish after the error = %v, want %v", op, err, disk)
		}
		if err := w.Abort(); err != nil {
			t.Errorf("%s: Abort: %v", op, err)
		}
		x.names(t)
	}
}

func TestTheErrorOfAnEdgeWrittenLateIsNotLost(t *testing.T) {
	disk := errors.New("the disk is on fire")
	l := storage.NewLocal(storage.LocalOptions{}).FailWrites(func(op string) error {
		if op == "write" {
			return disk
		}
		return nil
	})
	x := tree{"local", l, t.TempDir(), storage.Auto}
	w := x.create(t, "f", 100)
	if _, err := w.WriteAt(make([]byte, 100), 0); err != nil {
		t.Fatalf("WriteAt of what is kept until Sync: %v", err)
	}
	if err := w.Publish(); !errors.Is(err, disk) {
		t.Errorf("Publish = %v, want %v", err, disk)
	}
}

func TestMoreFilesThanDescriptors(t *testing.T) {
	const files, limit = 300, 8
	l := storage.NewLocal(storage.LocalOptions{MaxOpen: limit})
	x := tree{"local", l, t.TempDir(), storage.Auto}
	const size = 200<<10 + 13
	r := rand.New(rand.NewPCG(1, 2))
	want := random(r, size)
	var ws []storage.Writer
	for i := range files {
		ws = append(ws, x.create(t, fmt.Sprint(i), size))
	}
	var wg sync.WaitGroup
	for part := range 4 {
		wg.Go(func() {
			lo, hi := part*size/4, (part+1)*size/4
			for i, w := range ws {
				if _, err := w.WriteAt(want[lo:hi], int64(lo)); err != nil {
					t.Errorf("WriteAt to file %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	if got := l.OpenFiles(); got > limit+4 {
		t.Errorf("%d files are open, want %d at most", got, limit+4)
	}
	for i, w := range ws {
		if err := w.Sync(); err != nil {
			t.Fatalf("Sync of file %d: %v", i, err)
		}
	}
	var fs []storage.File
	for i, w := range ws {
		f, err := w.Reopen(t.Context())
		if err != nil {
			t.Fatalf("Reopen of file %d: %v", i, err)
		}
		fs = append(fs, f)
		if err := w.Publish(); err != nil {
			t.Fatalf("Publish of file %d: %v", i, err)
		}
	}
	for _, f := range fs {
		equal(t, "many files", f, want)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := l.OpenFiles(); got != 0 {
		t.Errorf("%d files are open at the end, want 0", got)
	}
}

// child runs one test of this program in another process.
func child(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Skipf("this system starts no processes: %v", err)
	}
	c := exec.Command(self, "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), env...)
	c.Stderr = os.Stderr
	return c
}

func TestStaleFilesAreRemovedAndLiveOnesLeft(t *testing.T) {
	if dir := os.Getenv("CONVERT_TEST_CRASH"); dir != "" {
		l := storage.NewLocal(storage.LocalOptions{})
		for _, name := range []string{"a", "b"} {
			if _, err := l.Create(t.Context(), filepath.Join(dir, name), 10, storage.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		os.Exit(0) // as if killed: nothing is aborted
	}
	l := storage.NewLocal(storage.LocalOptions{})
	x := tree{"local", l, t.TempDir(), storage.Auto}
	if err := child(t, "CONVERT_TEST_CRASH="+x.dir).Run(); err != nil {
		t.Fatal(err)
	}
	if list, _ := l.List(t.Context(), x.dir); len(list) != 2 {
		t.Fatalf("the run that was killed left %d files, want 2", len(list))
	}
	live := x.create(t, "live", 10)
	others := []string{".a.convert-tmp", ".mine.tmp", "a.ckpt"}
	for _, name := range others {
		if err := os.WriteFile(x.path(name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := l.CleanStale(t.Context(), x.dir)
	if err != nil || len(removed) != 2 || !strings.HasPrefix(removed[0], ".a.") || !strings.HasPrefix(removed[1], ".b.") {
		t.Errorf("CleanStale = %q, %v, want the two files of the run that was killed", removed, err)
	}
	if err := live.Publish(); err != nil {
		t.Errorf("Publish of a file that was written meanwhile: %v", err)
	}
	x.names(t, append(others, "live")...)
}

func TestALockDiesWithItsProcess(t *testing.T) {
	if dir := os.Getenv("CONVERT_TEST_LOCK"); dir != "" {
		if _, err := storage.NewLocal(storage.LocalOptions{}).Lock(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		fmt.Println("locked")
		var b [1]byte
		os.Stdin.Read(b[:]) // until the parent has looked
		os.Exit(0)
	}
	dir := t.TempDir()
	c := child(t, "CONVERT_TEST_LOCK="+dir)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "locked" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	l := storage.NewLocal(storage.LocalOptions{})
	if _, err := l.Lock(t.Context(), dir); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("Lock while another process has it = %v, want %v", err, storage.ErrLocked)
	}
	in.Close()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	release, err := l.Lock(t.Context(), dir)
	if err != nil {
		t.Fatalf("Lock after the other process ended: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

func TestLinksLeadToTheSamePlace(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Skipf("this system makes no links: %v", err)
		}
	}
	must(os.MkdirAll(at("real/in"), 0o755))
	must(os.Symlink("real", at("link")))
	must(os.Symlink(at("none/new"), at("dangling")))
	must(os.Symlink("loop", at("loop")))
	l := storage.NewLocal(storage.LocalOptions{})
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"link", "real", true},
		{"link/in", "real", true},
		{"link/new/deep", "real/new", true},
		{"dangling", "none/new", true},
		{"dangling/x", "none", true},
		{"link", "none", false},
	} {
		if got, err := l.Same(t.Context(), at(tt.a), at(tt.b)); err != nil || got != tt.want {
			t.Errorf("Same(%q, %q) = %v, %v, want %v", tt.a, tt.b, got, err, tt.want)
		}
	}
	if _, err := l.Same(t.Context(), at("loop"), at("real")); err == nil {
		t.Error("Same of a link to itself succeeded, want an error")
	}
	if list, err := l.List(t.Context(), dir); err != nil || len(list) != 4 || list[0].Name != "dangling" || !list[1].Dir {
		t.Errorf("List = %+v, %v, want four names, the link to a folder as a folder", list, err)
	}
}

func TestAFileThatWasReplacedIsNotReadOn(t *testing.T) {
	l := storage.NewLocal(storage.LocalOptions{MaxOpen: 1})
	x := tree{"local", l, t.TempDir(), storage.Auto}
	x.put(t, "a", []byte("first"))
	x.put(t, "b", []byte("other"))
	f, err := l.Open(t.Context(), x.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := l.Rename(t.Context(), x.path("b"), x.path("a")); err != nil {
		t.Fatal(err)
	}
	x.put(t, "c", []byte("takes the only descriptor"))
	if g, err := l.Open(t.Context(), x.path("c")); err == nil {
		defer g.Close()
	}
	if _, err := f.ReadAt(make([]byte, 5), 0); err == nil {
		t.Error("a file that was replaced was opened again and read, want an error")
	}
}

func TestModeIsThatOfOrdinaryFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	x := tree{"local", storage.NewLocal(storage.LocalOptions{}), t.TempDir(), storage.Auto}
	x.put(t, "f", []byte("1"))
	plain, err := os.OpenFile(x.path("plain"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	plain.Close()
	a, _ := os.Stat(x.path("f"))
	b, _ := os.Stat(x.path("plain"))
	if a.Mode() != b.Mode() {
		t.Errorf("a published file has the mode %v, want %v", a.Mode(), b.Mode())
	}
}

func TestFreeAsksTheNearestFolderThatExists(t *testing.T) {
	l := storage.NewLocal(storage.LocalOptions{})
	dir := t.TempDir()
	free, ok, err := l.Free(t.Context(), filepath.Join(dir, "not", "there", "yet"))
	if err != nil || ok && free <= 0 {
		t.Errorf("Free = %d, %v, %v, want some bytes", free, ok, err)
	}
}

// noRoom asserts that err tells which file did not fit and what to do.
func noRoom(t *testing.T, err error, file string) {
	t.Helper()
	var d *diag.Diagnostic
	if !errors.As(err, &d) || d.Code != diag.Failed || d.Subject.File != file || d.Hint == "" || !strings.Contains(d.Summary, "no space") {
		t.Errorf("a file that does not fit gives %#v, want a diagnostic that names %s", err, file)
	}
}

func TestMemoryWithALimitIsFull(t *testing.T) {
	m := memoryWith(t, "d")
	m.Limit = 100
	if _, err := m.Create(t.Context(), "d/f", 101, storage.CreateOptions{}); err == nil {
		t.Error("a file of 101 bytes fits in 100, want an error")
	} else {
		noRoom(t, err, "d/f")
	}
	w, err := m.Create(t.Context(), "d/f", 60, storage.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if free, ok, _ := m.Free(t.Context(), "d"); free != 40 || !ok {
		t.Errorf("Free = %d, %v, want 40", free, ok)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if free, _, _ := m.Free(t.Context(), "d"); free != 100 {
		t.Errorf("Free after Abort = %d, want 100", free)
	}
}

func TestMemoryFailsWhereATestAsks(t *testing.T) {
	stop := errors.New("stop")
	m := memoryWith(t, "d")
	var seen []string
	m.Fail = func(op storage.Op, name string, off int64) error {
		seen = append(seen, fmt.Sprintf("%s %s %d", op, name, off))
		if op == storage.OpWrite && off >= 5 {
			return stop
		}
		return nil
	}
	w, err := m.Create(t.Context(), "d/f", 10, storage.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt([]byte{1}, 4); err != nil {
		t.Errorf("WriteAt at 4: %v", err)
	}
	if _, err := w.WriteAt([]byte{1}, 5); !errors.Is(err, stop) {
		t.Errorf("WriteAt at 5 = %v, want %v", err, stop)
	}
	if want := "[create d/f 0 write d/f 4 write d/f 5]"; fmt.Sprint(seen) != want {
		t.Errorf("asked %v, want %v", seen, want)
	}
}
