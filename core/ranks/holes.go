package ranks

import (
	"fmt"

	"github.com/seed-e934e81e/convert/core/diag"
)

// absent tells what a strategy names and files lack. A parameter that no file
// holds may have been filtered when it was saved (accumulated gradients); one
// that only some ranks of a stage lack was de-duplicated, or its file was cut
// between two records, which no reader of the format can see.
func (j *joiner) absent() {
	if j.Strategy == nil {
		return
	}
	byStage := make([][]*group, j.Stages)
	for _, g := range j.headers {
		byStage[g.stage] = append(byStage[g.stage], g)
	}
	var nowhere []string
	lacking := map[*group][]string{}
	for i := range j.Strategy.Params {
		p := &j.Strategy.Params[i]
		var without []*group
		for _, g := range byStage[p.Stage] {
			if g.header.Find(p.Name) == nil {
				without = append(without, g)
			}
		}
		if len(without) == len(byStage[p.Stage]) {
			if len(without) > 0 {
				nowhere = append(nowhere, p.Name)
			}
			continue
		}
		for _, g := range without {
			lacking[g] = append(lacking[g], p.Name)
		}
	}
	if len(nowhere) > 0 {
		j.Warnings = append(j.Warnings, diag.Warnf("the source's strategy names %d parameters that no file holds: %s", len(nowhere), some(nowhere)).OfTensor(nowhere[0]))
	}
	for _, g := range j.headers {
		if names := lacking[g]; len(names) > 0 {
			r := j.Ranks[g.ranks[0]]
			j.Warnings = append(j.Warnings, diag.Warnf("%s the strategy gives: %s; copies on other ranks are read", lacks(len(g.ranks), r.ID, len(names)), some(names)).
				InFile(r.Files[0].Name).OfRank(r.ID).OfTensor(names[0]).
				WithHint("this is so where copies are not saved twice (remove_redundancy); otherwise a file may have been cut between two records"))
		}
	}
}

func lacks(ranks, first, names int) string {
	if ranks == 1 {
		return fmt.Sprintf("the file of rank %d lacks %d parameters that", first, names)
	}
	return fmt.Sprintf("the files of %d ranks, such as rank %d, lack %d parameters that", ranks, first, names)
}

// some lists the first names.
func some(names []string) string {
	const show = 5
	q := quoted(names[:min(show, len(names))])
	if n := len(names) - show; n > 0 {
		return fmt.Sprintf("%s and %d more", q, n)
	}
	return q
}
