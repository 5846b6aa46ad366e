package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every job here is refused, and nothing is left behind.
func TestJobsThatAreRefused(t *testing.T) {
	dir := tiny(t)
	must(t, dir, "generate", "other", "-q", "--layers", "2", "--hidden", "16", "--ffn", "32", "--vocab", "64", "--mesh", "tp=8", "--to", "tp=2")
	file := filepath.Join("src", "rank_1", filepath.Base(rankFile(t, dir, "1")))
	write(t, dir, "folder/src_strategy.ckpt", string(read(t, filepath.Join(dir, "src_strategy.ckpt"))))
	write(t, dir, "plain.toml", "version = 1\n[source]\npath = \"src\"\n[target]\npath = \"out\"\n")
	write(t, dir, "notes.txt", "a strategy is what this is not\n")
	write(t, dir, "full.toml", "version = 1\n[source]\npath = '"+file+"'\n[target]\npath = \"out\"\nmax_file_size = \"1 MB\"\n")
	write(t, dir, "mesh.toml", `version = 1
[source]
path = "src"
strategy = "src_strategy.ckpt"
[target]
path = "out"
mesh = { axes = ["tp"], shape = [3] }
[[target.layout]]
match = "*embed*"
shard = ["tp", "none"]
[[target.layout]]
match = "*"
shard = "replicate"
`)
	write(t, dir, "rule.toml", `version = 1
[source]
path = "src"
strategy = "src_strategy.ckpt"
[target]
path = "out"
mesh = { axes = ["tp"], shape = [2] }
[[target.layout]]
match = "*embed*"
shard = ["tp", "none"]
`)
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		words  []string
		late   bool // known only when the target is looked at, so that plan is content
	}{
		{"no job file", []string{"-f", "absent.toml"}, 2, []string{"cannot read the job `absent.toml`", "convert help job"}, false},
		{"a folder for a job", []string{"-f", "src"}, 2, []string{"cannot read the job `src`", "is a directory"}, false},
		{"a checkpoint for a job", []string{"-f", file}, 2, []string{"the job is no"}, false},
		{
			"a strategy of another network and of more ranks",
			[]string{"-f", "job.toml", "--set", "source.strategy=other/src_strategy.ckpt"},
			5,
			[]string{"source rank 4 has no file", "the source's strategy has 8 ranks, its files end with rank 3", "that no file holds", "rank 4"},
			false,
		},
		{
			"a target strategy of another network",
			[]string{"-f", "job.toml", "--set", "target.strategy=other/dst_strategy.ckpt"},
			2,
			[]string{"parameters of the target's strategy have no source: `", "--set target.strategy=other/dst_strategy.ckpt", "target.missing"},
			false,
		},
		{
			"text for a strategy",
			[]string{"-f", "job.toml", "--set", "source.strategy=notes.txt"},
			5,
			[]string{"this is not a strategy file", "--> notes.txt", "hint: "},
			false,
		},
		{
			"a checkpoint for the source's strategy",
			[]string{"-f", "job.toml", "--set", "source.strategy=" + file},
			2,
			[]string{"is a mindspore checkpoint, not a strategy file", "--set source.strategy=", "hint: a strategy file tells"},
			false,
		},
		{
			"a checkpoint for the target's strategy",
			[]string{"-f", "job.toml", "--set", "target.strategy=" + file},
			2,
			[]string{"is a mindspore checkpoint, not a strategy file", "--set target.strategy="},
			false,
		},
		{
			"a folder of checkpoints for a strategy",
			[]string{"-f", "job.toml", "--set", "source.strategy=src/rank_0"},
			2,
			[]string{"is a mindspore checkpoint, not a strategy file"},
			false,
		},
		{
			"a folder without strategies",
			[]string{"-f", "job.toml", "--set", "source.strategy=src"},
			2,
			[]string{"folder `src` holds no strategy file", "--set source.strategy=src", ".ckpt or .json"},
			false,
		},
		{
			"no such strategy",
			[]string{"-f", "job.toml", "--set", "target.strategy=absent"},
			2,
			[]string{"there is no `absent`", "--set target.strategy=absent", "relative to the job file"},
			false,
		},
		{
			"a strategy for a checkpoint",
			[]string{"-f", "job.toml", "--set", "source.path=src_strategy.ckpt"},
			5,
			[]string{"this is a strategy file, not a checkpoint", "--> src_strategy.ckpt", "give it as `source.strategy`"},
			false,
		},
		{"no such source", []string{"-f", "job.toml", "--set", "source.path=absent"}, 2, []string{"there is no `absent`", "--set source.path=absent"}, false},
		{"a folder without checkpoints", []string{"-f", "job.toml", "--set", "source.path=folder"}, 2, []string{"folder `folder` holds no checkpoint", "this is a strategy file"}, false},
		{
			"an unknown format",
			[]string{"-f", "job.toml", "--set", "source.format=tensorflow"},
			2,
			[]string{"`source.format` is `tensorflow`, it can be `mindspore`, `safetensors` or `torch`"},
			false,
		},
		{
			"an unknown target format, nearly right",
			[]string{"-f", "job.toml", "--set", "target.format=torhc"},
			2,
			[]string{"`target.format` is `torhc`", "did you mean `torch`?"},
			false,
		},
		{
			"a source of another format than the job says",
			[]string{"-f", "job.toml", "--set", "source.format=torch"},
			2,
			[]string{"no rank folder of `src` holds a checkpoint", "job.toml:5:12", "this is a mindspore file, `source.format` is `torch`"},
			false,
		},
		{
			"one file of another format than the job says",
			[]string{"-f", "plain.toml", "--set", "source.format=torch", "--set", "source.path=" + file},
			2,
			[]string{"this is a mindspore file, `source.format` is `torch`", "--> " + filepath.Base(file)},
			false,
		},
		{
			"several rank folders and no strategy",
			[]string{"-f", "plain.toml"},
			2,
			[]string{"the source has 4 rank folders, but neither source nor target has a strategy or mesh", "plain.toml:3:8", "^^^^^", "source.strategy", "--per-rank"},
			false,
		},
		{
			"max_file_size with rank folders",
			[]string{"-f", "job.toml", "--set", "target.max_file_size=1 MB"},
			2,
			[]string{"`target.max_file_size` splits a full checkpoint", "--set target.max_file_size=1 MB"},
			false,
		},
		{
			"max_file_size of a format without an index",
			[]string{"-f", "full.toml"},
			2,
			[]string{"mindspore checkpoints of several files have no index", "full.toml:6:", "max_file_size = \"1 MB\"", "write safetensors"},
			false,
		},
		{
			"--per-rank and a target strategy",
			[]string{"-f", "job.toml", "--per-rank"},
			2,
			[]string{"`--per-rank` converts each rank's file for itself", "job.toml:10:12", "^^^^^"},
			false,
		},
		{"an uneven split", []string{"-f", "mesh.toml"}, 2, []string{"embedding.word_embeddings.weight`", "128", "tp=3", "mesh.toml:7:8", "divides"}, false},
		{"a parameter without a rule", []string{"-f", "rule.toml"}, 2, []string{"no `[[target.layout]]` matches `", "rule.toml:8:1"}, false},
		{
			"a store that is not local",
			[]string{"-f", "job.toml", "--set", "target.path=s3://bucket/out"},
			2,
			[]string{"`target.path` = `s3://bucket/out`: only local files are read and written", "--set target.path=s3://bucket/out", "mount the store"},
			false,
		},
		{
			"a home folder",
			[]string{"-f", "job.toml", "--set", "source.path=~/src", "--set", "target.path=~/out"},
			2,
			[]string{"`source.path` = `~/src`: `~` is not expanded", "`target.path` = `~/out`", "write `${HOME}/out`"},
			false,
		},
		{"a target rank that there is not", []string{"-f", "job.toml", "--set", "target.ranks=[4]"}, 2, []string{"`target.ranks` has rank 4, the target has 4 ranks", "--set target.ranks=[4]"}, false},
		{
			"a target path that is a file",
			[]string{"-f", "job.toml", "--set", "target.path=notes.txt"},
			2,
			[]string{"the target's folder `notes.txt` is a file", "--set target.path=notes.txt"},
			true,
		},
		{"a target path below a file", []string{"-f", "job.toml", "--set", "target.path=notes.txt/out"}, 1, []string{"not a directory", "--> notes.txt/out"}, true},
		{
			"a target file of another format",
			[]string{"-f", "plain.toml", "--set", "source.path=" + file, "--set", "target.path=out.safetensors"},
			2,
			[]string{"`target.path` ends in .safetensors, the target's format is mindspore", "set `target.format`"},
			false,
		},
		{
			"a trailer for a format that has none",
			[]string{"-f", "job.toml", "--set", "target.format=torch", "--set", "target.crc=true"},
			2,
			[]string{"`target.crc` is MindSpore's trailer", "--set target.crc=true"},
			false,
		},
		{"the target is the source", []string{"-f", "job.toml", "--set", "target.path=src"}, 2, []string{"same place", "`src`", "--set target.path=src", "a folder of its own"}, true},
		{"the target in the source", []string{"-f", "job.toml", "--set", "target.path=src/new/deep"}, 2, []string{"one lies in the other", "`src/new/deep`"}, true},
		{"the source in the target", []string{"-f", "job.toml", "--set", "target.path=."}, 2, []string{"one lies in the other"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := unchanged(t, dir)
			program(t, dir, tt.args...).wants(t, tt.status, tt.words...)
			check()
			if !tt.late {
				program(t, dir, append([]string{"plan"}, tt.args...)...).wants(t, tt.status)
			}
		})
	}
}

