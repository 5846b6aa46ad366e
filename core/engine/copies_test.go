package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/checkpoint/memory"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/formats/mindspore"
	"github.com/seed-e934e81e/convert/formats/safetensors"
)

// copiesThatDiffer puts four ranks of two stages; each rank's copy of a tensor
// is filled with its own number. The strategy names `w`, and not `outside`.
func copiesThatDiffer(t *testing.T, fs *storage.Memory, n int64) *memory.Checkpoint {
	t.Helper()
	c := &memory.Checkpoint{Placement: memory.Placement{Stages: 2, Devices: 2, Outside: map[string][]int{"outside": {0, 1}}}}
	c.Specs = map[string]map[int]memory.Spec{"w": {0: memory.Whole(2, 1), 1: memory.Whole(2, 1)}}
	f := safetensors.Format{}
	for r := range 4 {
		p := bytes.Repeat([]byte{byte(r)}, int(n))
		out := checkpoint.Output{Tensors: []checkpoint.Tensor{{Name: "w", DType: dtype.U8, Shape: []int64{n}}, {Name: "outside", DType: dtype.U8, Shape: []int64{n}}}}
		b, err := memory.File(f, out, [][]byte{p, p})
		if err != nil {
			t.Fatal(err)
		}
		fs.Put(fmt.Sprintf("in/rank_%d/a.safetensors", r), b)
	}
	return c
}

