package golden

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-e934e81e/convert/core/storage"
)

type sfs struct{}
type sfile struct{ *os.File; size int64 }

func (f sfile) Size() int64 { return f.size }
func (f sfile) ReadRanges(ctx context.Context, off []int64, dst [][]byte) error {
	for i := range off {
		if _, err := f.ReadAt(dst[i], off[i]); err != nil { return err }
	}
	return nil
}
func (f sfile) ReadBlock(ctx context.Context, buf []byte, off int64, n int) ([]byte, error) {
	_, err := f.ReadAt(buf[:n], off)
	if err == io.EOF { err = nil }
	return buf[:n], err
}
func (sfs) Open(ctx context.Context, name string) (storage.File, error) {
	f, err := os.Open(name)
	if err != nil { return nil, err }
	st, _ := f.Stat()
	return sfile{f, st.Size()}, nil
}
func (sfs) Stat(ctx context.Context, name string) (storage.Entry, error) {
	st, err := os.Stat(name)
	if err != nil { return storage.Entry{}, err }
	return storage.Entry{Name: st.Name(), Size: st.Size(), Dir: st.IsDir()}, nil
}
func (s sfs) List(ctx context.Context, dir string) ([]storage.Entry, error) {
	l, err := os.ReadDir(dir)
	var out []storage.Entry
	for _, e := range l { x, err := s.Stat(ctx, filepath.Join(dir, e.Name())); if err != nil { return nil, err }; x.Name = e.Name(); out = append(out, x) }
	return out, err
}
func (sfs) ReadFile(ctx context.Context, name string, max int64) ([]byte, error) { return os.ReadFile(name) }
func (sfs) MakeDir(ctx context.Context, dir string) ([]string, error) {
	var made []string
	for d := dir; ; d = filepath.Dir(d) { if _, err := os.Stat(d); err == nil { break }; made = append([]string{d}, made...) }
	return made, os.MkdirAll(dir, 0o755)
}
type sw struct{ *os.File; tmp, name string; pub bool }
func (sfs) Create(ctx context.Context, name string, size int64, o storage.CreateOptions) (storage.Writer, error) {
	tmp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".tmp")
	f, err := os.Create(tmp)
	if err != nil { return nil, err }
	return &sw{f, tmp, name, false}, f.Truncate(size)
}
func (w *sw) Reopen(ctx context.Context) (storage.File, error) { return sfs{}.Open(ctx, w.tmp) }
func (w *sw) Publish() error { w.pub = true; return os.Rename(w.tmp, w.name) }
func (w *sw) Abort() error { if w.pub { return nil }; return os.Remove(w.tmp) }
func (sfs) Link(ctx context.Context, old, name string) error { return os.Link(old, name) }
func (sfs) Rename(ctx context.Context, old, name string) error { return os.Rename(old, name) }
func (sfs) Remove(ctx context.Context, name string) error { return os.Remove(name) }
func (sfs) SyncDir(ctx context.Context, dir string) error { return nil }
func (sfs) Lock(ctx context.Context, dir string) (func() error, error) { return func() error { return nil }, nil }
func (sfs) Same(ctx context.Context, a, b string) (bool, error) { return a == b, nil }
func (sfs) Free(ctx context.Context, dir string) (int64, bool, error) { return 0, false, nil }
var _ = errors.New
var _ = fmt.Sprint
