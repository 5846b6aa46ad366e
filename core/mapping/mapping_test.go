package mapping

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/dtype"
)

func TestApply(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules []Rule
		in    string
		want  Result
	}{
		{"no rules keep the name", nil, "a.b", Result{To: "a.b", Rule: None, Cast: None}},
		{"a group by number", []Rule{{Match: `layers\.(\d+)\.wq`, To: "h.$1.q"}}, "layers.12.wq", Result{To: "h.12.q", Cast: None}},
		{"digits end a number", []Rule{{Match: `(\w+)\.w`, To: "$1_proj"}}, "q.w", Result{To: "q_proj", Cast: None}},
		{"a group by name", []Rule{{Match: `(?P<n>\d+)\.w`, To: "w.${n}"}}, "3.w", Result{To: "w.3", Cast: None}},
		{"a number in braces", []Rule{{Match: `(\d)(\d)`, To: "${2}1"}}, "45", Result{To: "51", Cast: None}},
		{"two dollars are one", []Rule{{Match: `a`, To: "a$$1"}}, "a", Result{To: "a$1", Cast: None}},
		{"a group that took no part is empty", []Rule{{Match: `(x)?a`, To: "<$1>"}}, "a", Result{To: "<>", Cast: None}},
		{"the whole name must match", []Rule{{Match: `wq`, To: "q"}}, "layers.wq", Result{To: "layers.wq", Rule: None, Cast: None}},
		{"alternatives are anchored as well", []Rule{{Match: `a|ab`, To: "x"}}, "ab", Result{To: "x", Cast: None}},
		{"flags cannot undo the anchors", []Rule{{Match: `(?m)^b$`, To: "x"}}, "a\nb", Result{To: "a\nb", Rule: None, Cast: None}},
		{"later rules see the new name", []Rule{{Match: `a`, To: "b"}, {Match: `b`, To: "c"}}, "a", Result{To: "c", Rule: 1, Cast: None}},
		{"a drop ends the list", []Rule{{Match: `a.*`, Drop: true}, {Match: `.*`, To: "x"}}, "ab", Result{To: "ab", Drop: true, Cast: None}},
		{"a drop sees the new name", []Rule{{Match: `a`, To: "old.a"}, {Match: `old\..*`, Drop: true}}, "a", Result{To: "old.a", Drop: true, Rule: 1, Cast: None}},
		{"a cast keeps the name", []Rule{{Match: `.*`, DType: dtype.BF16}}, "a", Result{To: "a", DType: dtype.BF16}},
		{"the last cast wins", []Rule{{Match: `.*`, DType: dtype.BF16}, {Match: `.*norm`, DType: dtype.F32}, {Match: `x`, To: "y"}}, "a.norm", Result{To: "a.norm", DType: dtype.F32, Rule: 1, Cast: 1}},
		{"names need not be UTF-8", []Rule{{Match: `a(.*)`, To: "b$1"}}, "a\xff\xfe", Result{To: "b\xff\xfe", Cast: None}},
	} {
		m, err := Compile(tt.rules)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := m.Apply(tt.in); got != tt.want {
			t.Errorf("%s: Apply(%q) = %+v, want %+v", tt.name, tt.in, got, tt.want)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule Rule
		part Part
		want string
	}{
		{"no expression", Rule{To: "x"}, Match, "is empty"},
		{"a broken expression", Rule{Match: "(", To: "x"}, Match, "missing closing ): `(`"},
		{"an expression that only balances when wrapped", Rule{Match: "a)|(?:b", To: "x"}, Match, "unexpected )"},
		{"a rule without effect", Rule{Match: "a"}, Match, "has nothing to do"},
		{"a new name for what is dropped", Rule{Match: "a", To: "b", Drop: true}, To, "beside `drop = true`"},
		{"a type for what is dropped", Rule{Match: "a", DType: dtype.F32, Drop: true}, DType, "beside `drop = true`"},
		{"a type that nothing is cast to", Rule{Match: "a", DType: dtype.I8}, DType, "is `i8`"},
		{"a group that is not there", Rule{Match: "(a)", To: "$2"}, To, "group `2`"},
		{"a name that is not there", Rule{Match: "(a)", To: "${n}"}, To, "group `n`"},
		{"group zero", Rule{Match: "a", To: "$0"}, To, "group `0`"},
		{"a bare dollar sign", Rule{Match: "a", To: "a$b"}, To, "names no group"},
		{"an open brace", Rule{Match: "a", To: "a${1"}, To, "without its `}`"},
	} {
		_, err := Compile([]Rule{{Match: "fine", To: "x"}, tt.rule})
		var re *RuleError
		if !errors.As(err, &re) {
			t.Errorf("%s: got %v, want a RuleError", tt.name, err)
			continue
		}
		if re.Rule != 1 || re.Part != tt.part || !strings.Contains(re.Msg, tt.want) {
			t.Errorf("%s: got rule %d, %s, %q; want rule 1, %s, %q", tt.name, re.Rule, re.Part, re.Msg, tt.part, tt.want)
		}
	}
}

