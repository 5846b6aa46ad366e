package storage_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-e934e81e/convert/core/storage"
)

func TestAFullDiskIsToldBeforeTheFirstByte(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a file system of its own size cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	x := tree{"full", storage.NewLocal(storage.LocalOptions{}), dir, storage.Auto}
	_, err := x.fs.Create(t.Context(), x.path("f"), 2<<20, storage.CreateOptions{})
	noRoom(t, err, x.path("f"))
	x.names(t)
	x.put(t, "fits", make([]byte, 512<<10))
}

func TestADescriptorLimitOfTheProcessIsLivedWith(t *testing.T) {
	if os.Getenv("CONVERT_TEST_FDS") == "" {
		c := child(t, "CONVERT_TEST_FDS=1")
		c.Stdout = os.Stdout
		if err := c.Run(); err != nil {
			t.Errorf("with few descriptors: %v", err)
		}
		return
	}
	x := tree{"local", storage.NewLocal(storage.LocalOptions{MaxOpen: 1 << 20}), t.TempDir(), storage.Auto}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 40, Max: 40}); err != nil {
		t.Skipf("the limit cannot be set: %v", err)
	}
	var ws []storage.Writer
	for i := range 100 {
		ws = append(ws, x.create(t, string(rune('a'+i%26))+string(rune('a'+i/26)), 1<<20))
	}
	for i, w := range ws {
		if _, err := w.WriteAt(alignedAt(1<<20, 0), 0); err != nil {
			t.Fatalf("WriteAt to file %d: %v", i, err)
		}
	}
	for i, w := range ws {
		if err := w.Publish(); err != nil {
			t.Fatalf("Publish of file %d: %v", i, err)
		}
	}
}
