package manifest_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/manifest"
)

func TestRoundTrip(t *testing.T) {
	rank := 0
	m := &manifest.Manifest{
		Schema: manifest.Schema, Program: manifest.Program{Name: "convert", Version: "1"}, Plan: "ab",
		Source:  manifest.Source{Format: "mindspore", Stages: 1, Ranks: 2, Files: []manifest.SourceFile{{Rank: 1, Name: "rank_1/a<b>&词.ckpt", Size: 7, Header: "cd"}}},
		Target:  manifest.Target{Format: "safetensors", Stages: 1, Ranks: 1},
		Files:   []manifest.File{{Name: "model.safetensors", Size: 9, CRC64: "0123", LinkTo: "x"}},
		Tensors: []manifest.Tensor{{Name: "w", DType: "f32", Shape: []int64{}, Rank: &rank}},
		Dropped: []manifest.Dropped{{Name: "x", Kind: "leaf", Reason: "none"}},
	}
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "a<b>&词.ckpt") {
		t.Errorf("names are not written as they are: %s", b)
	}
	got, err := manifest.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, m) {
		t.Errorf("read back it is %+v, want %+v", got, m)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "no manifest",
		"[]":                                  "no manifest",
		`{"schema":"convert/manifest/v2"}`:    "convert/manifest/v2",
		`{}`:                                  "schema",
		`{"schema":1}`:                        "no manifest",
		`{"schema":"convert/manifest/v1"} {}`: "no manifest",
	} {
		if _, err := manifest.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", text, err, want)
		}
	}
}