// A link does not hide that source and target are one place.
func TestSamePlaceThroughLinks(t *testing.T) {
	dir := tiny(t)
	for link, to := range map[string]string{"same": "src", "inner": "src/rank_2", "outer": "."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	check := unchanged(t, dir)
	for _, set := range [][]string{
		{"target.path=same"},
		{"source.path=same", "target.path=src"},
		{"target.path=same/new"},
		{"target.path=inner"},
		{"target.path=outer/src/rank_0/x"},
		{"source.path=outer/src"}, // the target lies beside it: fine
	} {
		args := []string{"plan", "-f", "job.toml"}
		for _, s := range set {
			args = append(args, "--set", s)
		}
		want := 2
		if set[0] == "source.path=outer/src" {
			want = 0
		}
		c := program(t, dir, args[1:]...)
		if c.status != want || want == 2 && !strings.Contains(c.errors, "same place") {
			t.Errorf("%v: status %d, want %d: %s", set, c.status, want, c.errors)
		}
		if want == 0 {
			if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
				t.Fatal(err)
			}
		}
		check()
	}
}

// Where the source is one file, the target may lie beside it, but neither in
// its place nor around it.
func TestTargetBesideASourceFile(t *testing.T) {
	dir := tiny(t)
	if err := os.Rename(rankFile(t, dir, "0"), filepath.Join(dir, "model.ckpt")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "one.toml", "version = 1\n[source]\npath = \"model.ckpt\"\n[target]\npath = \"out\"\nformat = \"safetensors\"\n")
	want := inspected(t, dir, "model.ckpt")
	for set, name := range map[string]string{
		"target.path=out":                 "out/model.safetensors",
		"target.path=deep/er/out":         "deep/er/out/model.safetensors",
		"target.path=one.safetensors":     "one.safetensors",
		"target.path=sub/one.safetensors": "sub/one.safetensors",
	} {
		must(t, dir, "-f", "one.toml", "--set", set)
		sameTensors(t, set, inspected(t, dir, name), want)
	}
	must(t, dir, "-f", "one.toml", "--set", "target.path=ranks", "--set", "target.prefix=x")
	sameTensors(t, "rank folders", inspected(t, dir, "ranks/rank_0/x0.safetensors"), want)

	check := unchanged(t, dir)
	program(t, dir, "-f", "one.toml", "--set", "target.path=.", "--set", "target.prefix=x").wants(t, 2, "same place")
	program(t, dir, "-f", "one.toml", "--set", "target.path=model.ckpt", "--set", "target.format=mindspore").wants(t, 2, "same place", "`model.ckpt`")
	program(t, dir, "-f", "one.toml", "--set", "target.path=model.ckpt", "--set", "target.format=mindspore", "--set", "run.on_exists=replace").wants(t, 2, "same place")
	if err := os.Symlink("model.ckpt", filepath.Join(dir, "link.ckpt")); err == nil {
		program(t, dir, "-f", "one.toml", "--set", "target.path=link.ckpt", "--set", "target.format=mindspore", "--set", "run.on_exists=replace").wants(t, 2, "same place")
		os.Remove(filepath.Join(dir, "link.ckpt"))
	}
	check()
	sameTensors(t, "the source", inspected(t, dir, "model.ckpt"), want)
}

