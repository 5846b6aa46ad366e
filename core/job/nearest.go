package job

import (
	"slices"
	"sort"
	"strings"
)

// Nearest is the word that a misspelt one was most likely meant to be: at most
// two letters away, and fewer than either has. It is false where there is none.
func Nearest(word string, words []string) (string, bool) {
	best, at := "", 3
	for _, w := range words {
		if n := distance(word, w); n < at && n < min(len(word), len(w)) {
			best, at = w, n
		}
	}
	return best, at < 3
}

// distance counts letters that are added, left out, changed, or swapped with
// their neighbour. Words too unlike in length are only told to be far.
func distance(a, b string) int {
	if len(a)-len(b) > 2 || len(b)-len(a) > 2 || len(a) > 64 {
		return 3
	}
	var rows [3][]int
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, up, upup := rows[i%3], rows[(i+2)%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(up[j]+1, row[j-1]+1, up[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], upup[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}

// names gives the keys of a map in order.
func names[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// listing writes words as "`a`, `b` or `c`".
func listing(words []string, last string) string {
	q := slices.Clone(words)
	for i, w := range q {
		q[i] = "`" + w + "`"
	}
	if n := len(q); n > 1 {
		return strings.Join(q[:n-1], ", ") + " " + last + " " + q[n-1]
	}
	return strings.Join(q, "")
}
