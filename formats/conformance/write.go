package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
)

func (k *kit) describes(context.Context) error {
	d := k.about
	switch {
	case d.Name == "" || d.Title == "":
		return errors.New("has no name or title")
	case !d.Read && !d.Write:
		return errors.New("neither reads nor writes")
	case d.Write && len(d.Extensions) == 0:
		return errors.New("writes, and has no extension for new files")
	case d.Write && !d.Read:
		return errors.New("writes what it cannot read")
	case d.Read && !d.Write && len(k.Samples) == 0:
		return errors.New("only reads, and brings no samples to be tested with")
	}
	for _, e := range d.Extensions {
		if !strings.HasPrefix(e, ".") {
			return fmt.Errorf("has the extension %q without a dot", e)
		}
	}
	if again := k.format.Describe(); !reflect.DeepEqual(d, again) {
		return fmt.Errorf("describes itself as %+v and then as %+v", d, again)
	}
	return nil
}

// leavesOthersAlone shows Probe what no checkpoint format should take for its
// own.
func (k *kit) leavesOthersAlone(context.Context) error {
	for _, s := range []Sample{
		{"an empty file", nil},
		{"one byte", []byte{0}},
		{"zeros", make([]byte, 8192)},
		{"text", bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog.\n"), 200)},
		{"JSON", []byte(`{"metadata":{"total_size":1},"weight_map":{"a":"b"}}`)},
		{"a Git LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 5\n")},
		{"bytes of 0xff", bytes.Repeat([]byte{0xff}, 8192)},
	} {
		if m := k.format.Probe(sample("x"+ext(k.about), s.Data)); m == checkpoint.Yes {
			return fmt.Errorf("takes %s for its own", s.Name)
		}
	}
	return nil
}

func ext(d checkpoint.Description) string {
	if len(d.Extensions) == 0 {
		return ""
	}
	return d.Extensions[0]
}

func (k *kit) writing() []Check {
	return []Check{
		{"holds the element types that it should", k.holdsTypes},
		{"reads back what it wrote, bit for bit", k.roundTrips},
		{"reads back a tensor of each element type", k.roundTripsTypes},
		{"keeps odd names or refuses them", k.oddNames},
		{"writes a checkpoint without tensors, or refuses it", k.noTensors},
		{"refuses two tensors of one name", k.twoOfAName},
		{"yields while it walks many tensors", k.yields},
		{"reads headers only", k.readsHeaders},
		{"stops laying out when cancelled", k.writeCancelled},
	}
}

func (k *kit) holdsTypes(ctx context.Context) error {
	types, err := k.types(ctx)
	for _, t := range k.DTypes {
		if err == nil && !slices.Contains(types, t) {
			err = fmt.Errorf("refuses the element type %s", t)
		}
	}
	return err
}

// roundTrip writes and reads a checkpoint, twice each way.
func (k *kit) roundTrip(ctx context.Context, m *model) error {
	file, bp, err := k.write(ctx, m)
	if err != nil {
		return err
	}
	again, _, err := k.write(ctx, m)
	if err != nil || !bytes.Equal(again, file) {
		return fmt.Errorf("wrote other bytes the second time: %v", err)
	}
	src := Bytes("conformance"+ext(k.about), file)
	x, err := k.index(ctx, src, true)
	if err != nil {
		return fmt.Errorf("refuses, when strict, what it wrote: %w", err)
	}
	if err := x.Warnings.Err(); err != nil {
		return fmt.Errorf("warns of what it wrote: %w", err)
	}
	if x.Format != k.about.Name {
		return fmt.Errorf("calls itself %q in the index and %q elsewhere", x.Format, k.about.Name)
	}
	if twice, err := k.index(ctx, src, true); err != nil || !reflect.DeepEqual(x, twice) && !hasNaN(x) {
		return fmt.Errorf("read something else the second time: %v", err)
	}
	if err := sums(x, file); err != nil {
		return err
	}
	if m.out.Trailer && len(x.Checks) == 0 {
		return errors.New("a trailer was asked for, the file has no sum")
	}
	return m.same(ctx, src, x, bp)
}

// hasNaN reports whether a leaf is no number, which equals nothing.
func hasNaN(x *checkpoint.Index) bool {
	return slices.ContainsFunc(x.Leaves, func(l checkpoint.Leaf) bool { return l.Value.Float != l.Value.Float })
}

func (k *kit) roundTrips(ctx context.Context) error {
	types, err := k.types(ctx)
	if err != nil {
		return err
	}
	for seed := range uint64(k.Seeds) {
		m := k.random(types, seed)
		if err := k.roundTrip(ctx, m); err != nil {
			return fmt.Errorf("checkpoint of seed %d: %w", seed, err)
		}
		file, _, err := k.write(ctx, m)
		if err != nil {
			return err
		}
		if got := k.format.Probe(sample("", file)); got != checkpoint.Yes {
			return fmt.Errorf("checkpoint of seed %d: does not know its own file (%d, want %d)", seed, got, checkpoint.Yes)
		}
	}
	return nil
}

