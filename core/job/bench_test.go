package job

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkParse reads a job with a layout for each of 20,000 parameters.
func BenchmarkParse(b *testing.B) {
	var t strings.Builder
	t.WriteString(meshed)
	for i := range 20000 {
		fmt.Fprintf(&t, "[[target.layout]]\nmatch = \"model.layers.%d.attention.wq.weight\"\nshard = [[\"dp\", \"tp\"], \"none\"]\n", i)
	}
	text := []byte(t.String())
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if j, list := Parse("job.toml", text, Options{}); j == nil {
			b.Fatal(list)
		}
	}
}
