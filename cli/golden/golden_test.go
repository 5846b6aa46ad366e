package golden

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/engine"
	"github.com/seed-e934e81e/convert/core/job"
	"github.com/seed-e934e81e/convert/core/pipeline"
	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/core/layout"
)

type goldenCase struct {
	Expect    string   `json:"expect"`
	Tags      []string `json:"tags"`
	Leftovers string   `json:"leftovers"`
	Calls     []struct {
		API    string         `json:"api"`
		Args   []any          `json:"args"`
		Kwargs map[string]any `json:"kwargs"`
	} `json:"calls"`
}

func run(t *testing.T, text, dir string) error {
	j, ds := job.Parse("job.toml", []byte(text), job.Options{Dir: dir, Env: func(string) (string, bool) { return "", false }})
	if len(ds) > 0 {
		return ds
	}
	e := pipeline.Env{FS: sfs{}, Formats: []checkpoint.Format{mindspore.Format{}, safetensors.Format{}}, Strategies: strats}
	r, err := pipeline.Make(context.Background(), j, e)
	if err != nil {
		return err
	}
	r.Options.Now = time.Now
	res, err := engine.Run(context.Background(), r.Plan, r.Options)
	if err == nil {
		for _, w := range append(r.Warnings, res.Warnings...) {
			t.Logf("warning: %v", w)
		}
	}
	return err
}

func TestGolden(t *testing.T) {
	root := "../../../shared/golden/mindspore"
	dirs, _ := filepath.Glob(root + "/[0-9]*")
	for _, d := range dirs {
		t.Run(filepath.Base(d), func(t *testing.T) {
			b, _ := os.ReadFile(d + "/case.json")
			var c goldenCase
			json.Unmarshal(b, &c)
			for _, call := range c.Calls {
				if call.API != "transform_checkpoints" {
					continue
				}
				abs, _ := filepath.Abs(d)
				out := filepath.Join(t.TempDir(), "out")
				var s strings.Builder
				fmt.Fprintf(&s, "version = 1\n[source]\npath = %q\n", filepath.Join(abs, "src"))
				if x, ok := call.Args[3].(string); ok {
					fmt.Fprintf(&s, "strategy = %q\n", filepath.Join(abs, x))
				}
				fmt.Fprintf(&s, "[target]\npath = %q\nprefix = %q\n", out, call.Args[2])
				if x, ok := call.Args[4].(string); ok {
					fmt.Fprintf(&s, "strategy = %q\n", filepath.Join(abs, x))
				}
				if x, ok := call.Kwargs["output_format"].(string); ok {
					fmt.Fprintf(&s, "format = %q\n", x)
				}
				if c.Leftovers != "" {
					fmt.Fprintf(&s, "leftovers = %q\nmissing = \"skip\"\n", c.Leftovers)
				}
				err := run(t, s.String(), abs)
				if err != nil {
					for _, x := range diag.From(err) {
						t.Errorf("%s: %v\n   hint: %s", c.Expect, x, x.Hint)
					}
					return
				}
				o, err := exec.Command("python3", root+"/compare.py", out, d+"/expected", "--order", "--bytes").CombinedOutput()
				if err != nil {
					t.Errorf("%s: %s", c.Expect, o)
				}
			}
		})
	}
}

func strats(files []ranks.StrategyFile) (*layout.Strategy, diag.List, error) {
	in := make([]mindspore.StrategyFile, len(files))
	for i, f := range files {
		in[i] = mindspore.StrategyFile{Name: f.Name, Bytes: f.Bytes}
	}
	return mindspore.ReadStrategies(in, func() {})
}
