package ranks_test

import (
	"path"
	"slices"
	"testing"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/core/storage"
)

func TestChoice(t *testing.T) {
	one := func(files ...string) [][]string { return [][]string{files} }
	cases := []struct {
		name   string
		files  [][]string // by rank
		choose string
		want   []string
		err    string // what it says instead
	}{
		{name: "steps are numbers, not text", files: one("m-1_900.ckpt", "m-1_1000.ckpt"), want: []string{"m-1_1000.ckpt"}},
		{name: "epochs count before steps", files: one("m-2_5.ckpt", "m-10_1.ckpt", "m-2_900.ckpt"), want: []string{"m-10_1.ckpt"}},
		{name: "a restarted run counts before epochs", files: one("m-9_9.ckpt", "m_1-3_1.ckpt", "m_2-1_1.ckpt"), want: []string{"m_2-1_1.ckpt"}},
		{name: "MindFormers' names hold the rank", files: one("llama_rank_0-3_1.safetensors", "llama_rank_0-12_1.safetensors", "llama_rank_0_1-2_1.safetensors"), want: []string{"llama_rank_0_1-2_1.safetensors"}},
		{name: "the newest that all ranks hold", files: [][]string{{"m-1_1.ckpt", "m-1_2.ckpt", "m-1_3.ckpt"}, {"m-1_1.ckpt", "m-1_2.ckpt"}}, want: []string{"m-1_2.ckpt", "m-1_2.ckpt"}},
		{name: "no step that all ranks hold", files: [][]string{{"m-1_1.ckpt", "m-1_3.ckpt"}, {"m-1_2.ckpt", "m-1_4.ckpt"}}, err: "no step is there on all"},
		{name: "what an exception left is passed over", files: one("m-1_1.ckpt", "m-1_9_breakpoint.ckpt"), want: []string{"m-1_1.ckpt"}},
		{name: "parts of the network are passed over", files: one("m-1_1.ckpt", "m-network-1_9.ckpt", "m-trainable_params-1_9.ckpt"), want: []string{"m-1_1.ckpt"}},
		{name: "names that say nothing", files: one("a.ckpt", "b.ckpt"), err: "do not say which is newest"},
		{name: "two files of one step", files: one("m-1_1.ckpt", "m-1_1.safetensors"), err: "two files of one step"},
		{name: "one file needs no choice", files: [][]string{{"a.ckpt"}, {"b.ckpt"}}, want: []string{"a.ckpt", "b.ckpt"}},
		{name: "MindSpore takes the last name in byte order", files: one("m-2_900.ckpt", "m-10_40.ckpt"), choose: "mindspore", want: []string{"m-2_900.ckpt"}},
		{name: "of files that an exception left too", files: one("m-2_900.ckpt", "m-2_900_breakpoint.ckpt"), choose: "mindspore", want: []string{"m-2_900_breakpoint.ckpt"}},
		{name: "and of safetensors the greatest last two numbers", files: one("m-2_900.safetensors", "m-10_40.safetensors"), choose: "mindspore", want: []string{"m-10_40.safetensors"}},
		{name: "a glob", files: one("m-2_900.ckpt", "m-10_40.ckpt"), choose: "m-2_*.ckpt", want: []string{"m-2_900.ckpt"}},
		{name: "a glob applies to a single file too", files: one("m-2_900.ckpt"), choose: "x*", err: "matches 0 files of rank 0"},
		{name: "a glob must match one", files: one("m-2_900.ckpt", "m-2_40.ckpt"), choose: "m-2_*", err: "matches 2 files of rank 0"},
	}
	for _, c := range cases {
		fs := storage.NewMemory()
		for r, list := range c.files {
			for _, n := range list {
				put(t, fs, rank(r, n), f32("w", 2))
			}
		}
		got, err := open(fs, "ckpt", strategy(t, 1, len(c.files), param{name: "w", cut: 0, ndim: 1}), func(o *ranks.Options) {
			o.Select = c.choose
			if c.choose != "" && c.choose != "mindspore" {
				o.Match = func(name string) bool { ok, _ := path.Match(c.choose, name); return ok }
			}
		})
		if c.err != "" {
			wantError(t, c.name, err, diag.Usage, c.err)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var want []string
		for r, n := range c.want {
			want = append(want, rank(r, n)[len("ckpt/"):])
		}
		if !slices.Equal(files(got), want) {
			t.Errorf("%s: %v are read, want %v", c.name, files(got), want)
		}
		over := 0
		for _, list := range c.files {
			over += len(list) - 1
		}
		if over > 0 && !said(got.Warnings, "passed over") {
			t.Errorf("%s: %d files were passed over, which is not said", c.name, over)
		}
	}
}

// Files that are none of ours, and folders that are no ranks, are not looked at.
func TestOtherFiles(t *testing.T) {
	fs := storage.NewMemory()
	put(t, fs, rank(0, "a.ckpt"), f32("w", 2))
	put(t, fs, rank(1, "a.ckpt"), f32("w", 2))
	for _, n := range []string{"rank_x/a.ckpt", "rank_0_bak/a.ckpt", "rank_/a.ckpt", "other/a.ckpt", "rank_1/.hidden.ckpt", "rank_1/b.tmp", "rank_-1/a.ckpt"} {
		put(t, fs, "ckpt/"+n, f32("other", 2))
	}
	fs.Put(rank(0, "meta.json"), []byte(`{"last_epoch":1}`))
	fs.Put(rank(0, "m-graph.meta"), []byte("graph"))
	fs.Put(rank(0, "empty.lock"), nil)
	fs.Put("ckpt/readme.md", []byte("text"))
	c, err := open(fs, "ckpt", strategy(t, 1, 2, param{name: "w", cut: 0, ndim: 1}))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := files(c), []string{"rank_0/a.ckpt", "rank_1/a.ckpt"}; !slices.Equal(got, want) {
		t.Errorf("%v are read, want %v", got, want)
	}
}

func TestRankFolders(t *testing.T) {
	s := strategy(t, 1, 2, param{name: "w", cut: 0, ndim: 1})

	fs := storage.NewMemory()
	put(t, fs, "ckpt/rank_1/a.ckpt", f32("w", 2))
	put(t, fs, "ckpt/rank_01/a.ckpt", f32("w", 2))
	_, err := open(fs, "ckpt", s)
	wantError(t, "two folders of one rank", err, diag.Usage, "rank 1 has two folders", "rank_01")

	fs = storage.NewMemory()
	put(t, fs, rank(0, "a.ckpt"), f32("w", 2))
	if _, err := fs.MakeDir(t.Context(), "ckpt/rank_1"); err != nil {
		t.Fatal(err)
	}
	c, err := open(fs, "ckpt", s)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Ranks) != 1 || !said(c.Warnings, "rank_1", "holds no checkpoint") {
		t.Errorf("an empty folder: %d ranks and the warnings %v, want 1 and one about rank_1", len(c.Ranks), c.Warnings)
	}

	fs = storage.NewMemory()
	if _, err := fs.MakeDir(t.Context(), "ckpt/rank_0"); err != nil {
		t.Fatal(err)
	}
	_, err = open(fs, "ckpt", s)
	wantError(t, "nothing but empty folders", err, diag.Usage, "no rank folder")

	fs = storage.NewMemory()
	for r := range 4 {
		put(t, fs, rank(r, "a.ckpt"), f32("w", 2))
	}
	c, err = open(fs, "ckpt", s)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Ranks) != 2 || !said(c.Warnings, "4 rank folders", "2 ranks") {
		t.Errorf("folders beyond the strategy: %d ranks and the warnings %v, want 2 and one that counts both", len(c.Ranks), c.Warnings)
	}

	fs = storage.NewMemory()
	put(t, fs, rank(7, "a.ckpt"), f32("w", 2))
	_, err = open(fs, "ckpt", s)
	wantError(t, "no folder that the strategy knows", err, diag.Usage, "2 ranks", "none of them")

	_, err = open(storage.NewMemory(), "ckpt", s)
	wantError(t, "no source at all", err, diag.Usage, "there is no `ckpt`")

	fs = storage.NewMemory()
	fs.Put("ckpt/x.txt", []byte("text"))
	_, err = open(fs, "ckpt", nil)
	wantError(t, "a folder without a checkpoint", err, diag.Usage, "holds no checkpoint")
}

