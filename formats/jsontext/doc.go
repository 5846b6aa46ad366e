// Package jsontext walks JSON text token by token, strictly and without
// garbage, for headers that come from strangers.
//
// It accepts what Rust's serde_json accepts and refuses what that refuses:
// RFC 8259 with whitespace of space, tab, line feed and carriage return; no
// comments, no trailing commas, no raw control characters in strings, no lone
// surrogates, no number beyond float64, at most MaxDepth containers within
// each other. Duplicate keys are seen by the caller, integers keep 64 bits and
// keys their case, which encoding/json would all smooth over.
package jsontext

// MaxDepth is the number of containers that may stand within each other.
// serde_json begins with 128 and fails when it has counted down to 0.
const MaxDepth = 127

// Error says where text is not what was asked for.
type Error struct {
	Off int // in the text
	Msg string
}

func (e *Error) Error() string { return e.Msg }

// Kind is the kind of a value, told by its first byte.
type Kind uint8

// The kinds.
const (
	Bad Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}
