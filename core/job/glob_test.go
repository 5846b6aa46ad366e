package job

import "testing"

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		glob, name string
		want       bool
	}{
		{"*", "", true},
		{"*", "a.b/c", true},
		{"a", "a", true},
		{"a", "ab", false},
		{"a", "", false},
		{"*.weight", "layers.0.wq.weight", true},
		{"*.weight", "layers.0.wq.bias", false},
		{"*.w[qkv].weight", "l.wk.weight", true},
		{"*.w[qkv].weight", "l.wo.weight", false},
		{"*.w[!qkv].*", "l.wo.weight", true},
		{"*.w[^qkv].*", "l.wq.weight", false},
		{"layers.[0-9].*", "layers.7.x", true},
		{"layers.[0-9].*", "layers.17.x", false},
		{"layers.?.*", "layers.é.x", true},
		{"*??", "中", false},
		{"*?", "中", true},
		{"[]]", "]", true},
		{"[a-]", "-", true},
		{"[\\]]", "]", true},
		{`a\*`, "a*", true},
		{`a\*`, "ab", false},
		{"*a*b*c", "xaxbxbc", true},
		{"*a*b*c", "xaxcxb", false},
		{"a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
		{"?", "\xff", true},
		{"a\xff*", "a\xffb", true},
	} {
		g, err := CompileGlob(tt.glob)
		if err != nil {
			t.Errorf("CompileGlob(%q): %v", tt.glob, err)
			continue
		}
		if got := g.Match(tt.name); got != tt.want {
			t.Errorf("%q on %q = %v, want %v", tt.glob, tt.name, got, tt.want)
		}
	}
}

func TestGlobRefuses(t *testing.T) {
	for _, s := range []string{"", "[", "[a", "[]", "[b-a]", `a\`} {
		if _, err := CompileGlob(s); err == nil {
			t.Errorf("CompileGlob(%q) is accepted", s)
		}
	}
}

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int64 // -1 for refused
	}{
		{"0", 0},
		{"4096", 4096},
		{"1 B", 1},
		{"256 MiB", 256 << 20},
		{"256MiB", 256 << 20},
		{"256 mib", 256 << 20},
		{"5 GB", 5e9},
		{"5GB", 5e9},
		{"1.5 KiB", 1536},
		{"0.5 KB", 500},
		{" 2 TiB ", 2 << 40},
		{"8 EiB", -1},
		{"", -1},
		{"MiB", -1},
		{"-1", -1},
		{"1..5 GB", -1},
		{"1.0001 KB", -1},
		{"1 G", -1},
		{"1 Gb s", -1},
		{"9223372036854775807", 9223372036854775807},
		{"9223372036854775808", -1},
		{"1e9", -1},
		{"0x10", -1},
	} {
		got, err := ParseSize(tt.text)
		if (err != nil) != (tt.want < 0) || err == nil && got != tt.want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", tt.text, got, err, tt.want)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"format", "io", "match", "path", "to"}
	for _, tt := range []struct{ word, want string }{
		{"formt", "format"},
		{"Format", "format"},
		{"fromat", "format"},
		{"formating", ""},
		{"oi", "io"},
		{"xx", ""},
		{"pth", "path"},
		{"mtach", "match"},
		{"paths", "path"},
		{"", ""},
		{"t", ""},
		{"too", "to"},
	} {
		if got, _ := Nearest(tt.word, words); got != tt.want {
			t.Errorf("Nearest(%q) = %q, want %q", tt.word, got, tt.want)
		}
	}
}
