package storage

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryLimitIsTheSmallestAround(t *testing.T) {
	for _, c := range []struct {
		name, self string
		files      map[string]string
		want       int64
	}{
		{"version 2, own limit", "0::/a/b\n", map[string]string{"a/b/memory.max": "1000\n", "a/memory.max": "max\n"}, 1000},
		{"version 2, the limit of the group around it", "0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "700\n"}, 700},
		{"version 2, seen as the root inside a container", "0::/\n", map[string]string{"memory.max": "900\n"}, 900},
		{"version 1", "4:cpu,memory:/x\n0::/\n", map[string]string{"memory/x/memory.limit_in_bytes": "500\n"}, 500},
		{"version 1 without a limit", "4:memory:/x\n", map[string]string{"memory/x/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		{"no group", "", nil, 0},
		{"a limit that is no number", "0::/\n", map[string]string{"memory.max": "lots\n"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			put := func(name, text string) {
				p := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put("self", c.self)
			for n, text := range c.files {
				put(filepath.Join("root", n), text)
			}
			n, ok := memoryLimit(filepath.Join(dir, "self"), filepath.Join(dir, "root"))
			if ok != (c.want > 0) || ok && n != c.want {
				t.Errorf("limit = %d, %v, want %d", n, ok, c.want)
			}
		})
	}
}
