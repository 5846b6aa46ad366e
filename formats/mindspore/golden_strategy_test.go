package mindspore

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/layout"
)

// describeStrategy writes what a strategy says, parameters sorted.
func describeStrategy(s *layout.Strategy) string {
	var lines []string
	for _, p := range s.Params {
		lines = append(lines, fmt.Sprintf("%d %s %s field=%d unknown=%v", p.Stage, p.Name, p.Layout.Key(), p.Field, p.OptUnknown))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d stages of %d\n%s", s.Stages, s.Devices, strings.Join(lines, "\n"))
}

func goldenStrategies(t *testing.T) map[string]*layout.Strategy {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(shared(t, "golden/mindspore"), "*", "*strategy*"))
	out := map[string]*layout.Strategy{}
	for _, p := range paths {
		s, err := strategies(t, p)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		out[filepath.Base(filepath.Dir(p))+"/"+filepath.Base(p)] = s
	}
	if len(out) < 50 {
		t.Errorf("%d golden strategies were read, want 50 or more", len(out))
	}
	return out
}

func TestGoldenStrategiesAreWrittenAndReadEqual(t *testing.T) {
	for name, s := range goldenStrategies(t) {
		again, notes, err := ReadStrategies([]StrategyFile{{"written", WriteStrategy(s)}}, noYield)
		if err != nil || len(notes) > 0 {
			t.Errorf("%s: reading what was written = %v, %v", name, notes, err)
			continue
		}
		if got, want := describeStrategy(again), describeStrategy(s); got != want {
			t.Errorf("%s: written and read it is\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestGoldenFoldersAndMergedFilesAgree(t *testing.T) {
	all := goldenStrategies(t)
	pairs := 0
	for name, merged := range all {
		folder, ok := all[strings.TrimSuffix(strings.TrimSuffix(name, "_merged.ckpt"), "_merged.json")]
		if !ok || folder == merged {
			continue
		}
		pairs++
		if got, want := describeStrategy(folder), describeStrategy(merged); got != want {
			t.Errorf("%s: the folder gives\n%s\nMindSpore's merged file\n%s", name, got, want)
		}
	}
	if pairs < 5 {
		t.Errorf("%d pairs were compared, want 5 or more", pairs)
	}
}

// undescribed tells the parameters of which the strategy does not say how they
// are stored (specs/formats/mindspore.md 2).
func undescribed(p *layout.Param) bool { return p.OptUnknown || p.Field > 0 }

func TestGoldenShapesFitTheirStrategies(t *testing.T) {
	checked := 0
	for _, c := range goldenCases(t) {
		for _, name := range []string{"src_strategy.ckpt", "src_strategy.json", "src_strategy_merged.ckpt", "src_strategy_merged.json"} {
			p, _ := filepath.Glob(filepath.Join(c.dir, name))
			if len(p) == 0 || c.name == "17_encrypted_gcm" || c.name == "31_strategy_errors" {
				continue
			}
			s, err := strategies(t, p[0])
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			checked += checkShapes(t, &c, s)
		}
	}
	if checked < 1000 {
		t.Errorf("%d stored shapes were checked, want 1000 or more", checked)
	}
}

// checkShapes gathers the global shape that each rank's part of each parameter
// implies; all must agree and be cut into just these parts.
func checkShapes(t *testing.T, c *goldenCase, s *layout.Strategy) (checked int) {
	t.Helper()
	global := map[string][]int64{}
	for rank := range s.Ranks() {
		paths, _ := filepath.Glob(filepath.Join(c.dir, "src", fmt.Sprintf("rank_%d", rank), "*.ckpt"))
		for _, path := range paths {
			b := read(t, path)
			x, err := index(b)
			if err != nil {
				continue // the cases of damage
			}
			for i := range x.Entries {
				e := &x.Entries[i]
				p := s.InStage(e.Name, rank/s.Devices)
				if p == nil || undescribed(p) {
					continue
				}
				whole, ok := p.Layout.Global(e.Shape)
				if !ok {
					t.Errorf("%s: rank %d of `%s`: %v does not fit %v", c.name, rank, e.Name, e.Shape, p.Layout)
					continue
				}
				if want, seen := global[e.Name]; seen && !slices.Equal(whole, want) {
					t.Errorf("%s: rank %d of `%s` implies %v, another %v", c.name, rank, e.Name, whole, want)
				}
				global[e.Name] = whole
				if got := p.Layout.Box(whole, rank%s.Devices).Ext; !slices.Equal(got, e.Shape) {
					t.Errorf("%s: rank %d holds %v of `%s`, its layout says %v", c.name, rank, e.Shape, e.Name, got)
				}
				if p.Shape != nil && len(p.Shape) == len(whole) && !slices.Equal(p.Shape, whole) {
					t.Errorf("%s: `%s` is %v in the strategy, %v by its parts", c.name, e.Name, p.Shape, whole)
				}
				checked++
			}
		}
	}
	return checked
}

func TestGoldenStrategyErrors(t *testing.T) {
	dir := filepath.Join(shared(t, "golden/mindspore"), "31_strategy_errors")
	for _, c := range []struct{ path, want string }{
		{"empty.ckpt", "the strategy file is empty"},
		{"garbage.ckpt", "this is not a strategy file: neither protobuf nor JSON"},
		{"nolayout.ckpt", "the strategy file names no parameter"},
		{"gap.ckpt", "the strategy is not of all stages: it has stage 1, not stage 0"},
		{"onlystage1", "the strategy is not of all stages: it has stage 1, not stage 0"},
		{"mixed", "names no parameter"},
		{"good.ckpt", ""},
		{"dash.ckpt", ""}, // MindSpore cannot read names with two dashes
	} {
		s, err := strategies(t, filepath.Join(dir, c.path))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v, want a strategy", c.path, err)
		case c.want == "" && s.Params[0].Name != map[string]string{"good.ckpt": "w", "dash.ckpt": "a-b-c"}[c.path]:
			t.Errorf("%s names `%s`", c.path, s.Params[0].Name)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
}

func TestCorpusStrategy(t *testing.T) {
	path := filepath.Join(shared(t, "corpus/dev/mindspore_strategy"), "golden-stick__3fbdfa12__ckpt_strategy_rank_0.ckpt")
	s, err := strategies(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if s.Stages != 1 || s.Devices != 2 || len(s.Params) < 300 {
		t.Errorf("%d stages of %d ranks, %d parameters; want 1 of 2 and over 300", s.Stages, s.Devices, len(s.Params))
	}
	p := s.InStage("model.layers.28.attention.wo.weight", 0)
	if p == nil || p.Layout.Counts()[1] != 2 {
		t.Errorf("wo is cut so: %v, want columns over 2 ranks", p)
	}
}
