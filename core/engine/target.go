package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/manifest"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/sum"
)

// target is the folder that a run writes. Files get their names only when all
// of them are whole, synced and verified; until then, and after an error,
// nothing is to be seen of them.
type target struct {
	*run
	unlock  func() error
	made    []string // folders that the run made, outermost first
	extra   []manifest.File
	all     []storage.Writer // of every file that is written, links aside
	named   []string         // published
	aside   [][2]string      // old files and the names that they wait under
	old     *manifest.Manifest
	held    map[int]bool
	linked  int
	settled bool
}

func (t *target) path(name string) string { return path.Join(t.o.Target, name) }

// open checks that the target may be written, before anything is.
func (t *target) open(ctx context.Context) error {
	e, err := t.o.FS.Stat(ctx, t.o.Target)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return diag.Errorf(diag.Failed, "cannot look for the target's folder").InFile(t.o.Target).Wrap(err)
	case err == nil && !e.Dir:
		return diag.Errorf(diag.Usage, "the target's folder `%s` is a file", t.o.Target).WithHint("choose another `target.path`")
	}
	for _, f := range t.sourceFolders() {
		same, err := t.o.FS.Same(ctx, f, t.o.Target)
		if err != nil {
			return diag.Errorf(diag.Failed, "cannot compare source and target").InFile(t.o.Target).Wrap(err)
		}
		if same && t.clash(ctx) {
			return diag.Errorf(diag.Usage, "source and target are the same place, or one lies in the other: `%s` and `%s`", t.o.Root, t.o.Target).
				WithHint("give `target.path` a folder of its own, so that the source stays as it is")
		}
	}
	if free, ok, err := t.o.FS.Free(ctx, t.o.Target); err != nil {
		return diag.Errorf(diag.Failed, "cannot tell the free space").InFile(t.o.Target).Wrap(err)
	} else if ok && free < t.bytes() {
		return diag.Errorf(diag.Failed, "the disk is too full: %d MiB are to be written, %d MiB are free", (t.bytes()+1<<20-1)>>20, free>>20).InFile(t.o.Target).
			WithHint("free some space, or choose another `target.path`")
	}
	made, err := t.o.FS.MakeDir(ctx, t.o.Target)
	t.made = made
	if err != nil {
		return errors.Join(cannotMake(t.o.Target, err), t.abort())
	}
	unlock, err := t.o.FS.Lock(ctx, t.o.Target)
	if errors.Is(err, storage.ErrLocked) {
		return errors.Join(diag.Errorf(diag.Interrupted, "another run is writing to `%s`", t.o.Target).WithHint("wait for it, or stop it"), t.abort())
	}
	if err != nil {
		return errors.Join(diag.Errorf(diag.Failed, "cannot lock the target").InFile(t.o.Target).Wrap(err), t.abort())
	}
	t.unlock = unlock
	if err := t.outsideSource(ctx); err != nil {
		return errors.Join(err, t.abort())
	}
	if err := t.cleanStale(ctx); err != nil {
		return errors.Join(err, t.abort())
	}
	if err := t.exists(ctx); err != nil {
		return errors.Join(err, t.abort())
	}
	return nil
}

// outsideSource proves that no folder of the target that is there already
// leads, through a link, into the source.
func (t *target) outsideSource(ctx context.Context) error {
	if !t.Folder {
		return nil
	}
	last := ""
	for _, c := range t.files {
		for _, n := range c.names {
			d := path.Dir(t.path(n))
			if d == last {
				continue
			}
			last = d
			if _, err := t.o.FS.Stat(ctx, d); errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return diag.Errorf(diag.Failed, "cannot look at the folder").InFile(d).Wrap(err)
			}
			if same, err := t.o.FS.Same(ctx, t.o.Root, d); err != nil || same {
				return diag.Errorf(diag.Usage, "the target's folder `%s` lies in the source", path.Dir(n)).InFile(t.o.Target).Wrap(err).
					WithHint("it may be a link; give `target.path` a folder of its own")
			}
		}
	}
	return nil
}

// cleaner is a file system that knows which temporary files runs that were
// killed have left behind.
type cleaner interface {
	CleanStale(ctx context.Context, dir string) (removed []string, err error)
}

// cleanStale removes what a killed run has left in the folders that are
// written. Only files of our own pattern that no live process holds go.
func (t *target) cleanStale(ctx context.Context) error {
	c, ok := t.o.FS.(cleaner)
	if !ok {
		return nil
	}
	dirs := []string{t.o.Target}
	for _, k := range t.files {
		for _, n := range k.names {
			if d := path.Dir(t.path(n)); d != dirs[len(dirs)-1] {
				dirs = append(dirs, d)
			}
		}
	}
	n := 0
	for _, d := range dirs {
		if _, err := t.o.FS.Stat(ctx, d); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return diag.Errorf(diag.Failed, "cannot look for what an earlier run left").InFile(d).Wrap(err)
		}
		removed, err := c.CleanStale(ctx, d)
		if err != nil {
			return diag.Errorf(diag.Failed, "cannot remove what an earlier run left").InFile(d).Wrap(err)
		}
		n += len(removed)
	}
	if n > 0 {
		files := "1 temporary file"
		if n > 1 {
			files = fmt.Sprintf("%d temporary files", n)
		}
		t.warn(&diag.Diagnostic{Severity: diag.Note, Summary: fmt.Sprintf("removed %s that a killed run had left in `%s`", files, t.o.Target)})
	}
	return nil
}

