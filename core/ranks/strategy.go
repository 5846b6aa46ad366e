package ranks

import (
	"context"
	"path"
	"strings"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
)

// ReadStrategy reads strategy files and folders of them (stages or ranks) into
// one strategy.
func ReadStrategy(ctx context.Context, o Options, paths []string) (*layout.Strategy, diag.List, error) {
	var files []StrategyFile
	for _, p := range paths {
		e, err := o.FS.Stat(ctx, p)
		if err != nil {
			return nil, nil, notThere(err, p)
		}
		if !e.Dir {
			b, err := o.FS.ReadFile(ctx, p, MaxStrategyBytes)
			if err != nil {
				return nil, nil, diag.Errorf(diag.Failed, "cannot read the strategy").InFile(p).Wrap(err)
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
	return o.Strategies(files)
}
