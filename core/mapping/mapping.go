// Package mapping says how target tensors are made of source tensors: which
// are renamed, cast or dropped.
//
// A mapping is a list of rules. Each rule whose expression matches a name as a
// whole is applied, in order, to the name as the rules before it have left it;
// a rule that drops ends the list. A name that no rule matches stays as it is.
package mapping

import (
	"fmt"
	"regexp"

	"github.com/seed-e934e81e/convert/core/dtype"
)

// Rule is one `[[map]]` of a job.
type Rule struct {
	Match string     // a regular expression (RE2) on the whole name
	To    string     // the new name, see Compile; "" keeps the name
	Drop  bool       // the tensor is left out
	DType dtype.Type // the type to cast to; Invalid keeps it
}

// Part is the part of a rule that an error is about.
type Part string

// The parts of a rule.
const (
	Match Part = "match"
	To    Part = "to"
	Drop  Part = "drop"
	DType Part = "dtype"
)

// RuleError says what is wrong with which rule.
type RuleError struct {
	Rule int // index into the rules
	Part Part
	Msg  string
	Hint string
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("map rule %d: `%s` %s", e.Rule+1, e.Part, e.Msg)
}

// Mapping is a compiled list of rules. It is immutable.
type Mapping struct{ rules []compiled }

type compiled struct {
	whole *regexp.Regexp
	to    template
	rule  Rule
}

// None is the rule index of a result that no rule has made.
const None = -1

// Compile checks rules and prepares them. In To, `$1` and `${1}` stand for
// what the first group of the expression matched, `${name}` for the group of
// that name, and `$$` for a dollar sign. The error is a *RuleError.
func Compile(rules []Rule) (*Mapping, error) {
	m := &Mapping{rules: make([]compiled, len(rules))}
	for i, r := range rules {
		c, err := compile(r)
		if err != nil {
			err.Rule = i
			return nil, err
		}
		m.rules[i] = c
	}
	return m, nil
}

func compile(r Rule) (compiled, *RuleError) {
	c := compiled{rule: r}
	switch {
	case r.Match == "":
		return c, &RuleError{Part: Match, Msg: "is empty"}
	case r.Drop && r.To != "":
		return c, &RuleError{Part: To, Msg: "has no meaning beside `drop = true`"}
	case r.Drop && r.DType != dtype.Invalid:
		return c, &RuleError{Part: DType, Msg: "has no meaning beside `drop = true`"}
	case !r.Drop && r.To == "" && r.DType == dtype.Invalid:
		return c, &RuleError{Part: Match, Msg: "has nothing to do", Hint: "add `to`, `dtype` or `drop = true`"}
	case r.DType != dtype.Invalid && !r.DType.Castable():
		return c, &RuleError{Part: DType, Msg: fmt.Sprintf("is `%s`, which nothing can be cast to", r.DType), Hint: "a cast is to f32, f16, bf16 or f64"}
	}
	// On its own first: an expression such as `a)|(?:b` is only balanced inside
	// of the group that anchors it.
	if _, err := regexp.Compile(r.Match); err != nil {
		return c, &RuleError{Part: Match, Msg: "is no regular expression: " + reason(err), Hint: "the syntax is RE2's: https://github.com/google/re2/wiki/Syntax"}
	}
	whole, err := regexp.Compile(`\A(?:` + r.Match + `)\z`)
	if err != nil {
		return c, &RuleError{Part: Match, Msg: "is no regular expression: " + reason(err)}
	}
	to, rerr := parseTemplate(r.To, whole)
	if rerr != nil {
		return c, rerr
	}
	c.whole, c.to = whole, to
	return c, nil
}

// Result is what becomes of a tensor.
type Result struct {
	To    string     // its name in the target; meaningless if Drop
	Drop  bool       // it is left out
	DType dtype.Type // what it is cast to by a rule; Invalid if none says so
	Rule  int        // the last rule that matched, or None
	Cast  int        // the rule that has set DType, or None
}

// Apply tells what becomes of the tensor with a name.
func (m *Mapping) Apply(name string) Result {
	out := Result{To: name, Rule: None, Cast: None}
	for i, c := range m.rules {
		at := c.whole.FindStringSubmatchIndex(out.To)
		if at == nil {
			continue
		}
		out.Rule = i
		if c.rule.Drop {
			out.Drop = true
			return out
		}
		if c.rule.To != "" {
			out.To = c.to.expand(out.To, at)
		}
		if c.rule.DType != dtype.Invalid {
			out.DType, out.Cast = c.rule.DType, i
		}
	}
	return out
}

// Rules is the number of rules.
func (m *Mapping) Rules() int { return len(m.rules) }
