// Package weightmap reads and writes the index of a checkpoint that is split
// into several files: which tensor is in which file.
//
// The Hub's form (model.safetensors.index.json, pytorch_model.bin.index.json,
// and MindSpore's param_name_map.json) is
//
//	{"metadata": {"total_size": 2818}, "weight_map": {"a.small": "model-00001-of-00003.safetensors"}}
//
// and MindFormers also writes the inner map alone. File names in it are input:
// one that could lead out of the index's folder is refused.
package weightmap

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Weight is one tensor and its file, a slash-separated path below the folder
// of the index.
type Weight struct{ Name, File string }

// KV is one entry of the index's own metadata; Value is JSON text.
type KV struct{ Key, Value string }

// WeightMap is an index.
type WeightMap struct {
	Weights   []Weight // in the order of the text
	TotalSize int64    // of all tensors in bytes as the index claims, -1 where it does not say
	Metadata  []KV     // but for total_size, in the order of the text
}

// Files gives the names of the files, in the order in which they first occur.
func (m *WeightMap) Files() []string {
	var list []string
	seen := map[string]bool{}
	for _, w := range m.Weights {
		if !seen[w.File] {
			seen[w.File] = true
			list = append(list, w.File)
		}
	}
	return list
}

// Error says where the text of an index is not what it should be.
type Error struct {
	Off  int64
	Name string // of the tensor, where one is concerned
	Msg  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("weight map: at byte %d: %s", e.Off, e.Msg)
}

// CheckFile refuses a file name that is not a plain relative path downwards:
// empty, absolute, with "..", ".", an empty part, a backslash, a colon, or
// control characters.
func CheckFile(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the file name is empty")
	case !utf8.ValidString(name):
		return fmt.Errorf("the file name %q is not UTF-8", name)
	case strings.HasPrefix(name, "/"):
		return fmt.Errorf("the file name %q is absolute", name)
	case strings.IndexFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' || c == ':' }) >= 0:
		return fmt.Errorf("the file name %q has a backslash, a colon or a control character", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("the file name %q is not a plain path downwards", name)
		}
	}
	return nil
}

// ShardName is the name of shard i of n, which count from 1: the Hub's
// "model-00001-of-00003.safetensors", or "model.safetensors" where it is the
// only one. ext has its dot.
func ShardName(prefix, ext string, i, n int) string {
	if n == 1 {
		return prefix + ext
	}
	return fmt.Sprintf("%s-%05d-of-%05d%s", prefix, i, n, ext)
}

// Split spreads tensors of these sizes over shards of at most limit bytes, by
// the rule of huggingface_hub: a tensor over the limit gets a shard of its own
// at once, while the shard that is being filled stays open and so comes later.
func Split(sizes []int64, limit int64) [][]int {
	var shards [][]int
	var open []int
	room := limit
	for i, n := range sizes {
		if n > limit {
			shards = append(shards, []int{i})
			continue
		}
		if n > room {
			shards = append(shards, open)
			open, room = nil, limit
		}
		open = append(open, i)
		room -= n
	}
	if len(open) > 0 {
		shards = append(shards, open)
	}
	return shards
}
