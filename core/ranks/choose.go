package ranks

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-e934e81e/convert/core/diag"
)

// step is what a file name says of when it was written.
type step struct{ times, epoch, step int64 }

func (s step) less(o step) bool {
	if s.times != o.times {
		return s.times < o.times
	}
	if s.epoch != o.epoch {
		return s.epoch < o.epoch
	}
	return s.step < o.step
}

// stepName is how ModelCheckpoint and MindFormers name files:
// prefix[_rank_R][_N]-epoch_step.ext; N counts restarts.
var stepName = regexp.MustCompile(`^(.*?)(?:_rank_(\d{1,9}))?(?:_(\d{1,9}))?-(\d{1,18})_(\d{1,18})\.(ckpt|safetensors)$`)

// side marks files that lie beside ordinary checkpoints: what an exception
// left, and copies of part of the network.
var side = regexp.MustCompile(`_breakpoint\.|-network-|-trainable_params-`)

func parseStep(name string) (step, bool) {
	m := stepName.FindStringSubmatch(path.Base(name))
	if m == nil || side.MatchString(name) {
		return step{}, false
	}
	var s step
	s.times, _ = strconv.ParseInt("0"+m[3], 10, 64)
	s.epoch, _ = strconv.ParseInt(m[4], 10, 64)
	s.step, _ = strconv.ParseInt(m[5], 10, 64)
	return s, true
}

// choose picks one file for each rank.
func (f *finder) choose(cands map[int][]candidate, folders map[int]string) (map[int]string, error) {
	order := make([]int, 0, len(cands))
	several := false
	for id, c := range cands {
		order = append(order, id)
		several = several || len(c) > 1
	}
	slices.Sort(order)
	out := make(map[int]string, len(order))
	for _, id := range order {
		if len(cands[id]) == 0 {
			return nil, diag.Errorf(diag.Usage, "folder `%s` holds no checkpoint", path.Join(f.root, folders[id])).
				WithHint("a checkpoint is a file, a folder of `rank_N` folders, or a folder of one checkpoint")
		}
		out[id] = cands[id][0].name
	}
	isGlob := f.Match != nil
	if !several && !isGlob && !mixed(cands) {
		return out, nil
	}
	var err error
	switch {
	case isGlob:
		err = f.byGlob(order, cands, out)
	case f.Select == "mindspore":
		for _, id := range order {
			out[id] = mindsporeChoice(cands[id])
		}
	default:
		err = f.newest(order, cands, out)
	}
	if err != nil {
		return nil, err
	}
	f.notePassedOver(order, cands, out)
	return out, nil
}

func (f *finder) byGlob(order []int, cands map[int][]candidate, out map[int]string) error {
	for _, id := range order {
		var hit []string
		for _, c := range cands[id] {
			if f.Match(path.Base(c.name)) {
				hit = append(hit, c.name)
			}
		}
		if len(hit) != 1 {
			return diag.Errorf(diag.Usage, "`source.select` = `%s` matches %d files of rank %d; it must match one", f.Select, len(hit), id).
				OfRank(id).WithHint("the folder holds %s", quoted(candNames(cands[id])))
		}
		out[id] = hit[0]
	}
	return nil
}

// newest takes the numerically greatest step that every rank holds.
func (f *finder) newest(order []int, cands map[int][]candidate, out map[int]string) error {
	count := map[step]int{}
	steps := make(map[int]map[step]string, len(order))
	for _, id := range order {
		mine := map[step]string{}
		for _, c := range cands[id] {
			s, ok := parseStep(c.name)
			if !ok {
				continue
			}
			if other, twice := mine[s]; twice {
				return diag.Errorf(diag.Usage, "rank %d has two files of one step: `%s` and `%s`", id, other, c.name).
					OfRank(id).WithHint("set `source.select` to a glob that matches one of them, or `source.format`")
			}
			mine[s] = c.name
			count[s]++
		}
		if len(mine) == 0 {
			if len(cands[id]) == 1 { // one file of any name needs no choice
				continue
			}
			return diag.Errorf(diag.Usage, "rank %d has %d checkpoints whose names do not say which is newest", id, len(cands[id])).
				OfRank(id).WithHint("set `source.select` to a glob that matches one of %s", quoted(candNames(cands[id])))
		}
		steps[id] = mine
	}
	var best step
	found := false
	for s, n := range count {
		if n == len(steps) && (!found || best.less(s)) {
			best, found = s, true
		}
	}
	if !found {
		return diag.Errorf(diag.Usage, "no step is there on all of the %d ranks", len(steps)).
			WithHint("a rank may have failed while it saved; set `source.select` to a glob to choose yourself")
	}
	for id, mine := range steps {
		out[id] = mine[best]
	}
	return nil
}

// mixed reports whether the only files of the ranks say that they are of
// different steps: half of one and half of the other is no checkpoint.
func mixed(cands map[int][]candidate) bool {
	var first step
	seen := false
	for _, c := range cands {
		s, ok := parseStep(c[0].name)
		if !ok {
			return false
		}
		if seen && s != first {
			return true
		}
		first, seen = s, true
	}
	return false
}

// digits are the numbers that MindSpore's safetensors rule sorts by.
var digits = regexp.MustCompile(`\d+`)

// mindsporeChoice is the file that MindSpore's own transform takes
// (facts: CT:512-517 and SF:826-858): the last path in byte order, and for
// safetensors the greatest last two numbers of the whole path.
func mindsporeChoice(c []candidate) string {
	best := c[0]
	for _, x := range c[1:] {
		if strings.HasSuffix(x.name, ".safetensors") {
			if lastTwo(best.name).less(lastTwo(x.name)) {
				best = x
			}
			continue
		}
		if x.name > best.name {
			best = x
		}
	}
	return best.name
}

func lastTwo(name string) step {
	n := digits.FindAllString(name, -1)
	n = n[max(len(n)-2, 0):]
	var s step
	if len(n) == 2 {
		s.epoch, _ = strconv.ParseInt(n[0], 10, 64)
		s.step, _ = strconv.ParseInt(n[1], 10, 64)
	}
	return s
}

func (f *finder) notePassedOver(order []int, cands map[int][]candidate, out map[int]string) {
	n := 0
	var example string
	for _, id := range order {
		for _, c := range cands[id] {
			if c.name != out[id] {
				n++
				example = c.name
			}
		}
	}
	if n > 0 {
		f.warn(&diag.Diagnostic{Severity: diag.Note, Summary: fmt.Sprintf("%d older or other files were passed over, such as `%s`; rank %d is read from `%s`", n, example, order[0], out[order[0]])})
	}
}

func candNames(c []candidate) []string {
	out := make([]string, len(c))
	for i, x := range c {
		out[i] = path.Base(x.name)
	}
	return out
}
