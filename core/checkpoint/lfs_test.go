package checkpoint

import (
	"strings"
	"testing"
)

func TestParseLFSPointer(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:8db4954909feb9450174ac5da3bb7fce2ba37a94f8a78112f4510389747782ef\nsize 139135450\n"
	tests := []struct {
		name, head string
		size       int // 0: that of head
		want       int64
	}{
		{"a pointer", pointer, 0, 139135450},
		{"with the line ends of Windows", strings.ReplaceAll(pointer, "\n", "\r\n"), 0, 139135450},
		{"with an extension", strings.Replace(pointer, "oid", "ext-0-x sha256:00\noid", 1), 0, 139135450},
		{"of the time before the name", strings.Replace(pointer, "git-lfs.github.com/spec", "hawser.github.com/spec", 1), 0, 139135450},
		{"a larger file that begins like one", pointer, 5000, -1},
		{"a part of one", pointer, 150, -1},
		{"a pointer without a hash", "version https://git-lfs.github.com/spec/v1\nsize 1\n", 0, -1},
		{"a size that is none", strings.Replace(pointer, "139135450", "-1", 1), 0, -1},
		{"another version line", "version https://example.com/\noid x\nsize 1\n", 0, -1},
		{"nothing", "", 0, -1},
	}
	for _, tt := range tests {
		size := int64(tt.size)
		if size == 0 {
			size = int64(len(tt.head))
		}
		p, ok := ParseLFSPointer([]byte(tt.head), size)
		if ok != (tt.want >= 0) || ok && (p.Size != tt.want || p.OID != "sha256:8db4954909feb9450174ac5da3bb7fce2ba37a94f8a78112f4510389747782ef") {
			t.Errorf("%s: got %+v, %v; want %d", tt.name, p, ok, tt.want)
		}
	}
}
