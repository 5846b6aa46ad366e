package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/storage"
)

func (k *kit) reading() []Check {
	list := []Check{
		{"refuses an empty file", k.refusesEmpty},
		{"reads its samples", k.eachFile(k.readsSample)},
		{"answers the same from several goroutines", k.eachFile(k.readsAtOnce)},
		{"stops indexing when cancelled", k.eachFile(k.readCancelled)},
		{"passes errors of the storage on", k.eachFile(k.passesErrors)},
		{"survives a file that is cut at any byte", k.eachFile(k.survivesCuts)},
		{"survives flipped bits", k.eachFile(k.survivesFlips)},
	}
	return list
}

// eachFile does a check with each sample, and with a file that the format
// wrote.
func (k *kit) eachFile(check func(context.Context, Sample) error) func(context.Context) error {
	return func(ctx context.Context) error {
		files := slices.Clone(k.Samples)
		if k.about.Write {
			m, err := k.small(ctx)
			if err != nil {
				return err
			}
			file, _, err := k.write(ctx, m)
			if err != nil {
				return err
			}
			files = append(files, Sample{Name: "a small checkpoint", Data: file})
		}
		for _, s := range files {
			if err := check(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		return nil
	}
}

func (k *kit) refusesEmpty(ctx context.Context) error {
	_, err := k.index(ctx, Bytes("", nil), false)
	if err == nil {
		return errors.New("indexed an empty file")
	}
	return placed(err)
}

func (k *kit) readsSample(ctx context.Context, s Sample) error {
	if k.format.Probe(sample(s.Name, s.Data)) == checkpoint.No {
		return errors.New("is not known to be of the format")
	}
	src := Bytes(s.Name, s.Data)
	x, err := k.index(ctx, src, false)
	if err != nil {
		return err
	}
	for i := range x.Entries {
		e := &x.Entries[i]
		if e.Data.Negate || e.Data.Conjugate {
			continue
		}
		if _, err := ReadTensor(ctx, src, e); err != nil {
			return fmt.Errorf("tensor %q: %w", e.Name, err)
		}
	}
	return sums(x, s.Data)
}

func (k *kit) readsAtOnce(ctx context.Context, s Sample) error {
	src := Bytes(s.Name, s.Data)
	want, err := k.index(ctx, src, false)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			got, err := k.index(ctx, src, false)
			if err == nil && !reflect.DeepEqual(got.Entries, want.Entries) {
				err = errors.New("gave another index")
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (k *kit) readCancelled(ctx context.Context, s Sample) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := k.index(ctx, Bytes(s.Name, s.Data), false); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("answered %v, want %v", err, context.Canceled)
	}
	return nil
}

// failing is a file that cannot be read from some byte on.
type failing struct {
	*Source
	from int64
}

var errStorage = errors.New("the disk is on fire")

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, errStorage
	}
	return f.Source.ReadAt(p, off)
}

