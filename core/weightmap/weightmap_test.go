package weightmap

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// shared finds a file beside the project, and skips the test where there is
// none.
func shared(t *testing.T, elem ...string) []byte {
	t.Helper()
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the package")
		}
	}
	data, err := os.ReadFile(filepath.Join(append([]string{dir, "..", "shared"}, elem...)...))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("../shared is not here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		want       WeightMap
	}{
		{
			"the Hub's form", `{"metadata":{"total_size":2818},"weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors"}}`,
			WeightMap{[]Weight{{"b", "m-2.safetensors"}, {"a", "m-1.safetensors"}}, 2818, nil},
		},
		{"the map before the metadata", `{"weight_map":{"a":"f"},"metadata":{"total_size":1}}`, WeightMap{[]Weight{{"a", "f"}}, 1, nil}},
		{
			"MindFormers' flat form", `{"b":"part1.safetensors","a":"part0.safetensors"}`,
			WeightMap{[]Weight{{"b", "part1.safetensors"}, {"a", "part0.safetensors"}}, -1, nil},
		},
		{
			"a flat form with a tensor called weight_map", `{"weight_map":"f","metadata":"g"}`,
			WeightMap{[]Weight{{"weight_map", "f"}, {"metadata", "g"}}, -1, nil},
		},
		{"no metadata", `{"weight_map":{"a":"f"}}`, WeightMap{[]Weight{{"a", "f"}}, -1, nil}},
		{"no tensors", `{"metadata":{},"weight_map":{}}`, WeightMap{nil, -1, nil}},
		{"a subfolder", `{"weight_map":{"a":"unet/model.safetensors"}}`, WeightMap{[]Weight{{"a", "unet/model.safetensors"}}, -1, nil}},
		{
			"keys that quantized models add", `{"weight_map":{"a":"f"},"quant":{"bits":[4,8]},"v":1,"n":null,"s":"x"}`,
			WeightMap{[]Weight{{"a", "f"}}, -1, nil},
		},
		{
			"metadata as it stands", `{"metadata":{"total_size": 1.5e9, "total_parameters":"7B", "x" : {"y":[1,{"z":2}]}},"weight_map":{}}`,
			WeightMap{nil, -1, []KV{{"total_size", "1.5e9"}, {"total_parameters", `"7B"`}, {"x", `{"y":[1,{"z":2}]}`}}},
		},
		{"whitespace at either end", " {\"weight_map\":{\"a\":\"f\"}}\n", WeightMap{[]Weight{{"a", "f"}}, -1, nil}},
		{"escapes in a name", `{"weight_map":{"\u00e9\ud83d\ude00":"f"}}`, WeightMap{[]Weight{{"é😀", "f"}}, -1, nil}},
	}
	for _, tt := range tests {
		got, err := ParseWeightMap([]byte(tt.text))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a tensor that stands twice", `{"weight_map":{"a":"f","a":"g"}}`, "twice"},
		{"a map that stands twice", `{"weight_map":{"a":"f"},"weight_map":{}}`, "twice"},
		{"an absolute file", `{"weight_map":{"a":"/etc/passwd"}}`, "absolute"},
		{"a file that climbs", `{"weight_map":{"a":"../x"}}`, "not a plain path"},
		{"a file that climbs later", `{"weight_map":{"a":"x/../../y"}}`, "not a plain path"},
		{"a file with a backslash", `{"weight_map":{"a":"..\\x"}}`, "backslash"},
		{"a file on a drive", `{"weight_map":{"a":"C:x"}}`, "colon"},
		{"a file with a NUL", `{"weight_map":{"a":"x\u0000y"}}`, "control"},
		{"an empty file", `{"weight_map":{"a":""}}`, "empty"},
		{"a folder", `{"weight_map":{"a":"x/"}}`, "not a plain path"},
		{"a file that climbs in the flat form", `{"a":"../x"}`, "not a plain path"},
		{"a file that is a number", `{"weight_map":{"a":1}}`, "no file name"},
		{"a file that is an object", `{"weight_map":{"a":{"b":"c"}}}`, "no file name"},
		{"an empty object", `{}`, "no `weight_map`"},
		{"a map that is a list", `{"weight_map":["a"]}`, "no `weight_map`"},
		{"a flat form with a number", `{"a":"f","b":1}`, "no `weight_map`"},
		{"a list", `[]`, "not a JSON object"},
		{"half a surrogate pair", `{"weight_map":{"\ud800":"f"}}`, "not Unicode"},
		{"bytes that are not UTF-8", "{\"weight_map\":{\"\xff\":\"f\"}}", "not UTF-8"},
		{"deep nesting", `{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "deeper"},
		{"a text that ends early", `{"weight_map":{"a":"f"`, "not JSON"},
		{"an empty text", ``, "not JSON"},
		{"a second value", `{"weight_map":{}} {}`, "goes on"},
		{"an LFS pointer", "version https://git-lfs.github.com/spec/v1\n", "not JSON"},
	}
	for _, tt := range tests {
		_, err := ParseWeightMap([]byte(tt.text))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Msg, tt.want) {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

func TestParseRealFiles(t *testing.T) {
	m, err := ParseWeightMap(shared(t, "corpus", "dev", "hf_index", "LogicLLM__ff04b76b__pytorch_model.bin.index.json"))
	if err != nil || len(m.Weights) != 290 || m.TotalSize != 59914401792 || len(m.Files()) != 7 {
		t.Errorf("a 7-shard index: %d weights in %d files, total %d, %v", len(m.Weights), len(m.Files()), m.TotalSize, err)
	}
	m, err = ParseWeightMap(shared(t, "golden", "mindspore", "24_unified_safetensors", "expected", "param_name_map.json"))
	if err != nil || len(m.Weights) == 0 || m.Files()[0] != "part0.safetensors" {
		t.Errorf("MindSpore's param_name_map.json: %d weights, files %q, %v", len(m.Weights), m.Files(), err)
	}
}

// The sizes are those of the golden checkpoint, which huggingface_hub split at
// 600 bytes: the big second tensor takes the first number.
func TestSplitAndMarshalAsTheHub(t *testing.T) {
	want := shared(t, "golden", "torch", "dist", "hf_sharded_safetensors", "model.safetensors.index.json")
	names := []string{"a.small", "b.big", "c.mid", "d.half", "f.last", "g.i64"}
	sizes := []int64{40, 2000, 400, 120, 18, 240}
	shards := Split(sizes, 600)
	var weights []Weight
	total := int64(0)
	for i, shard := range shards {
		for _, k := range shard {
			weights = append(weights, Weight{names[k], ShardName("model", ".safetensors", i+1, len(shards))})
			total += sizes[k]
		}
	}
	if got := Marshal(weights, total); string(got) != string(want) {
		t.Errorf("the index differs from the Hub's:\n%s\nwant\n%s", got, want)
	}
}

func TestSplit(t *testing.T) {
	tests := []struct {
		name  string
		sizes []int64
		limit int64
		want  [][]int
	}{
		{"nothing", nil, 10, nil},
		{"all in one", []int64{3, 3, 4}, 10, [][]int{{0, 1, 2}}},
		{"the Hub's example", []int64{6, 6, 2, 6, 2, 2}, 10, [][]int{{0}, {1, 2}, {3, 4, 5}}},
		{"over the limit, alone", []int64{11}, 10, [][]int{{0}}},
		{"over the limit, while a shard is open", []int64{1, 11, 1}, 10, [][]int{{1}, {0, 2}}},
		{"empty tensors at no limit", []int64{0, 5, 0}, 0, [][]int{{1}, {0, 2}}},
		{"sums near the largest integer", []int64{1 << 62, 1 << 62, 1 << 62}, 1<<63 - 1, [][]int{{0}, {1}, {2}}},
	}
	for _, tt := range tests {
		if got := Split(tt.sizes, tt.limit); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestMarshal(t *testing.T) {
	tests := []struct {
		name    string
		weights []Weight
		want    string
	}{
		{"no tensors", nil, "{\n  \"metadata\": {\n    \"total_size\": 7\n  },\n  \"weight_map\": {}\n}"},
		{
			"Python's escapes",
			[]Weight{{"\"\\\n\x01\x7fé😀/", "f"}},
			"{\n  \"metadata\": {\n    \"total_size\": 7\n  },\n  \"weight_map\": {\n    \"\\\"\\\\\\n\\u0001\\u007f\\u00e9\\ud83d\\ude00/\": \"f\"\n  }\n}",
		},
	}
	for _, tt := range tests {
		if got := string(Marshal(tt.weights, 7)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestShardName(t *testing.T) {
	if got := ShardName("pytorch_model", ".bin", 2, 3); got != "pytorch_model-00002-of-00003.bin" {
		t.Error("shard 2 of 3 is called", got)
	}
	if got := ShardName("model", ".safetensors", 1, 1); got != "model.safetensors" {
		t.Error("the only shard is called", got)
	}
}

// What parses marshals into a text that parses to the same weights.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":2818},"weight_map":{"b":"m-2","a":"x/m-1"}}`))
	f.Add([]byte(`{"b":"m-2","a":"m-1"}`))
	f.Add([]byte(`{"weight_map":{"\u00e9":"f"},"q":[{"a":[]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseWeightMap(data)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Off < 0 || e.Off > int64(len(data)) {
				t.Fatalf("the error %v has no place in the text", err)
			}
			return
		}
		for _, w := range m.Weights {
			if p := filepath.Clean(filepath.FromSlash(w.File)); p != w.File || !filepath.IsLocal(p) {
				t.Fatalf("the file %q leads elsewhere", w.File)
			}
		}
		again, err := ParseWeightMap(Marshal(m.Weights, max(m.TotalSize, 0)))
		if err != nil || !reflect.DeepEqual(again.Weights, m.Weights) {
			t.Fatalf("marshalled and read again: %v, %v; want %v", again.Weights, err, m.Weights)
		}
	})
}
