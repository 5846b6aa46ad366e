package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/seed-e934e81e/convert/cli/command"
	"github.com/seed-e934e81e/convert/core/manifest"
)

const jobsFolder = "../fixtures/jobs"

// exampleJobs is the example jobs by name, each as a tree of its keys.
func exampleJobs(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(jobsFolder + "/*.toml")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d example jobs (%v), want a dozen", len(files), err)
	}
	out := map[string]map[string]any{}
	for _, f := range files {
		var tree map[string]any
		if _, err := toml.DecodeFile(f, &tree); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".toml")] = tree
	}
	return out
}

// output runs the program and gives its standard output; the status is to be 0.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	none := func() int { return 0 }
	status := command.Main(command.Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, LookupEnv: os.LookupEnv, Now: time.Now,
		StdoutWidth: none, StderrWidth: none,
	}, command.Builtin())
	if status != 0 {
		t.Fatalf("%v: status %d: %s", args, status, errs.String())
	}
	return out.String()
}

// expectedOf is the jobs whose right output MindSpore itself has written.
var expectedOf = map[string]string{
	"tutorial": "01_tutorial_8to4_optshard",
	"by-rank":  "02_tutorial_by_rank",
	"mesh":     "03_full_to_4",
	"stages":   "08_pp2_to_pp1",
}

func TestEveryExampleJobRuns(t *testing.T) {
	for name, tree := range exampleJobs(t) {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(jobsFolder, name+".toml")
			path, _ := tree["target"].(map[string]any)["path"].(string)
			below, ok := strings.CutPrefix(path, "../../bin/jobs/"+name)
			if !ok {
				t.Fatalf("`target.path` is %q, want it below ../../bin/jobs/%s, which git ignores", path, name)
			}
			target := filepath.Join(t.TempDir(), name) + below
			set := []string{"-f", file, "--set", "target.path=" + target}

			var planned struct{ Digest string }
			if err := json.Unmarshal([]byte(output(t, append([]string{"plan", "--json"}, set...)...)), &planned); err != nil {
				t.Fatal(err)
			}
			var ran struct{ Plan, Manifest string }
			if err := json.Unmarshal([]byte(output(t, append([]string{"run", "--json"}, set...)...)), &ran); err != nil {
				t.Fatal(err)
			}
			if ran.Plan != planned.Digest || len(ran.Plan) != 64 {
				t.Errorf("run says the plan is %s, plan says %s", ran.Plan, planned.Digest)
			}
			checkManifest(t, ran.Manifest, planned.Digest)
			if c := expectedOf[name]; c != "" {
				sameTree(t, target, filepath.Join("../fixtures/golden/mindspore", c, "expected"), same)
			}
		})
	}
}

// checkManifest holds a manifest against its plan and against the files that
// it lists.
func checkManifest(t *testing.T, name, plan string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Parse(text)
	if err != nil {
		t.Fatalf("the manifest %v", err)
	}
	if m.Plan != plan {
		t.Errorf("the manifest is of plan %s, want %s", m.Plan, plan)
	}
	if len(m.Files) == 0 || len(m.Tensors) == 0 {
		t.Errorf("the manifest lists %d files and %d tensors", len(m.Files), len(m.Tensors))
	}
	for _, f := range m.Files {
		e, err := os.Stat(filepath.Join(filepath.Dir(name), filepath.FromSlash(f.Name)))
		if err != nil {
			t.Error(err)
		} else if e.Size() != f.Size {
			t.Errorf("%s has %d bytes, the manifest says %d", f.Name, e.Size(), f.Size)
		}
	}
}

// A second run of a job with on_exists = "replace" swaps the files of the
// first; any other job refuses.
func TestExampleJobsRunTwice(t *testing.T) {
	for name, want := range map[string]int{"select": 0, "tutorial": 2} {
		target := filepath.Join(t.TempDir(), name)
		args := []string{"-f", filepath.Join(jobsFolder, name+".toml"), "--set", "target.path=" + target}
		if status, stderr := convert(t, args...); status != 0 {
			t.Fatalf("%s: status %d: %s", name, status, stderr)
		}
		if status, stderr := convert(t, args...); status != want {
			t.Errorf("%s a second time: status %d, want %d: %s", name, status, want, stderr)
		}
	}
}

// keyInTable is the first column of the tables of keys in specs/job.md.
var keyInTable = regexp.MustCompile("(?m)^\\| ((?:`[a-z_0-9.]+`(?:, )?)+) \\|")

func TestExampleJobsUseEveryKey(t *testing.T) {
	used := map[string]bool{}
	for _, tree := range exampleJobs(t) {
		collect("", tree, used)
	}
	for key := range used { // a layout is the same table on both sides
		if _, k, ok := strings.Cut(key, ".layout."); ok {
			used["layout."+k] = true
		}
		if _, k, ok := strings.Cut(key, ".mesh."); ok {
			used["mesh."+k] = true
		}
	}
	spec, err := os.ReadFile("../specs/job.md")
	if err != nil {
		t.Fatal(err)
	}
	below := map[string]string{} // heading → prefix of the keys under it
	keys := 0
	section := ""
	for _, line := range strings.Split(string(spec), "\n") {
		switch {
		case strings.HasPrefix(line, "## "), strings.HasPrefix(line, "A **mesh**"), strings.HasPrefix(line, "A **layout**"):
			section = line
			below[section] = prefixOf(line)
		}
		m := keyInTable.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, k := range strings.Split(m[1], ", ") {
			keys++
			if k = below[section] + strings.Trim(k, "`"); !used[k] {
				t.Errorf("no example job uses `%s`", k)
			}
		}
	}
	if keys < 40 {
		t.Errorf("%d keys were found in specs/job.md, want all of them", keys)
	}
}

// prefixOf is what keys in a table of specs/job.md stand under.
func prefixOf(line string) string {
	switch {
	case strings.HasPrefix(line, "A **mesh**"):
		return "mesh."
	case strings.HasPrefix(line, "A **layout**"):
		return "layout."
	case strings.Contains(line, "[[map]]"):
		return "map."
	}
	return ""
}

// collect notes every key of a tree, dotted.
func collect(prefix string, v any, used map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			used[prefix+k] = true
			collect(prefix+k+".", x, used)
		}
	case []map[string]any:
		for _, x := range v {
			collect(prefix, x, used)
		}
	}
}

func TestEveryExampleJobSaysWhatItIs(t *testing.T) {
	for name := range exampleJobs(t) {
		text, err := os.ReadFile(filepath.Join(jobsFolder, name+".toml"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		if n := slices.IndexFunc(lines, func(s string) bool { return !strings.HasPrefix(s, "# ") }); n < 1 {
			t.Errorf("%s.toml does not begin with a comment that says what it is", name)
		}
	}
}
