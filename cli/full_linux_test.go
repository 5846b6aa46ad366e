package cli_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mounted mounts a file system for one test.
func mounted(t *testing.T, args ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a small file system here: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return dir
}

// nothingIn reports what is in a folder.
func nothingIn(t *testing.T, dir string, but ...string) {
	t.Helper()
	for _, n := range names(t, dir) {
		if n != "lost+found/" && !strings.Contains(strings.Join(but, " "), n) {
			t.Errorf("%s is left behind", n)
		}
	}
}

// A disk that is too full is known before the first byte.
func TestFullDisk(t *testing.T) {
	dir := tiny(t, "--vocab", "16000") // 9 MiB
	small := mounted(t, "-t", "tmpfs", "-o", "size=4m", "tmpfs")
	out := filepath.Join(small, "deep", "out")
	c := program(t, dir, "-f", "job.toml", "--set", "target.path="+out)
	c.wants(t, 1, "the disk is too full: ", " MiB are to be written, 4 MiB are free", "--> "+out, "free some space, or choose another `target.path`")
	nothingIn(t, small)

	c = program(t, dir, "-f", "job.toml", "--json", "--set", "target.path="+out)
	c.wants(t, 1, `{"type":"exit","code":1,"code_name":"failed","message":"the disk is too full`)

	// A file system that has room for the bytes and not for the names.
	few := mounted(t, "-t", "tmpfs", "-o", "size=64m,nr_inodes=6", "tmpfs")
	c = program(t, dir, "-f", "job.toml", "--set", "target.path="+filepath.Join(few, "out"))
	c.wants(t, 1, "no space left on device", "rank_1")
	nothingIn(t, few)
}

// A disk that fills up while it is written ends the run, and what was written
// goes. ext2 cannot reserve space, so it finds out only then.
func TestDiskThatFillsUp(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 96<<20); err != nil {
		t.Fatal(err)
	}
	mkfs, err := exec.LookPath("mkfs.ext2")
	if err != nil {
		t.Skip("there is no mkfs.ext2: a disk that fills up while it is written is not tried")
	}
	if out, err := exec.Command(mkfs, "-q", "-m", "0", image).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext2: %v %s", err, out)
	}
	small := mounted(t, "-o", "loop", image)
	dir := tiny(t, "--layers", "4", "--hidden", "512", "--ffn", "1408", "--vocab", "8000", "--states", "0") // 80 MiB
	before := names(t, dir)

	filler, err := os.Create(filepath.Join(small, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	c := prepared(dir, append(slowly, "--set", "target.path="+filepath.Join(small, "out"))...)
	var errs strings.Builder
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(time.Millisecond) {
		if m, _ := filepath.Glob(filepath.Join(small, "out", "rank_*", ".*.convert-tmp")); len(m) > 0 {
			break
		}
	}
	if _, err := io.Copy(filler, io.LimitReader(zeros{}, 64<<20)); err == nil {
		t.Log("all 64 MiB had room")
	}
	_ = c.Wait() // the status tells more
	call{c.ProcessState.ExitCode(), "", errs.String(), c.ProcessState}.wants(t, 1, "no space", "--> rank_", ".ckpt at byte ", "hint: free space there or choose another folder")
	nothingIn(t, small, "filler")
	if got := names(t, dir); len(got) != len(before) {
		t.Errorf("the source's folder holds %v", got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// asNobody prepares a run by a user without rights.
func asNobody(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run the program as another user")
	}
	reachable(t, dir)
	bin := filepath.Join(t.TempDir(), "convert")
	name, err := exec.LookPath("convert")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bin, read(t, name), 0o755); err != nil {
		t.Fatal(err)
	}
	reachable(t, filepath.Dir(bin))
	c := prepared(dir, args...)
	c.Path, c.Err = bin, nil
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return c
}

// reachable lets everyone into a folder of the tests.
func reachable(t *testing.T, dir string) {
	t.Helper()
	for ; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNoPermission(t *testing.T) {
	dir := tiny(t)
	strategy := filepath.Join(dir, "src_strategy.ckpt")
	file := rankFile(t, dir, "1")
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	reachable(t, filepath.Dir(open))
	out := filepath.Join(open, "out")
	for _, tt := range []struct {
		name  string
		deny  string // what the user may not use
		set   string // where the target is
		words []string
	}{
		{"to write the target", "", "target.path=out", []string{"cannot make the folder", "permission denied", "--> out", "the user that runs this may not write there"}},
		{"to read a file", file, "target.path=" + out, []string{"cannot open", "permission denied", "--> rank_1/" + filepath.Base(file) + " rank 1", "may not read it"}},
		{"to list a rank folder", filepath.Dir(file), "target.path=" + out, []string{"permission denied", "--> rank_1 rank 1"}},
		{"to list the source", filepath.Join(dir, "src"), "target.path=" + out, []string{"cannot open `src`", "permission denied"}},
		{"to read the strategy", strategy, "target.path=" + out, []string{"src_strategy.ckpt", "permission denied", "may not read it"}},
		{"to read the job", filepath.Join(dir, "job.toml"), "target.path=" + out, []string{"cannot read the job `job.toml`: permission denied"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := asNobody(t, dir, "-f", "job.toml", "--set", tt.set)
			if tt.deny != "" {
				info, err := os.Stat(tt.deny)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(tt.deny, 0o700); err != nil {
					t.Fatal(err)
				}
				defer os.Chmod(tt.deny, info.Mode().Perm())
			}
			status := 1
			if strings.HasSuffix(tt.deny, "job.toml") {
				status = 2
			}
			finished(t, c).wants(t, status, tt.words...)
			nothingIn(t, open)
			if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
				t.Errorf("a target was made")
			}
		})
	}
	t.Run("and with it", func(t *testing.T) {
		c := finished(t, asNobody(t, dir, "-f", "job.toml", "--set", "target.path="+out))
		c.wants(t, 0)
		info, err := os.Stat(filepath.Join(out, "rank_0", "checkpoint_0.ckpt"))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got&^0o644 != 0 || got&0o600 != 0o600 {
			t.Errorf("the file has mode %v, want 0644 less the umask", got)
		}
	})
}
