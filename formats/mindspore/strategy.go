package mindspore

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/layout"
)

// StrategyFile is the bytes of one strategy file. The name is for messages.
type StrategyFile struct {
	Name  string
	Bytes []byte
}

// ProbeStrategy tells by content whether a file is a strategy file, in either
// form.
func ProbeStrategy(s checkpoint.Sample) bool {
	if isJSON(s.Head) {
		return bytes.Contains(s.Head, []byte(`"parallel_layout_item"`)) || bytes.Contains(s.Head, []byte(`"parallel_strategy_item"`))
	}
	// 08 current_stage, then operators and parameters, which begin with their
	// names. A file that lists none is still a strategy, though a useless one.
	c := newCursor(bytes.NewReader(s.Head), s.Size)
	field, wire, err := c.key(c.size)
	if err != nil || field != 1 || wire != wireVarint || c.skip(wire, c.size) != nil {
		return false
	}
	if c.pos == c.size {
		return true
	}
	field, wire, err = c.key(c.size)
	if err != nil || field != 2 && field != 3 {
		return false
	}
	end, err := c.message(wire, math.MaxInt64/2, "an item")
	if err != nil {
		return false
	}
	if field, wire, err = c.key(end); err != nil || field != 1 {
		return false
	}
	item, err := c.text(wire, end, "its name", maxName)
	return err == nil && isPlain(item)
}

func isJSON(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{'
}

// ReadStrategies makes one strategy of the strategy files of a run: a merged
// file, the file of a run of one stage, or the files of all stages or ranks in
// any order. The warnings say what was passed over. yield is called every few
// dozen files or parameters.
//
// A strategy that cannot be is an error of class diag.Damaged that names the
// file and, where it is one's fault, the parameter.
func ReadStrategies(files []StrategyFile, yield func()) (*layout.Strategy, diag.List, error) {
	m := &merger{yield: yield, layouts: map[string]built{}}
	parts, err := m.read(files)
	if err != nil {
		return nil, nil, err
	}
	params, err := m.merge(parts)
	if err != nil {
		return nil, nil, err
	}
	s, err := m.strategy(params)
	if err != nil {
		return nil, nil, err
	}
	return s, m.notes, nil
}

// ReadStage makes a strategy of the file of one stage, whichever it is, as if
// it were the only one, and tells which it is.
func ReadStage(file StrategyFile, yield func()) (s *layout.Strategy, stage int, notes diag.List, err error) {
	m := &merger{yield: yield, layouts: map[string]built{}}
	parts, err := m.read([]StrategyFile{file})
	if err != nil {
		return nil, 0, nil, err
	}
	if parts[0].merged {
		return nil, 0, nil, diag.Errorf(diag.Damaged, "the strategy is a merged one, want that of one stage").InFile(file.Name)
	}
	params, err := m.merge(parts)
	if err != nil {
		return nil, 0, nil, err
	}
	stage = int(params[0].stage)
	for i := range params {
		params[i].stage = 0
	}
	s, err = m.strategy(params)
	return s, stage, m.notes, err
}

// part is one strategy file, parsed.
type part struct {
	file   string
	json   bool
	merged bool // all names begin with their stages
	staged bool // an operator tells the stage
	params []param
}

// param is one parameter in one stage.
type param struct {
	item
	stage int64
	file  string
}

// at places a diagnostic at a parameter.
func (p *param) at(d *diag.Diagnostic) *diag.Diagnostic {
	return d.InFile(p.file).AtByte(p.off).OfTensor(p.name)
}

// merger makes one strategy of many files.
type merger struct {
	yield   func()
	layouts map[string]built // by item.key: most parameters share a few
	notes   diag.List
}

type built struct {
	l      *layout.Layout
	misfit string
}

// read parses the files; of equal ones the first.
func (m *merger) read(files []StrategyFile) ([]part, error) {
	if len(files) == 0 {
		return nil, diag.Errorf(diag.Damaged, "there is no strategy file")
	}
	var parts []part
	seen := map[[sha256.Size]byte]bool{}
	for i, f := range files {
		if i%64 == 0 {
			m.yield()
		}
		sum := sha256.Sum256(f.Bytes)
		if seen[sum] {
			continue
		}
		seen[sum] = true
		p, err := parseStrategy(f)
		if err != nil {
			return nil, err
		}
		if len(parts) > 0 && parts[0].json != p.json {
			return nil, diag.Errorf(diag.Damaged, "the strategy is JSON and `%s` protobuf, want all of one kind", pick(p.json, parts[0].file, f.Name)).
				InFile(pick(p.json, f.Name, parts[0].file)).
				WithHint("leave in the folder only the files of one run")
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// parseStrategy reads one file of either form.
func parseStrategy(f StrategyFile) (part, error) {
	p := part{file: f.Name, json: isJSON(f.Bytes)}
	if len(f.Bytes) == 0 {
		return p, diag.Errorf(diag.Damaged, "the strategy file is empty").InFile(f.Name)
	}
	parse := parseStrategyMap
	if p.json {
		parse = parseStrategyJSON
	}
	t, err := parse(f.Bytes)
	if err != nil {
		return p, strategyError(f, err)
	}
	if len(t.items) == 0 {
		return p, diag.Errorf(diag.Damaged, "the strategy file names no parameter").InFile(f.Name).
			WithHint("it is of a run that cut no parameter, or holds strategies of operators only")
	}
	if t.stage < 0 || t.stage >= maxParams {
		return p, diag.Errorf(diag.Damaged, "the strategy file is of stage %d, which is not possible", t.stage).InFile(f.Name)
	}
	p.staged, p.merged = t.hasStage, true
	for i := range t.items {
		if _, _, ok := cutStage(t.items[i].name); !ok {
			p.merged = false
			break
		}
	}
	p.params = make([]param, len(t.items))
	for i, it := range t.items {
		p.params[i] = param{item: it, stage: t.stage, file: f.Name}
		if p.merged {
			p.params[i].stage, p.params[i].name, _ = cutStage(it.name)
		}
	}
	return p, nil
}

// strategyError gives a parser's error its file, and words for a file that is
// something else.
func strategyError(f StrategyFile, err error) error {
	head := f.Bytes[:min(len(f.Bytes), checkpoint.SampleSize)]
	s := checkpoint.Sample{Head: head, Size: int64(len(f.Bytes))}
	switch {
	case Format{}.Probe(s) != checkpoint.No:
		return diag.Errorf(diag.Damaged, "this is a checkpoint, not a strategy file").InFile(f.Name)
	case !isJSON(head) && !ProbeStrategy(s):
		return diag.Errorf(diag.Damaged, "this is not a strategy file: neither protobuf nor JSON").InFile(f.Name)
	}
	var fe *checkpoint.FormatError
	if errors.As(err, &fe) {
		fe.Format += " strategy"
	}
	return checkpoint.Diagnose(err, f.Name)
}

// cutStage splits the name that a merged file gives a parameter, "1-w", into
// stage and name. A name without digits before its first "-" has no stage.
func cutStage(s string) (stage int64, name string, ok bool) {
	digits, name, ok := strings.Cut(s, "-")
	if !ok || name == "" || digits == "" || len(digits) > 7 {
		return 0, "", false
	}
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' {
			return 0, "", false
		}
		stage = 10*stage + int64(d-'0')
	}
	return stage, name, true
}