// What a target with files in it means, by run.on_exists.
func TestTargetThatExists(t *testing.T) {
	dir := tiny(t)
	replace := []string{"-f", "job.toml", "--set", "run.on_exists=replace"}
	must(t, dir, "-f", "job.toml")
	first := read(t, filepath.Join(dir, "out/rank_0/checkpoint_0.ckpt"))

	check := unchanged(t, dir)
	program(t, dir, "-f", "job.toml").wants(t, 2, "the target `out` has files in it, such as `", "job.toml:9:", "on_exists = \"replace\"")
	check()
	must(t, dir, replace...)
	check()

	// Fewer ranks: the old files go, and so do folders that are left empty.
	must(t, dir, "generate", "half", "-q", "--layers", "1", "--hidden", "32", "--ffn", "64", "--vocab", "128", "--mesh", "dp=2,tp=2", "--to", "tp=2")
	must(t, dir, append(replace, "--set", "target.strategy=half/dst_strategy.ckpt")...)
	if got := strings.Join(names(t, filepath.Join(dir, "out")), " "); got != "convert.manifest.json rank_0/ rank_0/checkpoint_0.ckpt rank_1/ rank_1/checkpoint_1.ckpt" {
		t.Errorf("after a replacement by two ranks the target holds %s", got)
	}

	// A file of someone else beside ours stays as it is.
	mine := write(t, dir, "out/rank_0/notes.txt", "mine")
	must(t, dir, replace...)
	if got := read(t, mine); string(got) != "mine" {
		t.Errorf("a file of someone else is now %q", got)
	}
	if got := read(t, filepath.Join(dir, "out/rank_0/checkpoint_0.ckpt")); string(got) != string(first) {
		t.Errorf("the replaced file differs from the first")
	}

	// One in the way of ours is not replaced.
	if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	mine = write(t, dir, "out/rank_3/checkpoint_3.ckpt", "mine")
	check = unchanged(t, dir)
	program(t, dir, replace...).wants(t, 2, "`rank_3/checkpoint_3.ckpt` is in the way, and no earlier manifest lists it", "--> out", "move this one away")
	check()
	program(t, dir, "-f", "job.toml").wants(t, 2, "has files in it, such as `rank_3/checkpoint_3.ckpt`")
	check()
	if got := read(t, mine); string(got) != "mine" {
		t.Errorf("a file of someone else is now %q", got)
	}

	// An empty target, and one with hidden files only, are fine.
	for _, name := range []string{"", ".keep"} {
		if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
			t.Fatal(err)
		}
		if name != "" {
			write(t, dir, "out/"+name, "")
		}
		must(t, dir, "-f", "job.toml")
	}
}

