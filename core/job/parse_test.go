package job

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/mapping"
	"github.com/seed-e934e81e/convert/core/mesh"
	"github.com/seed-e934e81e/convert/core/storage"
)

const minimal = "version = 1\n[source]\npath = \"in\"\n[target]\npath = \"out\"\n"

func env(name string) (string, bool) {
	v, ok := map[string]string{"HOME": "/home/me", "STEP": "12000", "EMPTY": "", "MONEY": "a$1"}[name]
	return v, ok
}

func parse(t *testing.T, text string, set ...string) *Job {
	t.Helper()
	j, list := Parse("job.toml", []byte(text), Options{Env: env, Set: set, Dir: "/jobs"})
	if j == nil {
		t.Fatalf("the job is refused: %v\n%s", list, text)
	}
	return j
}

func TestDefaults(t *testing.T) {
	j := parse(t, minimal)
	j.places = nil
	want := &Job{
		Name: "job.toml",
		Text: []byte(minimal),
		Source: Source{
			Path:     Path{Text: "in", Full: filepath.FromSlash("/jobs/in")},
			Select:   Select{Rule: SelectNewest},
			Replicas: ReplicasError,
			CRC:      CRCCheck,
		},
		Target: Target{
			Path:      Path{Text: "out", Full: filepath.FromSlash("/jobs/out")},
			Prefix:    "checkpoint_",
			Missing:   MissingError,
			Leftovers: LeftoversError,
			Replicas:  CopiesCopy,
		},
		Run:    Run{Workers: 4, Memory: 256 << 20, IO: storage.Auto, OnExists: ExistsFail},
		Verify: Verify{Mode: VerifyDigest, Replicas: CompareSmall},
	}
	if !reflect.DeepEqual(j, want) {
		t.Errorf("a minimal job is\n%+v, want\n%+v", j, want)
	}
}

