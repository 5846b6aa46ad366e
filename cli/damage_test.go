package cli_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// records is where the records of a .ckpt file end.
func records(t *testing.T, b []byte) (ends []int) {
	t.Helper()
	for at := 0; at < len(b); {
		n, w := binary.Uvarint(b[at+1:])
		if b[at] != 0x0a || w <= 0 {
			t.Fatalf("byte %d does not begin a record", at)
		}
		at += 1 + w + int(n)
		ends = append(ends, at)
	}
	return ends
}

// cut keeps the first bytes of a file.
func cut(t *testing.T, name string, size int) {
	t.Helper()
	if err := os.Truncate(name, int64(size)); err != nil {
		t.Fatal(err)
	}
}

// refused runs the job of a folder and its plan, and expects of both that
// they refuse it, and that nothing is left behind.
func refused(t *testing.T, dir string, words ...string) {
	t.Helper()
	check := unchanged(t, dir)
	program(t, dir, "-f", "job.toml").wants(t, 5, words...)
	program(t, dir, "plan", "-f", "job.toml").wants(t, 5, words...)
	check()
}

func TestRanksThatAreMissing(t *testing.T) {
	whole := tiny(t, "--optimizer-shard", "1") // weights and states are held twice
	must(t, whole, "-f", "job.toml")
	want := inspected(t, whole, "out/rank_3/checkpoint_3.ckpt")

	t.Run("whose copies are there", func(t *testing.T) {
		dir := t.TempDir()
		copyTree(t, whole, dir)
		os.RemoveAll(filepath.Join(dir, "out"))
		os.RemoveAll(filepath.Join(dir, "src/rank_1"))
		must(t, dir, "-f", "job.toml")
		sameTensors(t, "rank 3", inspected(t, dir, "out/rank_3/checkpoint_3.ckpt"), want)
	})
	t.Run("with all that hold a part", func(t *testing.T) {
		dir := t.TempDir()
		copyTree(t, whole, dir)
		os.RemoveAll(filepath.Join(dir, "out"))
		os.RemoveAll(filepath.Join(dir, "src/rank_0"))
		os.RemoveAll(filepath.Join(dir, "src/rank_2"))
		refused(t, dir, "source rank 0 has no file, and target rank 0 needs its part of `", " --> rank 0", "its copies on other ranks are missing too")
	})
	t.Run("the only holder", func(t *testing.T) {
		dir := tiny(t)
		os.RemoveAll(filepath.Join(dir, "src/rank_1"))
		refused(t, dir, "source rank 1 has no file", " --> rank 1", "no other rank holds that part")
	})
	t.Run("an empty file", func(t *testing.T) {
		dir := tiny(t)
		name := rankFile(t, dir, "1")
		cut(t, name, 0)
		refused(t, dir, "source rank 1 has no file", "warning: folder `rank_1` holds no checkpoint", "--> rank_1/"+filepath.Base(name)+" rank 1", "the file is empty", "copy it again")
	})
	t.Run("a pointer of Git LFS", func(t *testing.T) {
		dir := tiny(t)
		name := rankFile(t, dir, "1")
		write(t, dir, filepath.Join("src/rank_1", filepath.Base(name)), "version https://git-lfs.github.com/spec/v1\noid sha256:"+strings.Repeat("0", 64)+"\nsize 100000\n")
		refused(t, dir, "source rank 1 has no file", "this is a Git LFS pointer", "git lfs pull")
	})
	t.Run("all of them", func(t *testing.T) {
		dir := tiny(t)
		for r := range 4 {
			os.Remove(rankFile(t, dir, fmt.Sprint(r)))
		}
		check := unchanged(t, dir)
		program(t, dir, "-f", "job.toml").wants(t, 2, "no rank folder of `src` holds a checkpoint", "job.toml:5:12")
		check()
	})
	t.Run("and target.ranks do not need it", func(t *testing.T) {
		dir := tiny(t, "--optimizer-shard", "1", "--to", "tp=2")
		os.RemoveAll(filepath.Join(dir, "src/rank_1"))
		os.RemoveAll(filepath.Join(dir, "src/rank_3"))
		program(t, dir, "-f", "job.toml").wants(t, 5, "source rank 1 has no file")
		must(t, dir, "-f", "job.toml", "--set", "target.ranks=[0]")
	})
}