func TestCopiesThatDiffer(t *testing.T) {
	const large = plan.SmallCopy + 1
	type outcome struct {
		err   bool
		warns bool
		ranks []byte // whose copy each of three target ranks has
	}
	cases := []struct {
		name     string
		tensor   string
		bytes    int64
		replicas plan.Policy
		compare  plan.Compare
		want     outcome
	}{
		{name: "small copies are compared", tensor: "w", bytes: 100, replicas: plan.Fail, compare: plan.CompareSmall, want: outcome{err: true}},
		{name: "large copies are not", tensor: "w", bytes: large, replicas: plan.Fail, compare: plan.CompareSmall, want: outcome{ranks: []byte{0, 0, 0}}},
		{name: "large copies that no strategy names are", tensor: "outside", bytes: large, replicas: plan.Fail, compare: plan.CompareSmall, want: outcome{err: true}},
		{name: "all copies are, if asked for", tensor: "w", bytes: large, replicas: plan.Fail, compare: plan.CompareAll, want: outcome{err: true}},
		{name: "none are, if asked for", tensor: "outside", bytes: 100, replicas: plan.Fail, compare: plan.CompareNone, want: outcome{ranks: []byte{0, 0, 0}}},
		{name: "the first is taken, and the others told", tensor: "w", bytes: 100, replicas: plan.First, compare: plan.CompareSmall, want: outcome{warns: true, ranks: []byte{0, 0, 0}}},
		{name: "MindSpore's rule takes rank r mod n of the lowest stage", tensor: "w", bytes: 100, replicas: plan.ByRank, compare: plan.CompareAll, want: outcome{ranks: []byte{0, 1, 0}}},
		{name: "outside of the strategy too", tensor: "outside", bytes: 100, replicas: plan.ByRank, compare: plan.CompareAll, want: outcome{ranks: []byte{0, 1, 0}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fs := storage.NewMemory()
			src := copiesThatDiffer(t, fs, c.bytes)
			to := memory.Placement{Stages: 1, Devices: 3, Specs: map[string]map[int]memory.Spec{c.tensor: {0: memory.Whole(3, 1)}}}
			s, err := to.Strategy()
			if err != nil {
				t.Fatal(err)
			}
			q := plan.Request{Strategy: s, Folder: true, Replicas: c.replicas, Compare: c.compare, Leftovers: plan.Drop}
			p, err := makePlan(dropping(fs, t, c.tensor), src, q)
			if err != nil {
				t.Fatal(err)
			}
			o := small(fs)
			o.sizes = sizes{band: 16, floor: 1}
			if c.bytes > 1000 {
				o.sizes = sizes{}
			}
			o.Workers = 3
			res, err := Run(context.Background(), p, o)
			if c.want.err {
				wantDiffer(t, err, c.tensor)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			for r := range 3 {
				b := payload(t, fs, safetensors.Format{}, fmt.Sprintf("out/rank_%d/%d.safetensors", r, r), c.tensor)
				got = append(got, b[0])
				if !bytes.Equal(b, bytes.Repeat(b[:1], len(b))) {
					t.Errorf("target rank %d has bytes of several copies", r)
				}
			}
			if !bytes.Equal(got, c.want.ranks) {
				t.Errorf("the target ranks have the copies of ranks %v, want %v", got, c.want.ranks)
			}
			if warns := len(res.Warnings) > 0; warns != c.want.warns {
				t.Errorf("warnings %v, want some: %v", res.Warnings, c.want.warns)
			}
			if len(res.Warnings) > 3 {
				t.Errorf("%d warnings for the 3 other copies of one tensor", len(res.Warnings))
			}
		})
	}
}

// Of a tensor that several stages hold, MindSpore reads the lowest of the
// stages that the target's stage needs anyway.
func TestStageOfCopies(t *testing.T) {
	fs := storage.NewMemory()
	c := &memory.Checkpoint{Placement: memory.Placement{Stages: 2, Devices: 2, Outside: map[string][]int{"outside": {0, 1}}}}
	c.Specs = map[string]map[int]memory.Spec{"a": {0: memory.Whole(2, 1)}, "b": {1: memory.Whole(2, 1)}}
	for r := range 4 {
		own := []string{"a", "b"}[r/2]
		out := checkpoint.Output{Tensors: []checkpoint.Tensor{{Name: own, DType: dtype.U8, Shape: []int64{1}}, {Name: "outside", DType: dtype.U8, Shape: []int64{1}}}}
		b, err := memory.File(safetensors.Format{}, out, [][]byte{{7}, {byte(r)}})
		if err != nil {
			t.Fatal(err)
		}
		fs.Put(fmt.Sprintf("in/rank_%d/a.safetensors", r), b)
	}
	for replicas, want := range map[plan.Policy][]byte{plan.ByRank: {0, 1, 2, 3}, plan.First: {0, 0, 0, 0}} {
		s, err := c.Strategy()
		if err != nil {
			t.Fatal(err)
		}
		p, err := makePlan(fs, c, plan.Request{Strategy: s, Folder: true, Replicas: replicas})
		if err != nil {
			t.Fatal(err)
		}
		o := small(fs)
		o.Target = string(replicas)
		if _, err := Run(context.Background(), p, o); err != nil {
			t.Fatal(err)
		}
		var got []byte
		for r := range 4 {
			got = append(got, payload(t, fs, safetensors.Format{}, fmt.Sprintf("%s/rank_%d/%d.safetensors", replicas, r, r), "outside")...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the target ranks have the copies of ranks %v, want %v", replicas, got, want)
		}
	}
}

// dropping is fs with only one of the tensors in its files.
func dropping(fs *storage.Memory, t *testing.T, keep string) *storage.Memory {
	t.Helper()
	f := safetensors.Format{}
	for _, name := range fs.Names() {
		p := payload(t, fs, f, name, keep)
		b, err := memory.File(f, checkpoint.Output{Tensors: []checkpoint.Tensor{{Name: keep, DType: dtype.U8, Shape: []int64{int64(len(p))}}}}, [][]byte{p})
		if err != nil {
			t.Fatal(err)
		}
		fs.Put(name, b)
	}
	return fs
}

// wantDiffer demands that the message names tensor and both ranks.
func wantDiffer(t *testing.T, err error, tensor string) {
	t.Helper()
	if err == nil {
		t.Fatal("copies that differ are taken")
	}
	d := diag.From(err)[0]
	if d.Code != diag.Damaged || d.Subject.Tensor != tensor || d.Hint == "" || !strings.Contains(d.Summary, "ranks 0 and ") || !strings.Contains(d.Summary, tensor) {
		t.Errorf("the error is %+v, want one of class damaged that names %s and both ranks", d, tensor)
	}
}

// With MindSpore's rule copies may differ; then a tensor has no one digest,
// and which worker is done first must not show.
func TestDigestOfCopiesThatDiffer(t *testing.T) {
	for range 20 {
		fs := storage.NewMemory()
		src := copiesThatDiffer(t, fs, 100)
		to := memory.Placement{Stages: 1, Devices: 2, Specs: map[string]map[int]memory.Spec{"w": {0: memory.Whole(2, 1)}}}
		s, err := to.Strategy()
		if err != nil {
			t.Fatal(err)
		}
		p, err := makePlan(fs, src, plan.Request{Strategy: s, Folder: true, Replicas: plan.ByRank})
		if err != nil {
			t.Fatal(err)
		}
		o := small(fs)
		o.Workers = 4
		o.sizes = sizes{band: 8, floor: 1}
		res, err := Run(context.Background(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range res.Manifest.Tensors {
			if x.CRC64 != "" {
				t.Fatalf("%s has the digest %s, though target ranks hold different bytes of it", x.Name, x.CRC64)
			}
		}
	}
}

// A file that has changed since the plan was made makes the plan stale.
func TestSourceChanges(t *testing.T) {
	s := newScene(t, false, false)
	s.hook.reset(nil)
	b, _ := s.fs.Bytes("in/rank_2/net.ckpt")
	for name, change := range map[string][]byte{"shorter": b[:len(b)-1], "longer": append(slices.Clone(b), 0)} {
		s.fs.Put("in/rank_2/net.ckpt", change)
		before := tree(t, s.fs)
		_, err := Run(context.Background(), s.p, s.o)
		if err == nil {
			t.Fatalf("%s: the run goes on with it", name)
		}
		if d := diag.From(err)[0]; d.Code != diag.Stale || d.Subject.File != "rank_2/net.ckpt" || d.Subject.Rank != 2 || d.Hint == "" {
			t.Errorf("%s: the error is %+v, want a stale plan that names rank_2/net.ckpt", name, d)
		}
		if d := unlike(tree(t, s.fs), before); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// A checksum that does not agree is found before anything is written, if the
// rank is read at all, and may be ignored.
func TestChecksum(t *testing.T) {
	damage := func(s *scene, rank int) {
		r := s.p.Source.Rank(rank)
		b, _ := s.fs.Bytes(r.Files[0].Path)
		b = slices.Clone(b)
		b[r.Header.Find("a").Data.Extents[0].Off] ^= 1
		s.fs.Put(r.Files[0].Path, b)
		e, err := s.fs.Stat(t.Context(), r.Files[0].Path)
		if err != nil {
			t.Fatal(err)
		}
		r.Files[0].Time = e.Time // it was damaged before it was read
	}
	s := newScene(t, false, false)
	s.hook.reset(nil)
	damage(s, 1)
	before := tree(t, s.fs)
	_, err := Run(context.Background(), s.p, s.o)
	if err == nil {
		t.Fatal("a wrong checksum is passed over")
	}
	if d := diag.From(err)[0]; d.Code != diag.Damaged || d.Subject.File != "rank_1/net.ckpt" || !strings.Contains(d.Summary, "crc_num") {
		t.Errorf("the error is %+v, want damage that names rank_1/net.ckpt and crc_num", d)
	}
	if slices.ContainsFunc(s.hook.ops, func(op string) bool { return strings.HasPrefix(op, "create") }) {
		t.Errorf("files were created before the checksums were looked at")
	}
	if d := unlike(tree(t, s.fs), before); d != "" {
		t.Error(d)
	}
	s.o.CRC = false
	if _, err := Run(context.Background(), s.p, s.o); err != nil {
		t.Errorf("with `source.crc = \"ignore\"`: %v", err)
	}
}

// What goes wrong between memory and disk is found by reading back.
func TestDiskThatLies(t *testing.T) {
	for _, c := range []struct {
		mode  Verify
		at    int64 // the byte that flips in rank 1's file
		found bool
	}{
		{VerifyReadBack, 3, true}, {VerifyReadBack, -1, true}, {VerifyDigest, 3, true}, {VerifyHeader, 3, true}, {VerifyNone, 3, false},
	} {
		s := newScene(t, false, false)
		s.hook.reset(nil)
		s.o.FS = lying{s.fs, c.at}
		s.o.Verify, s.o.SHA256, s.o.CRC = c.mode, false, false
		before := tree(t, s.fs)
		_, err := Run(context.Background(), s.p, s.o)
		if found := err != nil; found != c.found {
			t.Errorf("%s: byte %d of a file is flipped, the error is %v", c.mode, c.at, err)
		}
		if err != nil && !strings.Contains(err.Error(), "new_1.ckpt") {
			t.Errorf("%s: the error %v does not name the file", c.mode, err)
		}
		if d := unlike(tree(t, s.fs), before); err != nil && d != "" {
			t.Errorf("%s: %s", c.mode, d)
		}
	}
}

// lying flips a bit of what is written to rank 1's file; −1 is the last byte.
type lying struct {
	storage.FS
	at int64
}

type lyingWriter struct {
	storage.Writer
	at int64
}

func (f lying) Create(ctx context.Context, name string, size int64, o storage.CreateOptions) (storage.Writer, error) {
	w, err := f.FS.Create(ctx, name, size, o)
	if err != nil || path.Base(name) != "new_1.ckpt" {
		return w, err
	}
	if f.at < 0 {
		f.at += size
	}
	return lyingWriter{w, f.at}, nil
}

func (w lyingWriter) WriteAt(p []byte, off int64) (int, error) {
	if off <= w.at && w.at < off+int64(len(p)) {
		p = slices.Clone(p)
		p[w.at-off] ^= 4
	}
	return w.Writer.WriteAt(p, off)
}

// The target may not be the source, nor hold what is not of an earlier run.
func TestTargetInTheWay(t *testing.T) {
	fresh := func() *scene {
		s := newScene(t, false, false)
		s.hook.reset(nil)
		return s
	}
	cases := []struct {
		name   string
		target string
		put    string
		exists OnExists
		want   string // of the error; "" for none
	}{
		{name: "the source itself", target: "in", want: "same place"},
		{name: "a folder in the source", target: "in/rank_0/new", want: "same place"},
		{name: "the folder that the source is in", target: ".", want: "same place"},
		{name: "a file in the target", target: "out", put: "out/x", want: "has files in it"},
		{name: "a file in a folder of the target", target: "out", put: "out/rank_7/x", want: "has files in it"},
		{name: "hidden files", target: "out", put: "out/.keep"},
		{name: "a file of its own name", target: "out", put: "out/rank_1/new_1.ckpt", exists: ExistsReplace, want: "is in the way"},
		{name: "other files", target: "out", put: "out/rank_1/other.ckpt", exists: ExistsReplace},
		{name: "a damaged manifest", target: "out", put: "out/convert.manifest.json", exists: ExistsReplace, want: "manifest"},
	}
	for _, c := range cases {
		s := fresh()
		s.o.Target = c.target
		if c.exists != "" {
			s.o.OnExists = c.exists
		}
		if c.put != "" {
			s.fs.Put(c.put, []byte("{}"))
		}
		before := tree(t, s.fs)
		_, err := Run(context.Background(), s.p, s.o)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: the error is %v, want one that says %q", c.name, err, c.want)
		case c.want != "":
			if d := unlike(tree(t, s.fs), before); d != "" {
				t.Errorf("%s: %s", c.name, d)
			}
		}
	}
}

// An earlier manifest is not trusted with paths.
func TestManifestOfOthers(t *testing.T) {
	for _, name := range []string{"../in/rank_0/net.ckpt", "/in/rank_0/net.ckpt", "rank_0/../../in/rank_0/net.ckpt", "..", "."} {
		s := newScene(t, false, false)
		s.hook.reset(nil)
		s.fs.Put("out/deep/convert.manifest.json", fmt.Appendf(nil, `{"schema":"convert/manifest/v1","files":[{"name":%q}]}`, name))
		s.o.OnExists = ExistsReplace
		before := tree(t, s.fs)
		if _, err := Run(context.Background(), s.p, s.o); err == nil || !strings.Contains(err.Error(), "outside the target") {
			t.Errorf("a manifest lists %q: the error is %v", name, err)
		}
		if d := unlike(tree(t, s.fs), before); d != "" {
			t.Errorf("a manifest lists %q: %s", name, d)
		}
	}
}

// Replacing removes all that the earlier manifest lists, with the folders that
// held nothing else, and leaves the rest.
func TestReplaceByFewerRanks(t *testing.T) {
	s := newScene(t, false, true)
	s.hook.reset(nil)
	s.fs.Put("out/deep/rank_2/notes", []byte("kept"))
	p, err := makePlan(s.fs, fourRanks(), plan.Request{Folder: true, Format: mindspore.Format{}, Compare: plan.CompareNone})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), p, s.o); err != nil {
		t.Fatal(err)
	}
	var got []string
	for n := range tree(t, s.fs) {
		if strings.HasPrefix(n, "out/deep/") && n != "out/deep/" {
			got = append(got, strings.TrimPrefix(n, "out/deep/"))
		}
	}
	slices.Sort(got)
	want := []string{"convert.manifest.json", "notes.txt", "rank_0/", "rank_0/0.ckpt", "rank_2/", "rank_2/notes"}
	if !slices.Equal(got, want) {
		t.Errorf("the target has %v, want %v", got, want)
	}
}

// Only one run writes to a folder.
func TestLocked(t *testing.T) {
	s := newScene(t, false, true)
	s.hook.reset(nil)
	release, err := s.fs.Lock(context.Background(), s.o.Target)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	before := tree(t, s.fs)
	_, err = Run(context.Background(), s.p, s.o)
	if d := diag.From(err); len(d) == 0 || d[0].Code != diag.Interrupted {
		t.Errorf("the error is %v, want one of class interrupted", err)
	}
	if d := unlike(tree(t, s.fs), before); d != "" {
		t.Error(d)
	}
}

// A disk that is too full is known before the first byte.
func TestFullDisk(t *testing.T) {
	s := newScene(t, false, false)
	s.hook.reset(nil)
	used := int64(0)
	for _, n := range s.fs.Names() {
		b, _ := s.fs.Bytes(n)
		used += int64(len(b))
	}
	before := tree(t, s.fs)
	for free := int64(0); ; free += 97 {
		s.fs.Limit = used + free
		s.hook.reset(nil)
		_, err := Run(context.Background(), s.p, s.o)
		if err == nil {
			if free < s.p.Totals.WriteBytes {
				t.Errorf("%d bytes are written to a disk with %d", s.p.Totals.WriteBytes, free)
			}
			return
		}
		if creates := func(op string) bool { return strings.HasPrefix(op, "create") }; free < s.p.Totals.WriteBytes && slices.ContainsFunc(s.hook.ops, creates) {
			t.Errorf("%d bytes are free, and files are begun", free)
		}
		if !errors.As(err, new(*diag.Diagnostic)) || diag.From(err)[0].Hint == "" {
			t.Errorf("%d bytes are free: the error %v says not what to do", free, err)
		}
		if d := unlike(tree(t, s.fs), before); d != "" {
			t.Fatalf("%d bytes are free: %s", free, d)
		}
	}
}