func (k *kit) roundTripsTypes(ctx context.Context) error {
	types, err := k.types(ctx)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for _, t := range types {
		m := k.newModel()
		m.add(rng, "matrix", nil, t, 3, 4)
		m.add(rng, "scalar", nil, t)
		m.add(rng, "one", nil, t, 1)
		m.add(rng, "empty", nil, t, 0)
		m.add(rng, "empty matrix", nil, t, 3, 0, 2)
		if err := k.roundTrip(ctx, m); err != nil {
			return fmt.Errorf("element type %s: %w", t, err)
		}
	}
	return nil
}

func (k *kit) oddNames(ctx context.Context) error {
	types, err := k.types(ctx)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for _, name := range []string{
		"", " ", ".", "..", "a.b", "a..b", "/etc/passwd", "../../x", `C:\x`, "a\x00b", "a\nb", "\x7f", `"`, `\`, "{}", "é层😀", "\ufffd",
		"\xff\xfe", "a\xc3", "__metadata__", "version", "data", "0", "-1", strings.Repeat("x", 5000),
	} {
		m := k.newModel()
		m.add(rng, name, nil, types[0], 4)
		if _, err := k.format.Blueprint(ctx, m.out); err != nil {
			if err := refusal(err, name); err != nil {
				return fmt.Errorf("tensor %q: %w", name, err)
			}
			continue
		}
		file, bp, err := k.write(ctx, m)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		// The name may be an oddity to a strict reader.
		src := Bytes("", file)
		x, err := k.index(ctx, src, false)
		if err == nil {
			err = m.same(ctx, src, x, bp)
		}
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	return nil
}

func (k *kit) noTensors(ctx context.Context) error {
	m := k.newModel()
	if _, err := k.format.Blueprint(ctx, m.out); err != nil {
		return refusal(err, "")
	}
	file, bp, err := k.write(ctx, m)
	if err != nil {
		return err
	}
	if len(file) == 0 {
		return nil // nothing tells whose the file is
	}
	src := Bytes("", file)
	x, err := k.index(ctx, src, false)
	if err != nil {
		return err
	}
	return m.same(ctx, src, x, bp)
}

func (k *kit) twoOfAName(ctx context.Context) error {
	types, err := k.types(ctx)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(6, 6))
	m := k.newModel()
	m.add(rng, "twin", nil, types[0], 4)
	m.add(rng, "twin", nil, types[0], 8)
	if _, err := k.format.Blueprint(ctx, m.out); err != nil {
		return refusal(err, "twin")
	}
	return errors.New("wrote both, and one would hide the other")
}

// yields demands a call of Yield for every few dozen items: without it nothing
// else runs where threads are not pre-empted.
func (k *kit) yields(ctx context.Context) error {
	const n, least = 1000, 10
	types, err := k.types(ctx)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(7, 7))
	m := k.newModel()
	for i := range n {
		m.add(rng, fmt.Sprintf("t%d", i), nil, types[i%len(types)], 1)
	}
	calls := 0
	m.out.Yield = func() { calls++ }
	bp, err := k.format.Blueprint(ctx, m.out)
	if err != nil {
		return err
	}
	if calls < least {
		return fmt.Errorf("yielded %d times while laying out %d tensors, want %d at least", calls, n, least)
	}
	file, err := Assemble(bp, func(i int) []byte { return m.data[i] })
	if err != nil {
		return err
	}
	calls = 0
	_, err = k.format.Index(ctx, checkpoint.Input{File: Bytes("", file), Yield: func() { calls++ }})
	if err == nil && calls < least {
		err = fmt.Errorf("yielded %d times while indexing %d tensors, want %d at least", calls, n, least)
	}
	return err
}

// readsHeaders counts what indexing reads of a file that is mostly data.
func (k *kit) readsHeaders(ctx context.Context) error {
	types, err := k.types(ctx)
	if err != nil {
		return err
	}
	t := types[0]
	if slices.Contains(types, dtype.F32) {
		t = dtype.F32
	}
	rng := rand.New(rand.NewPCG(8, 8))
	m := k.newModel()
	m.add(rng, "a", nil, t, 4)
	m.add(rng, "b", nil, t, 1<<20)
	m.add(rng, "c", nil, t, 1<<20)
	file, _, err := k.write(ctx, m)
	if err != nil {
		return err
	}
	src := Bytes("", file)
	if _, err := k.index(ctx, src, false); err != nil {
		return err
	}
	if n := src.BytesRead(); n > int64(len(file))/4 {
		return fmt.Errorf("read %d of %d bytes to index two large tensors", n, len(file))
	}
	return nil
}

func (k *kit) writeCancelled(ctx context.Context) error {
	m, err := k.small(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := k.format.Blueprint(ctx, m.out); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("answered %v, want %v", err, context.Canceled)
	}
	return nil
}