func cannotMake(dir string, err error) error {
	d := diag.Errorf(diag.Failed, "cannot make the folder").InFile(dir).Wrap(err)
	if errors.Is(err, fs.ErrPermission) {
		d.Hint = "the user that runs this may not write there"
	}
	return d
}

// sourceFolders is the places that are read. Where the source is one file, its
// folder is not one of them: the target may lie there, too.
func (t *target) sourceFolders() []string {
	var out []string
	for _, r := range t.Source.Ranks {
		for _, f := range r.Files {
			if path.Clean(f.Path) == path.Clean(t.o.Root) {
				continue
			}
			if d := path.Dir(f.Path); !slices.Contains(out, d) && len(out) < 64 {
				out = append(out, d)
			}
		}
	}
	return append(out, t.o.Root)
}

// clash reports whether the overlap of source and target matters: a single
// file may lie beside its source, as long as it is another file.
func (t *target) clash(ctx context.Context) bool {
	if t.Folder || len(t.files) > 1 {
		return true
	}
	for _, r := range t.Source.Ranks {
		for _, f := range r.Files {
			if same, err := t.o.FS.Same(ctx, f.Path, t.path(t.files[0].names[0])); same || err != nil {
				return true
			}
		}
	}
	return false
}

// bytes is what the disk must have room for.
func (t *target) bytes() int64 {
	if !t.Link {
		return t.Totals.WriteBytes
	}
	var n int64
	for _, c := range t.files {
		n += c.laid.Size
	}
	return n
}

// exists applies run.on_exists.
func (t *target) exists(ctx context.Context) error {
	if t.o.OnExists == ExistsReplace {
		if err := t.earlier(ctx); err != nil {
			return err
		}
	}
	if err := t.sparesSource(ctx); err != nil {
		return err
	}
	taken, err := t.taken(ctx)
	if err != nil || len(taken) == 0 {
		return err
	}
	if t.o.OnExists != ExistsReplace {
		return diag.Errorf(diag.Usage, "the target `%s` has files in it, such as `%s`", t.o.Target, taken[0]).
			WithHint("choose another `target.path`; `run.on_exists = \"replace\"` replaces what an earlier run wrote")
	}
	mine := map[string]bool{t.o.Manifest: true}
	if t.old != nil {
		for _, f := range t.old.Files {
			mine[f.Name] = true
		}
	}
	for _, n := range taken {
		if !mine[n] && t.writes(n) {
			return diag.Errorf(diag.Usage, "`%s` is in the way, and no earlier manifest lists it", n).InFile(t.o.Target).
				WithHint("`replace` swaps only files that an earlier run wrote and listed; move this one away (a run that was killed while it published leaves files without a list, and the old ones as `.NAME.old.convert-tmp`)")
		}
	}
	return nil
}

// sparesSource proves that what an earlier run wrote, and this one would take
// away, is not what this one reads; and that all of it lies inside the target.
func (t *target) sparesSource(ctx context.Context) error {
	if t.old == nil {
		return nil
	}
	for _, f := range t.old.Files {
		if path.IsAbs(f.Name) || !local(f.Name) {
			return diag.Errorf(diag.Failed, "the earlier manifest lists `%s`, which lies outside the target", f.Name).InFile(t.o.Manifest)
		}
		at := t.path(f.Name)
		e, err := t.o.FS.Stat(ctx, at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return diag.Errorf(diag.Failed, "cannot look for the old file").InFile(f.Name).Wrap(err)
		}
		inside, err := t.o.FS.Same(ctx, t.o.Target, path.Dir(at))
		if err != nil || !inside || e.Dir {
			return diag.Errorf(diag.Failed, "the earlier manifest lists `%s`, which is no file inside the target", f.Name).InFile(t.o.Manifest).Wrap(err)
		}
		for _, r := range t.Source.Ranks {
			for _, s := range r.Files {
				if path.Base(s.Path) != path.Base(at) {
					continue
				}
				if same, err := t.o.FS.Same(ctx, s.Path, at); err != nil || same {
					return diag.Errorf(diag.Usage, "`%s` is what the job reads, and `replace` would take it away", f.Name).InFile(t.o.Target).Wrap(err).
						WithHint("give `target.path` a place of its own")
				}
			}
		}
	}
	return nil
}