func TestFilesThatAreCut(t *testing.T) {
	t.Run("inside a record", func(t *testing.T) {
		dir := tiny(t)
		name := rankFile(t, dir, "2")
		b := read(t, name)
		ends := records(t, b)
		middle := ends[len(ends)/2]
		cut(t, name, middle+(ends[len(ends)/2+1]-middle)/2)
		refused(t, dir, "the file ends inside the record of `", "bytes are missing",
			fmt.Sprintf("--> rank_2/%s rank 2 at byte %d", filepath.Base(name), middle), "hint: the file is cut off: copy it again")
		program(t, dir, "inspect", name).wants(t, 5, "the file ends inside the record of `", fmt.Sprintf("at byte %d", middle))
	})
	t.Run("at every byte of the first record", func(t *testing.T) {
		dir := tiny(t)
		name := rankFile(t, dir, "2")
		for _, n := range []int{1, 2, 3, 5, 10, 20, 50, 100} {
			if n < records(t, read(t, name))[0] {
				b := read(t, name)
				short := write(t, dir, "short.ckpt", string(b[:n]))
				program(t, dir, "inspect", short).wants(t, 5, "--> short.ckpt", "error: ")
			}
		}
	})
	t.Run("between two records that only this file holds", func(t *testing.T) {
		dir := tiny(t)
		name := rankFile(t, dir, "2")
		ends := records(t, read(t, name))
		cut(t, name, ends[len(ends)/2])
		refused(t, dir, "the file of source rank 2 lacks `", "which target rank", fmt.Sprintf("--> rank_2/%s rank 2", filepath.Base(name)), "copy the rank's file")
	})
	t.Run("between two records that another file holds too", func(t *testing.T) {
		dir := tiny(t, "--optimizer-shard", "1")
		must(t, dir, "-f", "job.toml")
		want := inspected(t, dir, "out/rank_3/checkpoint_3.ckpt")
		name := rankFile(t, dir, "3")
		ends := records(t, read(t, name))
		cut(t, name, ends[len(ends)/2])
		c := must(t, dir, "-f", "job.toml", "--set", "target.path=again")
		c.wants(t, 0, "warning: the file of rank 3 lacks 12 parameters that the strategy gives: `", "copies on other ranks are read",
			fmt.Sprintf("--> rank_3/%s rank 3", filepath.Base(name)), "a file may have been cut between two records")
		sameTensors(t, "rank 3", inspected(t, dir, "again/rank_3/checkpoint_3.ckpt"), want)
	})
	t.Run("inside the header of a safetensors file", func(t *testing.T) {
		dir := tiny(t, "--format", "safetensors")
		name := rankFile(t, dir, "0")
		header := int(binary.LittleEndian.Uint64(read(t, name)))
		for _, n := range []int{8 + header/2, 8 + header - 1, 8, 4} {
			cut(t, name, n)
			program(t, dir, "inspect", name).wants(t, 5, "safetensors", "--> "+filepath.Base(name))
			check := unchanged(t, dir)
			program(t, dir, "-f", "job.toml").wants(t, 5, "rank 0")
			check()
		}
	})
	t.Run("inside the data of a safetensors file", func(t *testing.T) {
		dir := tiny(t, "--format", "safetensors")
		name := rankFile(t, dir, "0")
		size := len(read(t, name))
		cut(t, name, size-1)
		refused(t, dir, "safetensors", "rank_0/"+filepath.Base(name)+" rank 0", fmt.Sprint(size-1))
	})
	t.Run("a torch file without its directory", func(t *testing.T) {
		dir := tiny(t)
		write(t, dir, "each.toml", "version = 1\n[source]\npath = \"src\"\n[target]\npath = \"torch\"\nformat = \"torch\"\n")
		must(t, dir, "-f", "each.toml", "--per-rank")
		if err := os.RemoveAll(filepath.Join(dir, "src")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "torch"), filepath.Join(dir, "src")); err != nil {
			t.Fatal(err)
		}
		must(t, dir, "-f", "job.toml", "--set", "target.path=whole")
		name := rankFile(t, dir, "0")
		b := read(t, name)
		for _, n := range []int{len(b) - 10, len(b) - 100, len(b) / 2, 100} {
			cut(t, name, n)
			program(t, dir, "inspect", name).wants(t, 5, "torch", "--> "+filepath.Base(name), "at byte ", "hint: ")
			refused(t, dir, "rank_0/"+filepath.Base(name)+" rank 0", "copy it again")
		}
	})
}

// A file that is the right size and says the wrong thing.
func TestFilesThatDisagree(t *testing.T) {
	t.Run("a rank of another network", func(t *testing.T) {
		dir := tiny(t)
		must(t, dir, "generate", "wide", "-q", "--layers", "1", "--hidden", "64", "--ffn", "64", "--vocab", "128", "--mesh", "dp=2,tp=2")
		name := rankFile(t, dir, "1")
		write(t, dir, filepath.Join("src/rank_1", filepath.Base(name)), string(read(t, rankFile(t, filepath.Join(dir, "wide"), "1"))))
		refused(t, dir, "has a part of a tensor of shape [", "makes it [", "rank_1/"+filepath.Base(name)+" rank 1", "of different runs or steps")
	})
	t.Run("copies with other bytes", func(t *testing.T) {
		dir := tiny(t)
		name := rankFile(t, dir, "1")
		b := read(t, name)
		at := strings.Index(string(b), "norm.weight")
		if at < 0 {
			t.Fatal("no small tensor in the file")
		}
		b[at+60] ^= 1
		write(t, dir, filepath.Join("src/rank_1", filepath.Base(name)), string(b))
		check := unchanged(t, dir)
		c := program(t, dir, "-f", "job.toml")
		c.wants(t, 5, "copies of `", "differ: ranks 0 and 1 hold different bytes, first at element ", "source.replicas")
		check()
		c = must(t, dir, "-f", "job.toml", "--set", "source.replicas=first")
		c.wants(t, 0, "warning: copies of `", "`source.replicas` is \"first\": the bytes of rank 0 are taken")
		if !strings.Contains(c.out, " compared, 0 B not compared") {
			t.Errorf("copies that differ are said to be equal: %s", c.out)
		}
	})
}
