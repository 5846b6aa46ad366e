package ranks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"strings"
	"sync"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/storage"
)

type entry = storage.Entry

// candidate is a file that may be a checkpoint.
type candidate struct {
	name   string // relative to the root
	format string
}

// candidates probes the files of a folder, each by its content. Where none is
// a checkpoint, other says of the first file what it is instead.
func (f *finder) candidates(ctx context.Context, dir string, list []entry) (out []candidate, other *diag.Diagnostic, err error) {
	for _, e := range list {
		if e.Dir || strings.HasPrefix(e.Name, ".") || strings.HasSuffix(e.Name, ".tmp") || strings.HasSuffix(e.Name, "manifest.json") {
			continue
		}
		name := path.Join(dir, e.Name)
		file, err := f.FS.Open(ctx, path.Join(f.root, name))
		if err != nil {
			return nil, nil, cannotOpen(name, err)
		}
		fm, s, err := f.probe(file, name)
		file.Close()
		switch {
		case err != nil:
			return nil, nil, err
		case fm != nil && (f.Format == "" || fm.Describe().Name == f.Format):
			out = append(out, candidate{name: name, format: fm.Describe().Name})
		case len(out) > 0 || other != nil:
		case fm != nil:
			other = f.otherFormat(fm.Describe().Name, name)
		default:
			other = f.unknown(ctx, s, name)
		}
	}
	return out, other, nil
}

func (f *finder) otherFormat(got, name string) *diag.Diagnostic {
	return diag.Errorf(diag.Usage, "this is a %s file, `source.format` is `%s`", got, f.Format).InFile(name)
}

func cannotOpen(name string, err error) error {
	d := diag.Errorf(diag.Failed, "cannot open").InFile(name).Wrap(err)
	if errors.Is(err, fs.ErrPermission) {
		d.Hint = "the user that runs this may not read it"
	}
	return d
}

// probe finds the format of a file, nil if none knows it.
func (f *finder) probe(file storage.Source, name string) (checkpoint.Format, checkpoint.Sample, error) {
	s, err := sample(file, name)
	if err != nil {
		return nil, s, diag.Errorf(diag.Failed, "cannot read").InFile(name).Wrap(err)
	}
	var best checkpoint.Format
	var how checkpoint.Match
	for _, fm := range f.Formats {
		if m := fm.Probe(s); m > how {
			best, how = fm, m
		}
	}
	return best, s, nil
}

func sample(file storage.Source, name string) (checkpoint.Sample, error) {
	size := file.Size()
	n := min(size, checkpoint.SampleSize)
	s := checkpoint.Sample{Head: make([]byte, n), Tail: make([]byte, n), Size: size, Name: path.Base(name)}
	if n == 0 {
		return s, nil
	}
	if _, err := file.ReadAt(s.Head, 0); err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	if _, err := file.ReadAt(s.Tail, size-n); err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	return s, nil
}

// index reads the header of one file.
func (f *finder) index(ctx context.Context, name string) (*checkpoint.Index, checkpoint.FileRef, error) {
	ref := checkpoint.FileRef{Name: name, Path: path.Join(f.root, name)}
	file, err := f.FS.Open(ctx, ref.Path)
	if err != nil {
		return nil, ref, cannotOpen(name, err)
	}
	defer file.Close()
	e, err := f.FS.Stat(ctx, ref.Path)
	if err != nil {
		return nil, ref, cannotOpen(name, err)
	}
	ref.Time = e.Time
	ref.Size = file.Size()
	src := storage.Cached(file)
	fm, s, err := f.probe(src, name)
	if err != nil {
		return nil, ref, err
	}
	if fm == nil {
		return nil, ref, f.unknown(ctx, s, name)
	}
	if got := fm.Describe().Name; f.Format != "" && got != f.Format {
		return nil, ref, f.otherFormat(got, name)
	}
	x, err := fm.Index(ctx, checkpoint.Input{File: src, Name: name, Strict: f.Strict, Yield: runtime.Gosched})
	if err != nil {
		return nil, ref, checkpoint.Diagnose(err, name)
	}
	if err := x.Validate([]int64{ref.Size}); err != nil {
		return nil, ref, checkpoint.Diagnose(err, name)
	}
	distinct(x)
	for _, w := range x.Warnings {
		if w.Subject.File == "" {
			w.InFile(name)
		}
	}
	return x, ref, nil
}

// distinct gives tensors with different paths different names: in a nested
// checkpoint {"a.b": {"c": …}} and {"a": {"b.c": …}} both have the label a.b.c.
// The path stays what it is.
func distinct(x *checkpoint.Index) {
	first := make(map[string]int, len(x.Entries))
	for i := range x.Entries {
		if _, twice := first[x.Entries[i].Name]; !twice {
			first[x.Entries[i].Name] = i
		}
	}
	last := map[string]int{} // by label, the number given last
	for i := range x.Entries {
		e := &x.Entries[i]
		j := first[e.Name]
		if i == j || e.PathOrName().Equal(x.Entries[j].PathOrName()) {
			continue // the same tensor twice is refused when ranks are joined
		}
		label, n := e.Name, max(last[e.Name], 1)
		e.Path = e.PathOrName()
		for taken := true; taken; {
			n++
			e.Name = fmt.Sprintf("%s#%d", label, n)
			_, taken = first[e.Name]
		}
		first[e.Name], last[label] = i, n
		x.Warnings = append(x.Warnings, diag.Warnf("two tensors have the label `%s`; the second is called `%s`", label, e.Name).OfTensor(e.Name))
	}
}

// sharing lets ranks with equal headers share one.
type sharing struct {
	mu   sync.Mutex
	seen map[[32]byte]*checkpoint.Header
}

func newSharing() *sharing { return &sharing{seen: map[[32]byte]*checkpoint.Header{}} }

func (s *sharing) header(h *checkpoint.Header) *checkpoint.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.seen[h.Digest]; ok {
		return old
	}
	s.seen[h.Digest] = h
	return h
}

// lanes is how many headers are read at once: enough to hide the latency of
// network storage, and few enough that their memory does not count.
const lanes = 8

// parallel calls f for 0 … n−1 and returns the error of the lowest index. All
// calls have ended when it returns.
func parallel(ctx context.Context, n int, f func(i int) error) error {
	errs := make([]error, n)
	next := make(chan int)
	var wg sync.WaitGroup
	var failed sync.Once
	stop := make(chan struct{})
	for range min(lanes, n) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				if errs[i] = f(i); errs[i] != nil {
					failed.Do(func() { close(stop) })
				}
			}
		}()
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-stop:
			break feed
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("`%s`", n)
	}
	return strings.Join(q, ", ")
}