func (f failing) ReadRanges(ctx context.Context, off []int64, dst [][]byte) error {
	for i, p := range dst {
		if _, err := f.ReadAt(p, off[i]); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return f.Source.ReadRanges(ctx, off, dst)
}

var _ storage.Source = failing{}

// passesErrors reads from a storage that fails: that says nothing of the file.
func (k *kit) passesErrors(ctx context.Context, s Sample) error {
	_, err := k.index(ctx, failing{Source: Bytes(s.Name, s.Data)}, false)
	var fe *checkpoint.FormatError
	if !errors.Is(err, errStorage) || errors.As(err, &fe) {
		return fmt.Errorf("answered %v, want what the storage said: %v", err, errStorage)
	}
	return nil
}

// cuts lists the lengths to which a file is cut: every one, or of a large file
// those near its ends and some between.
func cuts(size int) []int {
	const near, between = 1024, 1024
	var list []int
	step := max(1, (size-2*near)/between)
	for n := 0; n < size; n++ {
		list = append(list, n)
		if n >= near && n+step < size-near {
			n += step - 1
		}
	}
	return list
}

func (k *kit) survivesCuts(ctx context.Context, s Sample) error {
	whole := Bytes(s.Name, s.Data)
	want, err := k.index(ctx, whole, false)
	if err != nil {
		return err
	}
	for _, n := range cuts(len(s.Data)) {
		src := Bytes(s.Name, s.Data[:n:n])
		x, err := k.survives(ctx, src)
		if err == nil && x != nil {
			err = subset(ctx, src, x, whole, want)
		}
		if err != nil {
			return fmt.Errorf("cut to %d of %d bytes: %w", n, len(s.Data), err)
		}
	}
	return nil
}

// subset checks that every tensor of a cut file is one of the whole file.
func subset(ctx context.Context, cut storage.Source, x *checkpoint.Index, whole storage.Source, want *checkpoint.Index) error {
	if len(x.Entries) > len(want.Entries) {
		return fmt.Errorf("has %d tensors, the whole file %d", len(x.Entries), len(want.Entries))
	}
	for i := range x.Entries {
		e := &x.Entries[i]
		w := want.Find(e.Name)
		if w == nil || w.DType != e.DType || !slices.Equal(w.Shape, e.Shape) {
			return fmt.Errorf("has the tensor %q, %s %v, which the whole file has not", e.Name, e.DType, e.Shape)
		}
		a, err := ReadTensor(ctx, cut, e)
		if err != nil {
			return err
		}
		if b, err := ReadTensor(ctx, whole, w); err != nil || !bytes.Equal(a, b) {
			return fmt.Errorf("has other bytes in the tensor %q: %v", e.Name, err)
		}
	}
	return nil
}

func (k *kit) survivesFlips(ctx context.Context, s Sample) error {
	rng := rand.New(rand.NewPCG(9, uint64(len(s.Data))))
	for i := range k.Flips {
		data := bytes.Clone(s.Data)
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(data))
			switch rng.IntN(4) { // headers are at the ends of files
			case 0:
				at %= min(len(data), 1024)
			case 1:
				at = len(data) - 1 - at%min(len(data), 1024)
			}
			if rng.IntN(4) == 0 {
				for j := at; j < min(at+8, len(data)); j++ {
					data[j] = []byte{0, 0x7f, 0xff}[rng.IntN(3)]
				}
			} else {
				data[at] ^= 1 << rng.IntN(8)
			}
		}
		if _, err := k.survives(ctx, Bytes(s.Name, data)); err != nil {
			return fmt.Errorf("flip %d: %w", i, err)
		}
	}
	return nil
}

// survives indexes a damaged file. It returns the index if there is one, and
// an error where the format neither refused the file properly nor gave an index
// that holds.
func (k *kit) survives(ctx context.Context, src *Source) (*checkpoint.Index, error) {
	in := checkpoint.Input{File: src, Name: src.name, Yield: func() {}}
	var x *checkpoint.Index
	var err error
	var used uint64
	for range 2 { // something else may have allocated the first time
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		x, err = k.format.Index(ctx, in)
		runtime.ReadMemStats(&after)
		if used = after.TotalAlloc - before.TotalAlloc; k.Budget < 0 || used <= uint64(k.Budget) {
			break
		}
	}
	if k.Budget >= 0 && used > uint64(k.Budget) {
		return nil, fmt.Errorf("allocated %d bytes for a file of %d, the budget is %d", used, src.Size(), k.Budget)
	}
	if err != nil {
		return nil, placed(err)
	}
	if err := x.Validate([]int64{src.Size()}); err != nil {
		return nil, fmt.Errorf("gave an index that does not hold: %w", err)
	}
	return x, nil
}

// placed checks that an error says where in the file something is wrong.
func placed(err error) error {
	var fe *checkpoint.FormatError
	if !errors.As(err, &fe) {
		return fmt.Errorf("answered with %T %q, want a %T", err, err, fe)
	}
	if fe.Off < 0 || fe.Msg == "" || fe.Format == "" {
		return fmt.Errorf("answered with %+v, which has no place, format or message", *fe)
	}
	return nil
}