func TestKeys(t *testing.T) {
	const layouts = "[[target.layout]]\nmatch = \"*\"\nshard = \"replicate\"\n"
	for _, tt := range []struct {
		name string
		text string // added to the minimal job, after [target]
		get  func(*Job) any
		want any
	}{
		{"target.format", `format = "safetensors"`, func(j *Job) any { return j.Target.Format }, "safetensors"},
		{"target.strategy", `strategy = "s.ckpt"`, func(j *Job) any { return j.Target.Strategy }, []Path{{"s.ckpt", "/jobs/s.ckpt"}}},
		{"target.strategy, several", `strategy = ["a", "/b"]`, func(j *Job) any { return j.Target.Strategy }, []Path{{"a", "/jobs/a"}, {"/b", "/b"}}},
		{
			"target.mesh", "mesh = { axes = [\"pp\", \"dp\"], shape = [1, 8] }\n" + layouts,
			func(j *Job) any { return j.Target.Mesh }, &mesh.Mesh{Axes: []string{"pp", "dp"}, Shape: []int{1, 8}},
		},
		{
			"target.mesh as a table", "[target.mesh]\naxes = [\"dp\"]\nshape = [8]\n" + layouts,
			func(j *Job) any { return j.Target.Mesh }, &mesh.Mesh{Axes: []string{"dp"}, Shape: []int{8}},
		},
		{"target.prefix", `prefix = "llama_"`, func(j *Job) any { return []any{j.Target.Prefix, j.Target.HasPrefix} }, []any{"llama_", true}},
		{"target.prefix, empty", `prefix = ""`, func(j *Job) any { return []any{j.Target.Prefix, j.Target.HasPrefix} }, []any{"", true}},
		{"target.ranks", `ranks = [3, 1]`, func(j *Job) any { return j.Target.Ranks }, []int{1, 3}},
		{"target.dtype", `dtype = "bf16"`, func(j *Job) any { return j.Target.DType }, dtype.BF16},
		{"target.missing", `missing = "skip"`, func(j *Job) any { return j.Target.Missing }, MissingSkip},
		{"target.leftovers, drop", `leftovers = "drop"`, func(j *Job) any { return j.Target.Leftovers }, LeftoversDrop},
		{"target.leftovers, merge", `leftovers = "merge"`, func(j *Job) any { return j.Target.Leftovers }, LeftoversMerge},
		{"target.crc", `crc = true`, func(j *Job) any { return j.Target.CRC }, true},
		{"target.replicas", `replicas = "link"`, func(j *Job) any { return j.Target.Replicas }, CopiesLink},
		{"target.max_file_size", `max_file_size = "5GB"`, func(j *Job) any { return j.Target.MaxFileSize }, int64(5e9)},
		{"target.max_file_size, in bytes", `max_file_size = 1000`, func(j *Job) any { return j.Target.MaxFileSize }, int64(1000)},
		{"run.workers", "[run]\nworkers = 16", func(j *Job) any { return j.Run.Workers }, 16},
		{"run.memory", "[run]\nmemory = \"1.5 GiB\"", func(j *Job) any { return j.Run.Memory }, int64(3 << 29)},
		{"run.io, direct", "[run]\nio = \"direct\"", func(j *Job) any { return j.Run.IO }, storage.Direct},
		{"run.io, buffered", "[run]\nio = \"buffered\"", func(j *Job) any { return j.Run.IO }, storage.Buffered},
		{"run.on_exists", "[run]\non_exists = \"replace\"", func(j *Job) any { return j.Run.OnExists }, ExistsReplace},
		{"verify.mode, none", "[verify]\nmode = \"none\"", func(j *Job) any { return j.Verify.Mode }, VerifyNone},
		{"verify.mode, header", "[verify]\nmode = \"header\"", func(j *Job) any { return j.Verify.Mode }, VerifyHeader},
		{"verify.mode, read-back", "[verify]\nmode = \"read-back\"", func(j *Job) any { return j.Verify.Mode }, VerifyReadBack},
		{"verify.sha256", "[verify]\nsha256 = true", func(j *Job) any { return j.Verify.SHA256 }, true},
		{"verify.replicas", "[verify]\nreplicas = \"none\"", func(j *Job) any { return j.Verify.Replicas }, CompareNone},
		{
			"map", "[[map]]\nmatch = 'a(\\d+)'\nto = \"b$1\"\ndtype = \"f32\"\n[[map]]\nmatch = 'x.*'\ndrop = true",
			func(j *Job) any { return j.Maps },
			[]mapping.Rule{{Match: `a(\d+)`, To: "b$1", DType: dtype.F32}, {Match: "x.*", Drop: true}},
		},
	} {
		if got := tt.get(parse(t, minimal+tt.text)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestSourceKeys(t *testing.T) {
	glob := func(s string) Select {
		g, err := CompileGlob(s)
		if err != nil {
			t.Fatal(err)
		}
		return Select{Rule: SelectGlob, Glob: g}
	}
	for _, tt := range []struct {
		text string
		get  func(Source) any
		want any
	}{
		{`format = "mindspore"`, func(s Source) any { return s.Format }, "mindspore"},
		{`strategy = "/s"`, func(s Source) any { return s.Strategy }, []Path{{"/s", "/s"}}},
		{`select = "newest"`, func(s Source) any { return s.Select }, Select{Rule: SelectNewest}},
		{`select = "mindspore"`, func(s Source) any { return s.Select }, Select{Rule: SelectMindSpore}},
		{`select = "*-2_*.ckpt"`, func(s Source) any { return s.Select }, glob("*-2_*.ckpt")},
		{`replicas = "by-rank"`, func(s Source) any { return s.Replicas }, ReplicasByRank},
		{`replicas = "first"`, func(s Source) any { return s.Replicas }, ReplicasFirst},
		{`crc = "ignore"`, func(s Source) any { return s.CRC }, CRCIgnore},
		{
			"mesh = { axes = [\"tp\"], shape = [4] }\n[[source.layout]]\nmatch = \"*\"\nshard = [\"tp\"]",
			func(s Source) any { return []any{*s.Mesh, s.Layouts[0].Shard} },
			[]any{mesh.Mesh{Axes: []string{"tp"}, Shape: []int{4}}, [][]string{{"tp"}}},
		},
	} {
		j := parse(t, "version = 1\n[target]\npath = \"out\"\n[source]\npath = \"in\"\n"+tt.text)
		if got := tt.get(j.Source); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.text, got, tt.want)
		}
	}
}

const meshed = minimal + "mesh = { axes = [\"pp\", \"dp\", \"tp\"], shape = [2, 2, 4] }\n"

func TestLayoutRules(t *testing.T) {
	j := parse(t, meshed+`
[[target.layout]]
match = "*.attention.w[qkv].weight"
shard = ["tp", "none"]
stage = 1

[[target.layout]]
match = ["*.wo.weight", "head"]
shard = [["tp", "dp"], "none"]
stage = [0, 1]

[[target.layout]]
match = "*.norm"
shard = ["none"]
optimizer_shard = 4

[[target.layout]]
match = "*"
shard = "replicate"
optimizer_shard = -1
`)
	r, ok := j.TargetRules()
	if !ok || r.Stages() != 2 || r.Devices() != 8 {
		t.Fatalf("the mesh has %d stages of %d, want 2 of 8", r.Stages(), r.Devices())
	}
	stage := mesh.Mesh{Axes: []string{"dp", "tp"}, Shape: []int{2, 4}}
	lay := func(opt int, dims ...[]int) *layout.Layout {
		l, err := layout.New(stage, dims, opt)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, tt := range []struct {
		tensor string
		ndim   int
		in     []int
		want   *layout.Layout
		stages []int
	}{
		{"l.0.attention.wq.weight", 2, nil, lay(1, []int{1}, nil), []int{1}},
		{"l.0.wo.weight", 2, []int{1}, lay(1, []int{1, 0}, nil), []int{0, 1}},
		{"head", 2, nil, lay(1, []int{1, 0}, nil), []int{0, 1}},
		{"l.0.norm", 1, nil, lay(4, nil), []int{0, 1}},
		{"l.0.norm", 1, []int{1}, lay(4, nil), []int{1}},
		{"l.0.attention.wx.weight", 3, nil, lay(layout.All, nil, nil, nil), []int{0, 1}},
	} {
		got, err := r.Place(tt.tensor, tt.ndim, tt.in)
		if err != nil {
			t.Errorf("Place(%s, %d): %v", tt.tensor, tt.ndim, err)
			continue
		}
		var stages []int
		for _, p := range got {
			stages = append(stages, p.Stage)
			if !p.Layout.Equal(tt.want) || p.Name != tt.tensor {
				t.Errorf("Place(%s, %d) = %s %v, want %v", tt.tensor, tt.ndim, p.Name, p.Layout, tt.want)
			}
		}
		if !reflect.DeepEqual(stages, tt.stages) {
			t.Errorf("Place(%s) puts it in stages %v, want %v", tt.tensor, stages, tt.stages)
		}
	}
	if _, err := r.Place("l.0.attention.wq.weight", 3, nil); err == nil || diag.From(err)[0].Subject.Line != 10 {
		t.Errorf("a rule for 2 dims on a tensor of 3 gives %v, want an error at its shard in line 10", err)
	}
}

func TestUnmatchedNameIsAnError(t *testing.T) {
	j := parse(t, meshed+"[[target.layout]]\nmatch = \"a\"\nshard = []\n")
	r, _ := j.TargetRules()
	if _, err := r.Place("b", 1, nil); err == nil || !strings.Contains(err.Error(), "no `[[target.layout]]` matches `b`") {
		t.Errorf("a name that no rule matches gives %v", err)
	}
	if _, ok := j.SourceRules(); ok {
		t.Error("a source without a mesh has rules")
	}
}

func TestSet(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  []string
		get  func(*Job) any
		want any
	}{
		{"a bare string", []string{"target.path=elsewhere"}, func(j *Job) any { return j.Target.Path.Text }, "elsewhere"},
		{"a quoted string", []string{`target.path="else where"`}, func(j *Job) any { return j.Target.Path.Text }, "else where"},
		{"an equals sign in the value", []string{"target.path=a=b"}, func(j *Job) any { return j.Target.Path.Text }, "a=b"},
		{"digits where a string is wanted", []string{"target.prefix=1"}, func(j *Job) any { return j.Target.Prefix }, "1"},
		{"a date where a string is wanted", []string{"target.path=2026-01-02"}, func(j *Job) any { return j.Target.Path.Text }, "2026-01-02"},
		{"an integer", []string{"run.workers=2"}, func(j *Job) any { return j.Run.Workers }, 2},
		{"a boolean", []string{"target.crc=true"}, func(j *Job) any { return j.Target.CRC }, true},
		{"a list", []string{"target.ranks=[0, 2]"}, func(j *Job) any { return j.Target.Ranks }, []int{0, 2}},
		{"a size", []string{"run.memory=1 GiB"}, func(j *Job) any { return j.Run.Memory }, int64(1 << 30)},
		{"the last one wins", []string{"run.workers=2", "run.workers=3"}, func(j *Job) any { return j.Run.Workers }, 3},
		{
			"a key of a table set before",
			[]string{"verify={sha256=true}", "verify.mode=none"},
			func(j *Job) any { return j.Verify },
			Verify{Mode: VerifyNone, SHA256: true, Replicas: CompareSmall},
		},
		{"the environment", []string{"target.path=${HOME}/x"}, func(j *Job) any { return j.Target.Path.Full }, "/home/me/x"},
	} {
		if got := tt.get(parse(t, minimal, tt.set...)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q gives %v, want %v", tt.name, tt.set, got, tt.want)
		}
	}
}

func TestSetReplacesInTheMesh(t *testing.T) {
	j := parse(t, meshed+"[[target.layout]]\nmatch = \"*\"\nshard = \"replicate\"\n", "target.mesh.shape=[1,1,2]")
	if got, want := j.Target.Mesh.Shape, []int{1, 1, 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("the shape is %v, want %v", got, want)
	}
}

func TestEnvironment(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`"${HOME}/step-${STEP}"`, "/home/me/step-12000"},
		{`'${HOME}${EMPTY}$'`, "/home/me$"},
		{`"$${HOME}"`, "${HOME}"},
		{`"$HOME"`, "$HOME"},
		{`"a$$b"`, "a$$b"},
		{`"\u0024{HOME}"`, "/home/me"},
	} {
		j := parse(t, "version = 1\nsource.path = "+tt.text+"\ntarget.path = \"out\"")
		if got := j.Source.Path.Text; got != tt.want {
			t.Errorf("%s becomes %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestEnvironmentBesideGroups(t *testing.T) {
	for _, tt := range []struct{ match, to, want string }{
		{`(?P<n>\d+)`, "${n}", "7"},
		{`(?P<STEP>\d+)`, "${STEP}", "7"}, // the group wins
		{`(\d+)`, "${1}-${STEP}", "7-12000"},
		{`(\d+)`, "$1-${MONEY}", "7-a$1"}, // what is filled in is no template
		{`(\d+)`, "$${STEP}", "${STEP}"},
		{`(\d+)`, "$$1", "$1"},
		{`${EMPTY}(\d+)`, "a$1", "a7"},
	} {
		j := parse(t, minimal+"[[map]]\nmatch = '"+tt.match+"'\nto = '"+tt.to+"'\n")
		m, err := mapping.Compile(j.Maps)
		if err != nil {
			t.Errorf("`%s` → `%s`: %v", tt.match, tt.to, err)
			continue
		}
		if got := m.Apply("7").To; got != tt.want {
			t.Errorf("`%s` → `%s` makes %q of 7, want %q", tt.match, tt.to, got, tt.want)
		}
	}
}

func TestPlace(t *testing.T) {
	j := parse(t, meshed+"[[target.layout]]\nmatch = \"*\"\nshard = [\n  \"tp\",\n  [\"dp\"],\n]\n")
	for _, tt := range []struct {
		key       string
		line, col int
		width     int
	}{
		{"source.path", 3, 8, 4},
		{"source", 2, 1, 8},
		{"source.crc", 2, 1, 8},
		{"target.mesh.shape[2]", 6, 52, 1},
		{"target.mesh.axes[0]", 6, 18, 4},
		{"target.layout[0]", 7, 1, 17},
		{"target.layout[0].shard[1][0]", 11, 4, 4},
		{"target.layout[0].stage", 7, 1, 17},
		{"nowhere.at.all", 0, 0, 0},
	} {
		got := j.Place(tt.key)
		if got.Line != tt.line || got.Column != tt.col || got.Width != tt.width || got.File != "job.toml" {
			t.Errorf("Place(%s) = %s:%d:%d width %d, want job.toml:%d:%d width %d", tt.key, got.File, got.Line, got.Column, got.Width, tt.line, tt.col, tt.width)
		}
	}
}

func TestFormatsAreChecked(t *testing.T) {
	_, list := Parse("job.toml", []byte(minimal+"format = \"safetensor\""), Options{Formats: []string{"mindspore", "safetensors"}})
	if len(list) != 1 || list[0].Hint != "did you mean `safetensors`?" {
		t.Errorf("a misspelt format gives %v", list)
	}
}

func TestWarningsLeaveTheJob(t *testing.T) {
	j, list := Parse("job.toml", []byte(meshed+"[[target.layout]]\nmatch=\"*\"\nshard=\"replicate\"\n[[target.layout]]\nmatch=\"a\"\nshard=[]\n"), Options{})
	if j == nil || len(list) != 1 || list[0].Severity != diag.Warning || list[0].Subject.Line != 10 {
		t.Errorf("a layout that is never used gives %v, want one warning in line 10", list)
	}
}

func TestSpecNamesEveryKey(t *testing.T) {
	spec, err := os.ReadFile(filepath.FromSlash("../../specs/job.md"))
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if _, err := toml.Decode(minimal, &v); err != nil {
		t.Fatal(err)
	}
	d := &decoder{at: newPlaces("job.toml", ""), near: map[string]bool{}}
	j := defaults()
	d.job(build("", "", v, nil, nil), &j)
	for _, name := range names(d.schema) {
		prefix := ""
		if table, ok := strings.CutPrefix(name, "`["); ok && table[0] != '[' {
			prefix = strings.TrimSuffix(table, "]`") + "."
		}
		for _, k := range names(d.schema[name]) {
			if !strings.Contains(string(spec), "| `"+prefix+k+"` |") {
				t.Errorf("specs/job.md has no row for `%s%s`", prefix, k)
			}
		}
	}
}