// Each rank's file is converted for itself.
func TestPerRank(t *testing.T) {
	dir := tiny(t)
	write(t, dir, "each.toml", "version = 1\n[source]\npath = \"src\"\n[target]\npath = \"out\"\nformat = \"safetensors\"\n")
	must(t, dir, "-f", "each.toml", "--per-rank")
	for _, r := range []string{"0", "1", "2", "3"} {
		want := inspected(t, dir, rankFile(t, dir, r))
		got := inspected(t, dir, "out/rank_"+r+"/checkpoint_"+r+".safetensors")
		sameTensors(t, "rank "+r, got, want)
	}
	c := must(t, dir, "-f", "each.toml", "--per-rank", "--set", "target.path=again", "--set", "source.strategy=src_strategy.ckpt")
	if !strings.Contains(c.errors, "warning: the source's strategy is not used with `--per-rank`") {
		t.Errorf("nothing tells that the strategy is not used: %s", c.errors)
	}
	must(t, dir, "-f", "each.toml", "--set", "target.path=two", "--set", "target.ranks=[1, 3]")
	if got := strings.Join(names(t, filepath.Join(dir, "two")), " "); got != "convert.manifest.json rank_1/ rank_1/checkpoint_1.safetensors rank_3/ rank_3/checkpoint_3.safetensors" {
		t.Errorf("target.ranks = [1, 3] writes %s", got)
	}
}

// Rank folders that the strategy does not have are not read, and that is said:
// nothing in the files can tell that the strategy is of another run.
func TestStrategyOfFewerRanks(t *testing.T) {
	dir := tiny(t)
	must(t, dir, "generate", "less", "-q", "--layers", "1", "--hidden", "32", "--ffn", "64", "--vocab", "128", "--mesh", "tp=2", "--to", "tp=1")
	c := must(t, dir, "-f", "job.toml", "--set", "source.strategy=less/src_strategy.ckpt")
	c.wants(t, 0, "warning: the source has 4 rank folders, its strategy 2 ranks: those from rank 2 on are not read", "the strategy is of another run")
}
