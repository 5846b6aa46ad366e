package checkpoint

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// escaped begins names in JSON that are not UTF-8.
const escaped = "base16:"

// JSONName is a name as JSON documents hold it. Names are byte strings; one
// that is not UTF-8, or that begins with "base16:" itself, is written as
// "base16:" and its bytes in hex. FromJSONName is the inverse.
func JSONName(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, escaped) {
		return name
	}
	return escaped + hex.EncodeToString([]byte(name))
}

// FromJSONName gives back the name that JSONName was given; false where the
// text after "base16:" is no hex.
func FromJSONName(s string) (string, bool) {
	x, ok := strings.CutPrefix(s, escaped)
	if !ok {
		return s, true
	}
	b, err := hex.DecodeString(x)
	return string(b), err == nil
}
