// Package all is the list of the built-in formats.
package all

import (
	"runtime"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/ranks"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
	"github.com/seed-e934e81e/convert/formats/torch"
)

// Formats lists the built-in formats, in the order in which help shows them.
func Formats() []checkpoint.Format {
	return []checkpoint.Format{mindspore.Format{}, safetensors.Format{}, torch.Format{}}
}

// Strategies reads strategy files; MindSpore's are the only ones there are.
func Strategies(files []ranks.StrategyFile) (*layout.Strategy, diag.List, error) {
	in := make([]mindspore.StrategyFile, len(files))
	for i, f := range files {
		in[i] = mindspore.StrategyFile{Name: f.Name, Bytes: f.Bytes}
	}
	return mindspore.ReadStrategies(in, runtime.Gosched)
}
