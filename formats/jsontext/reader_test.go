package jsontext

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// skip reads one text as a whole.
func skip(text string) error {
	r := NewReader([]byte(text))
	if err := r.Skip(); err != nil {
		return err
	}
	return r.End()
}

func TestAcceptsJSON(t *testing.T) {
	for _, text := range []string{
		"{}", "[]", " [ ] ", `{"a":{"b":[1,-2.5e+3,true,false,null,"x"]}}`, "\t\r\n 0", "-0", "1E5", `"\u0041\ud83d\ude00\/\b"`, `"` + "\x7f" + `"`, `{"a":1,"a":2}`,
		"0e999999999999", strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
	} {
		if err := skip(text); err != nil {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

func TestRefusesWhatIsNoJSON(t *testing.T) {
	tests := []struct {
		text string
		off  int
		want string
	}{
		{"", 0, "ends where a value was expected"},
		{"[1,]", 3, "has ']' where a value was expected"},
		{"[1 2]", 3, "has a number where `,` or `]` was expected"},
		{`{"a":1,}`, 7, "has '}' where a key was expected"},
		{`{"a" 1}`, 5, "has a number where `:` was expected"},
		{`{a:1}`, 1, "has 'a' where a key was expected"},
		{"01", 0, "not well formed"},
		{"1.", 0, "not well formed"},
		{"-", 0, "not well formed"},
		{"1e", 0, "not well formed"},
		{"+1", 0, "has '+' where a value"},
		{"nul", 0, "where `null` was expected"},
		{"1e309", 0, "beyond the range"},
		{strings.Repeat("9", 400), 0, "beyond the range"},
		{"\"a\nb\"", 2, "control character 0x0a"},
		{"\"\\t\nb\"", 3, "control character 0x0a"},
		{`"abc`, 4, "ends within a string"},
		{`"ab\`, 3, "ends within a string"},
		{`"ab\n`, 5, "ends within a string"},
		{`"\x41"`, 1, "unknown escape"},
		{`"\u00g0"`, 1, "four hexadecimal digits"},
		{`"\ud800"`, 1, "half a surrogate pair"},
		{`"\udc00"`, 1, "half a surrogate pair"},
		{`"\ud800\u0041"`, 1, "half a surrogate pair"},
		{`"\ud800\u00"`, 1, "four hexadecimal digits"},
		{"{} x", 3, "goes on with 'x'"},
		{"\ufeff{}", 0, "where a value"},
		{strings.Repeat("[", MaxDepth+1), MaxDepth, "nests deeper"},
	}
	for _, tt := range tests {
		err := skip(tt.text)
		var e *Error
		if !errors.As(err, &e) || e.Off != tt.off || !strings.Contains(e.Msg, tt.want) {
			t.Errorf("%.60q: got %#v, want %q at %d", tt.text, err, tt.want, tt.off)
		}
	}
}

func TestReadsWholeNumbers(t *testing.T) {
	tests := []struct {
		text string
		want uint64
		ok   bool
	}{
		{"[0]", 0, true},
		{"[7,8]", 7, true},
		{"[1234567890123456789]", 1234567890123456789, true},
		{"[18446744073709551615]", 1<<64 - 1, true},
		{"[ 5 ]", 5, true},
		{"[18446744073709551616]", 0, false},
		{"[99999999999999999999]", 0, false},
		{"[-0]", 0, false},
		{"[4.0]", 0, false},
		{"[1e1]", 0, false},
		{"[00]", 0, false},
		{"[01]", 0, false},
		{`["1"]`, 0, false},
		{"[]", 0, false},
	}
	for _, tt := range tests {
		r := NewReader([]byte(tt.text))
		err := r.BeginArray()
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Uint()
		if (err == nil) != tt.ok || got != tt.want {
			t.Errorf("%s: got %d, %v; want %d", tt.text, got, err, tt.want)
		}
	}
}

func TestAppendStringEscapesAsSerde(t *testing.T) {
	const s, want = "a\"\\/\b\t\n\f\r\x00\x1f\x7fé😀", `"a\"\\/\b\t\n\f\r\u0000\u001f` + "\x7fé😀\""
	if got := string(AppendString(nil, s)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r := NewReader(AppendString(nil, s))
	if got, err := r.Str(); err != nil || string(got) != s {
		t.Errorf("read back as %q, %v", got, err)
	}
}

// Whatever the standard library calls valid is valid here too, but for the
// rules that this package adds, and nothing else is.
func FuzzSkip(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"\u00e9",null]}`, "[[[]]]", `"\ud83d\ude00"`, "1e999", "[1,]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		err := skip(text)
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Off < 0 || e.Off > len(text)) {
			t.Fatalf("the error %v has no place", err)
		}
		stricter := err != nil && (strings.Contains(e.Msg, "surrogate") || strings.Contains(e.Msg, "beyond") || strings.Contains(e.Msg, "deeper"))
		if valid := json.Valid([]byte(text)); valid != (err == nil) && !stricter {
			t.Fatalf("%q: got %v, the standard library says %v", text, err, valid)
		}
	})
}
