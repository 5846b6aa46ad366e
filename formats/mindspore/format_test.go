package mindspore

import (
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
)

func sample(b []byte) checkpoint.Sample {
	n := min(len(b), checkpoint.SampleSize)
	return checkpoint.Sample{Head: b[:n], Tail: b[len(b)-n:], Size: int64(len(b))}
}

// encrypted begins like a block of an encrypted checkpoint.
func encrypted(magic byte, tag int) []byte {
	b := append([]byte{magic, 0x5E, 0x3A, 0x7F}, make([]byte, tag)...)
	return append(b, 0x40, 0, 0, 0, 16, 0, 0, 0, 1, 2, 3)
}

// groupInfo is a ParallelGroupMap, whose items begin like a record's.
var groupInfo = appendBytes(nil, 1, cat(
	appendBytes(nil, 1, []byte("2-573")),
	appendList(nil, 2, []int64{0, 1}),
))

func TestProbe(t *testing.T) {
	whole := rec("w", "Float32", []int64{2, 2}, seq(16))
	for _, c := range []struct {
		name string
		b    []byte
		want checkpoint.Match
	}{
		{"a checkpoint", whole, checkpoint.Yes},
		{"the first record alone tells", cat(whole, []byte("garbage")), checkpoint.Yes},
		{"a record that is longer than the sample", rec("w", "Float32", []int64{2000}, seq(8000)), checkpoint.Yes},
		{"a checkpoint that is cut off", whole[:20], checkpoint.Yes},
		{"a string", rec("s", "str", []int64{0}, make([]byte, 4)), checkpoint.Yes},
		{"the spelling of 2020", rec("w", "Uint8", nil, seq(1)), checkpoint.Yes},
		{"AES-GCM", encrypted(0xD8, 16), checkpoint.Yes},
		{"AES-CBC", encrypted(0xD9, 0), checkpoint.Yes},
		{"SM4-CBC", encrypted(0xDA, 0), checkpoint.Yes},
		{"another magic", encrypted(0xDB, 0), checkpoint.No},
		{"a map parameter", appendBytes(nil, 1, cat(appendBytes(nil, 1, []byte("m")), appendBytes(nil, 3, nil))), checkpoint.Maybe},
		{"an empty file", nil, checkpoint.No},
		{"an empty name", rec("", "Float32", []int64{1}, seq(4)), checkpoint.No},
		{"an empty type", rec("w", "", []int64{1}, seq(4)), checkpoint.No},
		{"an unknown type", rec("w", "Quux", []int64{1}, seq(4)), checkpoint.No},
		{"a name of control characters", rec("\x01\x02", "Float32", []int64{1}, seq(4)), checkpoint.No},
		{"group info", groupInfo, checkpoint.No},
		{"a strategy", goodStrategy, checkpoint.No},
		{"a strategy in JSON", []byte(goodJSON), checkpoint.No},
		{"text", []byte("\nversion https://git-lfs.github.com/spec/v1\n"), checkpoint.No},
		{"zeros", make([]byte, 100), checkpoint.No},
		{"the tensor before the name", appendBytes(nil, 1, cat(
			appendBytes(nil, 2, cat(appendBytes(nil, 2, []byte("Int8")), appendBytes(nil, 3, []byte{1}))),
			appendBytes(nil, 1, []byte("w")))), checkpoint.Yes},
	} {
		if got := (Format{}).Probe(sample(c.b)); got != c.want {
			t.Errorf("%s: Probe = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestProbeStrategy(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want bool
	}{
		{"protobuf", goodStrategy, true},
		{"protobuf cut off", goodStrategy[:20], true},
		{"JSON", []byte(goodJSON), true},
		{"without items", []byte{8, 1}, true},
		{"a checkpoint", rec("w", "Float32", []int64{1}, seq(4)), false},
		{"group info", groupInfo, false},
		{"other JSON", []byte(`{"weight_map":{}}`), false},
		{"an empty file", nil, false},
		{"text", []byte("\xff\xfe not a protobuf"), false},
	} {
		if got := ProbeStrategy(sample(c.b)); got != c.want {
			t.Errorf("%s: ProbeStrategy = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestIndexRefusesWhatIsNoCheckpoint(t *testing.T) {
	for _, c := range []struct {
		name, want, hint string
		b                []byte
	}{
		{"encrypted", "encrypted with AES-GCM", "decrypt it first; encrypted checkpoints are not supported", encrypted(0xD8, 16)},
		{"a strategy", "this is a strategy file, not a checkpoint", "strategy", goodStrategy},
		{"group info", "`2-573` has no tensor_type", "", groupInfo},
		{"an empty file", "the file is empty", "", nil},
	} {
		_, err := index(c.b)
		fe := formatError(err)
		if fe == nil || !strings.Contains(fe.Msg, c.want) || !strings.Contains(fe.Hint, c.hint) {
			t.Errorf("%s: Index = %v (hint %q), want %q (hint %q)", c.name, err, fe.Hint, c.want, c.hint)
		}
	}
}