func TestClashes(t *testing.T) {
	m, err := Compile([]Rule{{Match: `(.)\d`, To: "$1"}, {Match: `z`, Drop: true}})
	if err != nil {
		t.Fatal(err)
	}
	got := m.Clashes([]string{"a1", "b", "a2", "c", "z1", "z2", "b1", "a", "c"})
	want := []Clash{
		{To: "a", From: []string{"a1", "a2", "a"}, Rule: []int{0, 0, None}},
		{To: "b", From: []string{"b", "b1"}, Rule: []int{None, 0}},
		{To: "c", From: []string{"c", "c"}, Rule: []int{None, None}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Clashes = %+v, want %+v", got, want)
	}
}

func TestType(t *testing.T) {
	rule := Result{DType: dtype.F32, Cast: 4}
	for _, tt := range []struct {
		name  string
		r     Result
		t     dtype.Type
		shape []int64
		all   dtype.Type
		want  dtype.Type
		fails bool
	}{
		{"nothing is asked", Result{}, dtype.F32, []int64{2}, dtype.Invalid, dtype.F32, false},
		{"weights are cast", Result{}, dtype.F32, []int64{2}, dtype.BF16, dtype.BF16, false},
		{"a weight of 1 × 1 is no scalar", Result{}, dtype.F32, []int64{1, 1}, dtype.BF16, dtype.BF16, false},
		{"an empty weight is no scalar", Result{}, dtype.F32, []int64{0}, dtype.BF16, dtype.BF16, false},
		{"scalars are not", Result{}, dtype.F32, nil, dtype.BF16, dtype.F32, false},
		{"one element is a scalar", Result{}, dtype.F32, []int64{1}, dtype.BF16, dtype.F32, false},
		{"integers are not", Result{}, dtype.I32, []int64{2}, dtype.BF16, dtype.I32, false},
		{"float8 is not", Result{}, dtype.F8E4M3, []int64{2}, dtype.BF16, dtype.F8E4M3, false},
		{"a rule wins", rule, dtype.F16, []int64{2}, dtype.BF16, dtype.F32, false},
		{"a rule casts scalars", rule, dtype.F16, nil, dtype.BF16, dtype.F32, false},
		{"a rule cannot cast integers", rule, dtype.I64, []int64{2}, dtype.Invalid, dtype.I64, true},
	} {
		got, err := tt.r.Type(tt.t, tt.shape, tt.all)
		if got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: Type(%v, %v, %v) = %v, %v; want %v", tt.name, tt.t, tt.shape, tt.all, got, err, tt.want)
		}
		var ce *CastError
		if err != nil && (!errors.As(err, &ce) || ce.Rule != 4) {
			t.Errorf("%s: got error %v, want a CastError of rule 4", tt.name, err)
		}
	}
}

// An accepted mapping applies to any name, and a rule that keeps its match
// keeps every byte of it.
func FuzzApply(f *testing.F) {
	f.Add(`layers\.(\d+)\.(.*)`, "h.$1.$2", "layers.3.wq")
	f.Add(`(?P<a>.*)`, "${a}$$", "x\xff")
	f.Add(`(a)|(b)`, "$1$2", "b")
	f.Fuzz(func(t *testing.T, match, to, name string) {
		m, err := Compile([]Rule{{Match: match, To: to}})
		var re *RuleError
		if err != nil {
			if !errors.As(err, &re) {
				t.Errorf("Compile(%q, %q) fails with %T, want a RuleError", match, to, err)
			}
			return
		}
		if r := m.Apply(name); r.Rule == None && r.To != name {
			t.Errorf("no rule matches %q, but it becomes %q", name, r.To)
		}
		same, err := Compile([]Rule{{Match: "(" + match + ")", To: "$1"}})
		if err != nil {
			return
		}
		if r := same.Apply(name); r.To != name {
			t.Errorf("%q becomes %q under a rule that keeps it whole", name, r.To)
		}
	})
}