// earlier reads the manifest of an earlier run, where there is one.
func (t *target) earlier(ctx context.Context) error {
	b, err := t.o.FS.ReadFile(ctx, t.path(t.o.Manifest), manifest.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		t.old, err = manifest.Parse(b)
	}
	if err != nil {
		return diag.Errorf(diag.Failed, "the earlier manifest cannot be read").InFile(t.o.Manifest).Wrap(err)
	}
	return nil
}

// taken lists what stands in the way: for a single file that file and its
// manifest, for a folder anything but hidden files.
func (t *target) taken(ctx context.Context) ([]string, error) {
	if !t.Folder && t.o.Manifest != "convert.manifest.json" {
		var out []string
		for _, n := range []string{t.files[0].names[0], t.o.Manifest} {
			switch _, err := t.o.FS.Stat(ctx, t.path(n)); {
			case err == nil:
				out = append(out, n)
			case !errors.Is(err, fs.ErrNotExist):
				return nil, diag.Errorf(diag.Failed, "cannot look for an earlier file").InFile(n).Wrap(err)
			}
		}
		return out, nil
	}
	list, err := t.o.FS.List(ctx, t.o.Target)
	if err != nil {
		return nil, diag.Errorf(diag.Failed, "cannot list the target").InFile(t.o.Target).Wrap(err)
	}
	var out []string
	for _, e := range list {
		if strings.HasPrefix(e.Name, ".") {
			continue
		}
		if !e.Dir {
			out = append(out, e.Name)
			continue
		}
		inner, err := t.o.FS.List(ctx, t.path(e.Name))
		if err != nil {
			return nil, diag.Errorf(diag.Failed, "cannot list the target").InFile(t.path(e.Name)).Wrap(err)
		}
		for _, x := range inner {
			if !strings.HasPrefix(x.Name, ".") {
				out = append(out, path.Join(e.Name, x.Name))
			}
		}
	}
	return out, nil
}

// writes reports whether the run writes a file of that name.
func (t *target) writes(name string) bool {
	for _, c := range t.files {
		if slices.Contains(c.names, name) {
			return true
		}
	}
	return slices.ContainsFunc(t.Extra, func(x plan.ExtraFile) bool { return x.Name == name })
}

// create begins every file, so that a full disk is known before the first
// byte.
func (t *target) create(ctx context.Context) error {
	t.held = map[int]bool{}
	for _, g := range t.Groups {
		for _, it := range g.Items {
			t.held[it.Tensor] = true
		}
	}
	for _, c := range t.files {
		n := len(c.names)
		if t.Link {
			n = 1
		}
		for _, name := range c.names[:n] {
			w, err := t.begin(ctx, name, c.laid.Size)
			if err != nil {
				return err
			}
			c.writers = append(c.writers, w)
		}
	}
	for _, x := range t.Extra {
		w, err := t.begin(ctx, x.Name, int64(len(x.Bytes)))
		if err != nil {
			return err
		}
		if _, err := w.WriteAt(x.Bytes, 0); err != nil {
			return diag.Errorf(diag.Failed, "cannot write").InFile(x.Name).Wrap(err)
		}
		t.done.Add(int64(len(x.Bytes)))
		f := manifest.File{Name: x.Name, Size: int64(len(x.Bytes)), CRC64: sum64(sum.CRC64.Of(x.Bytes))}
		if t.o.SHA256 {
			f.SHA256 = fmt.Sprintf("%x", sha256.Sum256(x.Bytes))
		}
		t.extra = append(t.extra, f)
	}
	return nil
}

func (t *target) begin(ctx context.Context, name string, size int64) (storage.Writer, error) {
	dir := path.Dir(t.path(name))
	made, err := t.o.FS.MakeDir(ctx, dir)
	t.made = append(t.made, made...)
	if err != nil {
		return nil, cannotMake(dir, err)
	}
	w, err := t.o.FS.Create(ctx, t.path(name), size, storage.CreateOptions{Replace: t.o.OnExists == ExistsReplace, Mode: t.o.IO})
	if err != nil {
		d := diag.Errorf(diag.Failed, "cannot create the file").InFile(name).Wrap(err)
		if errors.Is(err, fs.ErrPermission) {
			d.Hint = "the user that runs this may not write there"
		} else if why := (*diag.Diagnostic)(nil); errors.As(err, &why) {
			d.Hint = why.Hint
		}
		return nil, d
	}
	t.all = append(t.all, w)
	return w, nil
}

func (t *target) holds(tensor int) bool { return t.held[tensor] }

// syncAll makes every file durable. An error of it is final: what the system
// has thrown away cannot be synced by trying again.
func (t *target) syncAll(ctx context.Context) error {
	errs := make([]error, len(t.all))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(8, len(t.all)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				errs[i] = t.all[i].Sync()
			}
		}()
	}
	for i := range t.all {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return diag.Errorf(diag.Failed, "cannot make the files durable").InFile(t.o.Target).Wrap(err).
				WithHint("the disk may be full or failing; nothing was published")
		}
	}
	return ctx.Err()
}
