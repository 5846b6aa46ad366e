package mapping

// Clash is a target name that several source tensors would have.
type Clash struct {
	To   string
	From []string // in the order given, at least two
	Rule []int    // for each of From the last rule that matched, or None
}

// Clashes applies m to names and returns every target name that more than one
// of them would have, in the order in which the clashes come to light. A name
// that occurs twice clashes with itself.
func (m *Mapping) Clashes(names []string) []Clash {
	first := make(map[string]int, len(names)) // target name → index into names
	clash := make(map[string]int)             // target name → index into out
	var out []Clash
	for i, n := range names {
		r := m.Apply(n)
		if r.Drop {
			continue
		}
		j, taken := first[r.To]
		if !taken {
			first[r.To] = i
			continue
		}
		k, known := clash[r.To]
		if !known {
			k = len(out)
			clash[r.To] = k
			out = append(out, Clash{To: r.To, From: []string{names[j]}, Rule: []int{m.Apply(names[j]).Rule}})
		}
		out[k].From = append(out[k].From, n)
		out[k].Rule = append(out[k].Rule, r.Rule)
	}
	return out
}
