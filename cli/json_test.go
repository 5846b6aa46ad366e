package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every command that takes --json writes one document, its schema first, and
// nothing else; that of run repeats the plan's digest.
func TestJSONDocuments(t *testing.T) {
	dir := tiny(t)
	digest := ""
	for _, tt := range []struct {
		schema string
		args   []string
		keys   []string
	}{
		{"convert/version/v1", []string{"version"}, []string{"version", "go", "platform"}},
		{"convert/formats/v1", []string{"formats"}, []string{"formats"}},
		{"convert/generate/v1", []string{"generate", "more", "--layers", "1", "--hidden", "32", "--ffn", "64", "--vocab", "128"}, []string{"path", "ranks", "bytes"}},
		{"convert/inspect/v1", []string{"inspect", "src"}, []string{"format", "tensors", "leaves", "metadata", "warnings"}},
		{"convert/inspect/v1", []string{"inspect", "src", "--match", "no such name"}, []string{"tensors", "leaves", "metadata", "warnings"}},
		{"convert/plan/v1", []string{"plan", "-f", "job.toml"}, []string{"digest", "warnings"}},
		{"convert/plan/v1", []string{"plan", "-f", "job.toml", "--all", "--by", "file"}, []string{"digest"}},
		{"convert/run/v1", []string{"-f", "job.toml"}, []string{"plan", "manifest", "warnings", "verified"}},
		{"convert/run/v1", []string{"run", "-q", "-f", "job.toml", "--set", "target.path=second"}, []string{"plan", "manifest"}},
	} {
		c := must(t, dir, append(tt.args, "--json")...)
		if !strings.HasPrefix(c.out, "{\n  \"schema\": \""+tt.schema+"\",\n") {
			t.Errorf("%v: the document begins with %.80q", tt.args, c.out)
		}
		if c.errors != "" {
			t.Errorf("%v: standard error has %q", tt.args, c.errors)
		}
		d := json.NewDecoder(strings.NewReader(c.out))
		var doc map[string]any
		if err := d.Decode(&doc); err != nil || d.More() {
			t.Errorf("%v: not one document: %v", tt.args, err)
			continue
		}
		for _, k := range tt.keys {
			if v, ok := doc[k]; !ok || v == nil {
				t.Errorf("%v: `%s` is %v", tt.args, k, v)
			}
		}
		for key, got := range doc {
			if key == "digest" || key == "plan" {
				if digest == "" {
					digest, _ = got.(string)
				}
				if got != digest || len(digest) != 64 {
					t.Errorf("%v: the plan's digest is %v, and was %s", tt.args, got, digest)
				}
			}
		}
	}
}

// A digest is of what is done, and not of where or how.
func TestPlanDigest(t *testing.T) {
	dir := tiny(t)
	digest := func(dir string, more ...string) string {
		t.Helper()
		var doc struct{ Digest string }
		if err := json.Unmarshal([]byte(must(t, dir, append([]string{"plan", "--json", "-f", "job.toml"}, more...)...).out), &doc); err != nil || doc.Digest == "" {
			t.Fatalf("no digest: %v", err)
		}
		return doc.Digest
	}
	first := digest(dir)
	moved := t.TempDir()
	copyTree(t, dir, moved)
	if err := os.Rename(filepath.Join(moved, "src"), filepath.Join(moved, "source")); err != nil {
		t.Fatal(err)
	}
	for _, same := range [][]string{
		{"source.path=source"},
		{"source.path=source", "target.path=/elsewhere/out"},
		{"source.path=source", "run.workers=1", "run.memory=1 GiB", "run.io=direct", "run.on_exists=replace"},
	} {
		args := []string{}
		for _, s := range same {
			args = append(args, "--set", s)
		}
		if got := digest(moved, args...); got != first {
			t.Errorf("with %v the digest is %s, want %s", same, got, first)
		}
	}
	for _, other := range []string{"target.prefix=x", "target.format=safetensors", "target.dtype=bf16", "target.ranks=[0]", "target.crc=true"} {
		if got := digest(dir, "--set", other); got == first {
			t.Errorf("with %s the digest is the same", other)
		}
	}
}