// Without a strategy nothing says how the files of ranks belong together.
func TestNoStrategy(t *testing.T) {
	fs := storage.NewMemory()
	for r := range 3 {
		put(t, fs, rank(r, "a.ckpt"), f32("w", 2), f32("b", 1))
	}
	_, err := open(fs, "ckpt", nil)
	wantError(t, "three ranks and no strategy", err, diag.Usage, "3 rank folders", "source.strategy", "--per-rank")

	c, err := open(fs, "ckpt", nil, func(o *ranks.Options) { o.TargetPlaced = true })
	if err != nil {
		t.Fatal(err)
	}
	if c.Stages != 1 || c.Devices != 3 || len(c.Tensors) != 2 || !slices.Equal(c.Tensors[0].Shape, []int64{2}) || c.Tensors[0].Places[0].Layout.Replicas() != 3 {
		t.Errorf("with a target's strategy the ranks hold copies; got %d stages of %d ranks, %+v", c.Stages, c.Devices, c.Tensors)
	}

	c, err = open(fs, "ckpt", nil, func(o *ranks.Options) { o.PerRank = true })
	if err != nil {
		t.Fatal(err)
	}
	if !c.PerRank || len(c.Tensors) != 6 || c.Tensors[3].Places[0].Stage != 1 {
		t.Errorf("rank by rank there are 6 tensors, got %d: %+v", len(c.Tensors), c.Tensors)
	}

	fs = storage.NewMemory()
	put(t, fs, rank(1, "a.ckpt"), f32("w", 2))
	_, err = open(fs, "ckpt", nil)
	wantError(t, "one rank that is not the first", err, diag.Usage, "rank 1 alone")

	fs = storage.NewMemory()
	put(t, fs, rank(0, "a.ckpt"), f32("w", 2))
	if c, err = open(fs, "ckpt", nil); err != nil || len(c.Tensors) != 1 {
		t.Errorf("one rank folder is a full checkpoint: %v", err)
	}
	if c, err = open(fs, "ckpt/rank_0/a.ckpt", nil); err != nil || len(c.Tensors) != 1 || !slices.Equal(files(c), []string{"a.ckpt"}) {
		t.Errorf("a file is a full checkpoint: %v", err)
	}
}

// A folder's name must not cost memory.
func TestFarRank(t *testing.T) {
	for _, change := range []func(*ranks.Options){
		func(o *ranks.Options) { o.PerRank = true },
		func(o *ranks.Options) { o.TargetPlaced = true },
	} {
		fs := storage.NewMemory()
		put(t, fs, rank(0, "a.ckpt"), f32("w", 2))
		put(t, fs, rank(999999999, "a.ckpt"), f32("w", 2))
		_, err := open(fs, "ckpt", nil, change)
		wantError(t, "rank_999999999", err, diag.Usage, "999999999")
	}
}
