package ranks

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// candidates probes the files of a folder, each by its content.
func (f *finder) candidates(ctx context.Context, dir string, list []entry) ([]candidate, error) {
	var out []candidate
	for _, e := range list {
		if e.Dir || strings.HasPrefix(e.Name, ".") || strings.HasSuffix(e.Name, ".tmp") || strings.HasSuffix(e.Name, "manifest.json") {
			continue
		}
		name := path.Join(dir, e.Name)
		file, err := f.FS.Open(ctx, path.Join(f.root, name))
		if err != nil {
			return nil, diag.Errorf(diag.Failed, "cannot open").InFile(name).Wrap(err)
		}
		fm, _, err := f.probe(file, name)
		file.Close()
		if err != nil {
			return nil, err
		}
		if fm != nil && (f.Format == "" || fm.Describe().Name == f.Format) {
			out = append(out, candidate{name: name, format: fm.Describe().Name})
		}
	}
	return out, nil
}

// probe finds the format of a file, nil if none knows it.
func (f *finder) probe(file storage.Source, name string) (checkpoint.Format, checkpoint.Match, error) {
	s, err := sample(file, name)
	if err != nil {
		return nil, checkpoint.No, diag.Errorf(diag.Failed, "cannot read").InFile(name).Wrap(err)
	}
	var best checkpoint.Format
	var how checkpoint.Match
	for _, fm := range f.Formats {
		if m := fm.Probe(s); m > how {
			best, how = fm, m
		}
	}
	return best, how, nil
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
		return nil, ref, diag.Errorf(diag.Failed, "cannot open").InFile(name).Wrap(err)
	}
	defer file.Close()
	ref.Size = file.Size()
	src := storage.Cached(file)
	fm, _, err := f.probe(src, name)
	if err != nil {
		return nil, ref, err
	}
	if fm == nil {
		s, _ := sample(src, name)
		return nil, ref, unknown(s, name, f.Formats)
	}
	if got := fm.Describe().Name; f.Format != "" && got != f.Format {
		return nil, ref, diag.Errorf(diag.Usage, "is a %s file, the job says `%s`", got, f.Format).InFile(name)
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
	seen := make(map[string]int, len(x.Entries))
	for i := range x.Entries {
		e := &x.Entries[i]
		j, twice := seen[e.Name]
		if !twice {
			seen[e.Name] = i
			continue
		}
		if e.PathOrName().Equal(x.Entries[j].PathOrName()) {
			continue // the same tensor twice; joining refuses it
		}
		label := e.Name
		e.Path = e.PathOrName()
		for n := 2; ; n++ {
			name := fmt.Sprintf("%s#%d", label, n)
			if _, taken := seen[name]; !taken && x.Find(name) == nil {
				e.Name = name
				seen[name] = i
				break
			}
		}
		x.Warnings = append(x.Warnings, diag.Warnf("two tensors have the label `%s`; the second is called `%s`", label, e.Name).OfTensor(e.Name))
	}
}

// unknown says what a file that no format knows looks like.
func unknown(s checkpoint.Sample, name string, formats []checkpoint.Format) error {
	d := diag.Errorf(diag.Damaged, "is no checkpoint that is known").InFile(name)
	var known []string
	for _, f := range formats {
		known = append(known, f.Describe().Name)
	}
	d.Hint = "formats are recognised by content: " + strings.Join(known, ", ")
	head := string(s.Head)
	switch {
	case s.Size == 0:
		d.Summary, d.Hint = "the file is empty", "copy it again"
	case isLFS(s):
		d.Summary, d.Hint = "is a Git LFS pointer, not the file itself", "fetch the file: `git lfs pull`"
	case strings.HasPrefix(head, "\x1f\x8b"):
		d.Summary, d.Hint = "is compressed with gzip", "uncompress it first: `gunzip`"
	case strings.HasPrefix(head, "<!DOCTYPE") || strings.HasPrefix(head, "<html"):
		d.Summary, d.Hint = "is a web page, not a checkpoint", "the download was answered with a page; download it again"
	case strings.HasPrefix(head, "GGUF"):
		d.Summary = "is a GGUF file, which is not supported"
	case strings.HasPrefix(head, "\x93NUMPY"):
		d.Summary = "is a NumPy array, which is not supported"
	case strings.HasPrefix(head, "PK\x03\x04"):
		d.Summary = "is a zip archive without a torch pickle in it"
	}
	return d
}

func isLFS(s checkpoint.Sample) bool {
	_, ok := checkpoint.ParseLFSPointer(s.Head, s.Size)
	return ok
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
