package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// copySome copies a folder; rename gives the new name of each file, "" leaves
// it out.
func copySome(t *testing.T, from, to string, rename func(string) string) {
	t.Helper()
	err := filepath.WalkDir(from, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		name := rename(filepath.ToSlash(rel))
		if name == "" {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		q := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(q), 0o755); err != nil {
			return err
		}
		return os.WriteFile(q, b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Half of one step and half of another is no checkpoint, also where every rank
// has one file only.
func TestRanksOfDifferentStepsAreRefused(t *testing.T) {
	dir := t.TempDir()
	from := "../fixtures/golden/mindspore/04_4_to_full"
	copySome(t, from+"/src", dir+"/src", func(n string) string {
		return strings.Replace(n, "-1_10.ckpt", map[bool]string{true: "-1_9.ckpt", false: "-1_10.ckpt"}[strings.HasPrefix(n, "rank_1/")], 1)
	})
	strategy, err := filepath.Abs(from + "/src_strategy.ckpt")
	if err != nil {
		t.Fatal(err)
	}
	job := filepath.Join(dir, "job.toml")
	text := fmt.Sprintf("version = 1\nsource.path = \"src\"\nsource.strategy = %q\ntarget.path = \"out.ckpt\"\n", strategy)
	if err := os.WriteFile(job, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, stderr := convert(t, "-f", job); status != 2 || !strings.Contains(stderr, "no step is there on all") {
		t.Errorf("status %d, stderr %q; want 2 and that no step is on all ranks", status, stderr)
	}
}

// A stage none of whose ranks has a file would be missing without a word.
func TestAStageWithoutFilesIsAnError(t *testing.T) {
	dir := t.TempDir()
	from := "../fixtures/golden/mindspore/08_pp2_to_pp1"
	copySome(t, from+"/src", dir+"/src", func(n string) string {
		for _, r := range []string{"rank_4/", "rank_5/", "rank_6/", "rank_7/"} {
			if strings.HasPrefix(n, r) {
				return ""
			}
		}
		return n
	})
	strategy, err := filepath.Abs(from + "/src_strategy_merged.ckpt")
	if err != nil {
		t.Fatal(err)
	}
	job := filepath.Join(dir, "job.toml")
	text := fmt.Sprintf("version = 1\nsource.path = \"src\"\nsource.strategy = %q\ntarget.path = \"out.ckpt\"\n", strategy)
	if err := os.WriteFile(job, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, stderr := convert(t, "-f", job); status != 5 || !strings.Contains(stderr, "ranks 4 to 7") {
		t.Errorf("status %d, stderr %q; want 5 and the ranks of the stage", status, stderr)
	}
	if _, err := os.Stat(dir + "/out.ckpt"); err == nil {
		t.Error("a checkpoint without a stage was written")
	}
}

// What an earlier run wrote may be what this one reads.
func TestReplaceSparesItsOwnSource(t *testing.T) {
	dir := t.TempDir()
	job := filepath.Join(dir, "job.toml")
	src, err := filepath.Abs("../fixtures/golden/mindspore/23_safetensors_4to2/src")
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := filepath.Abs("../fixtures/golden/mindspore/23_safetensors_4to2/src_strategy.ckpt")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("version = 1\nsource.path = %q\nsource.strategy = %q\ntarget.path = \"d\"\n", src, strategy)
	if err := os.WriteFile(job, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, stderr := convert(t, "-f", job); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	before, err := os.ReadFile(dir + "/d/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	again := "version = 1\nsource.path = \"d/model.safetensors\"\ntarget.path = \"d\"\ntarget.format = \"torch\"\nrun.on_exists = \"replace\"\n"
	if err := os.WriteFile(job, []byte(again), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, stderr := convert(t, "-f", job); status != 2 {
		t.Errorf("status %d: %s; want 2: the source would be taken away", status, stderr)
	}
	if after, err := os.ReadFile(dir + "/d/model.safetensors"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the source is gone or changed: %v", err)
	}
}

// A folder of the target may be a link into the source.
func TestALinkFromTheTargetIntoTheSourceIsRefused(t *testing.T) {
	dir := t.TempDir()
	from := "../fixtures/golden/mindspore/04_4_to_full"
	copySome(t, from+"/src", dir+"/src", func(n string) string { return n })
	if err := os.MkdirAll(dir+"/out", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../src/rank_0", dir+"/out/rank_0"); err != nil {
		t.Skip("no links here: ", err)
	}
	strategy, err := filepath.Abs(from + "/src_strategy.ckpt")
	if err != nil {
		t.Fatal(err)
	}
	job := filepath.Join(dir, "job.toml")
	text := fmt.Sprintf("version = 1\nsource.path = \"src\"\nsource.strategy = %q\ntarget.path = \"out\"\ntarget.prefix = \"new\"\nrun.on_exists = \"replace\"\n", strategy)
	if err := os.WriteFile(job, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, stderr := convert(t, "-f", job); status != 2 || !strings.Contains(stderr, "rank_0") {
		t.Errorf("status %d, stderr %q; want 2 and the name of the folder", status, stderr)
	}
	if list, err := os.ReadDir(dir + "/src/rank_0"); err != nil || len(list) != 1 {
		t.Errorf("the source folder has %v, %v; want its one file", list, err)
	}
}
