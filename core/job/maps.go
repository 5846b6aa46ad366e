package job

import (
	"errors"
	"regexp"
	"strconv"

	"github.com/seed-e934e81e/convert/core/mapping"
)

// ruleNodes is a rule on its way: the text of `to` can only be read once the
// groups of `match` are known.
type ruleNodes struct {
	rule      mapping.Rule
	match, to *node
}

func (d *decoder) maps(dst *[]mapping.Rule) field {
	return func(n *node) {
		if n.kind != list {
			d.mistyped(n, "a list of tables").WithHint("write `[[map]]` with two brackets")
			return
		}
		for _, x := range n.items {
			*dst = append(*dst, d.rule(x))
		}
	}
}

func (d *decoder) mapKeys(r *ruleNodes) fields {
	return fields{
		"match": func(n *node) { r.match = n },
		"to":    func(n *node) { r.to = n },
		"drop":  d.boolean(&r.rule.Drop),
		"dtype": d.castable(&r.rule.DType),
	}
}

func (d *decoder) rule(n *node) mapping.Rule {
	before := d.errors
	var r ruleNodes
	d.table(n, "`[[map]]`", d.mapKeys(&r))
	switch {
	case n.kind != table:
	case r.match != nil:
		r.rule.Match, _ = d.full(r.match)
	case !d.near[join(n.path, "match")]:
		d.fail(d.at.value(n), "the rule has no `match`").WithHint("`match` is a regular expression on the whole name")
	}
	if r.to != nil {
		r.rule.To = d.template(r.to, r.rule.Match)
	}
	if d.errors == before {
		d.compile(n, r.rule)
	}
	return r.rule
}

// template is the text of `to`. `${name}` is the group of that name, if the
// expression has one, and else taken from the environment.
func (d *decoder) template(n *node, match string) string {
	s, ok := n.string()
	switch {
	case !ok:
		d.mistyped(n, "a string")
		return ""
	case s == "":
		d.fail(d.at.value(n), "`%s` is empty", n.path).WithHint("to leave a tensor out write `drop = true`")
		return ""
	}
	groups := map[string]bool{}
	if re, err := regexp.Compile(match); err == nil {
		for _, g := range re.SubexpNames() {
			groups[g] = g != ""
		}
	}
	s, _ = d.expand(n, s, func(name string) bool {
		_, err := strconv.Atoi(name)
		return err == nil || groups[name]
	})
	return s
}

// compile checks a rule and shows what is wrong at the key that it is about.
func (d *decoder) compile(n *node, r mapping.Rule) {
	_, err := mapping.Compile([]mapping.Rule{r})
	var re *mapping.RuleError
	if !errors.As(err, &re) {
		return
	}
	at := d.at.value(n)
	if k := n.field(string(re.Part)); k != nil {
		at = d.at.value(k)
	}
	d.fail(at, "`%s` %s", join(n.path, string(re.Part)), re.Msg).Hint = re.Hint
}
