package ranks

import (
	"context"
	"path"
	"strings"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
)

// StrategyError is what is wrong with the strategy that Options name, and not
// with the checkpoint.
type StrategyError struct{ Err error }

func (e *StrategyError) Error() string { return e.Err.Error() }
func (e *StrategyError) Unwrap() error { return e.Err }

// ReadStrategy reads strategy files and folders of them (stages or ranks) into
// one strategy. Of the options it needs FS, Formats and Strategies.
func ReadStrategy(ctx context.Context, o Options, paths []string) (*layout.Strategy, diag.List, error) {
	var files []StrategyFile
	for _, p := range paths {
		e, err := o.FS.Stat(ctx, p)
		if err != nil {
			return nil, nil, notThere(err, p)
		}
		if !e.Dir {
			if e.Size > large {
				if err := o.notStrategy(ctx, p); err != nil {
					return nil, nil, err
				}
			}
			b, err := o.FS.ReadFile(ctx, p, MaxStrategyBytes)
			if err != nil {
				return nil, nil, cannotOpen(p, err)
			}
			files = append(files, StrategyFile{Name: p, Bytes: b})
			continue
		}
		list, err := o.FS.List(ctx, p)
		if err != nil {
			return nil, nil, notThere(err, p)
		}
		n := len(files)
		for _, e := range list {
			if e.Dir || !(strings.HasSuffix(e.Name, ".ckpt") || strings.HasSuffix(e.Name, ".json")) || strings.HasPrefix(e.Name, ".") {
				continue
			}
			name := path.Join(p, e.Name)
			b, err := o.FS.ReadFile(ctx, name, MaxStrategyBytes)
			if err != nil {
				return nil, nil, diag.Errorf(diag.Failed, "cannot read the strategy").InFile(name).Wrap(err)
			}
			files = append(files, StrategyFile{Name: name, Bytes: b})
		}
		if len(files) == n {
			return nil, nil, diag.Errorf(diag.Usage, "folder `%s` holds no strategy file", p).WithHint("strategy files end in .ckpt or .json")
		}
	}
	s, warnings, err := o.Strategies(files)
	if err == nil {
		return s, warnings, nil
	}
	for _, x := range files {
		if err := o.notStrategy(ctx, x.Name); err != nil {
			return nil, nil, err
		}
	}
	for _, d := range diag.From(err) {
		if d.Hint == "" {
			d.Hint = whatStrategy
		}
	}
	return nil, nil, err
}

const whatStrategy = "a strategy file tells how parameters are cut; MindSpore writes it beside the checkpoints (`strategy_ckpt_save_file`)"

// large is more than any known strategy has: a greater file is looked at before
// it is read whole.
const large = 64 << 20

// notStrategy refuses a checkpoint that is given as a strategy: a slip in the
// job, and no damage.
func (o Options) notStrategy(ctx context.Context, name string) error {
	file, err := o.FS.Open(ctx, name)
	if err != nil {
		return cannotOpen(name, err)
	}
	defer file.Close()
	f := &finder{Options: o}
	fm, _, err := f.probe(file, name)
	if err != nil || fm == nil {
		return err
	}
	return diag.Errorf(diag.Usage, "`%s` is a %s checkpoint, not a strategy file", name, fm.Describe().Name).
		WithHint(whatStrategy)
}
