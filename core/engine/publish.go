package engine

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/manifest"
)

// publish gives every file its name, makes the names durable, and writes the
// manifest last. Where that fails, the names are taken back.
func (t *target) publish(ctx context.Context, m *manifest.Manifest) error {
	text, err := m.Marshal()
	if err != nil {
		return diag.Errorf(diag.Failed, "internal error: the manifest cannot be written").Wrap(err)
	}
	last, err := t.begin(ctx, t.o.Manifest, int64(len(text)))
	if err != nil {
		return err
	}
	if _, err := last.WriteAt(text, 0); err != nil {
		return diag.Errorf(diag.Failed, "cannot write").InFile(t.o.Manifest).Wrap(err)
	}
	if err := last.Sync(); err != nil {
		return diag.Errorf(diag.Failed, "cannot make the manifest durable").InFile(t.o.Manifest).Wrap(err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// From here on an interruption waits: renaming takes no time.
	ctx = context.WithoutCancel(ctx)
	if err := t.moveAside(ctx, m); err != nil {
		return err
	}
	if err := t.name(ctx); err != nil {
		return err
	}
	for _, d := range t.folders() {
		if err := t.o.FS.SyncDir(ctx, d); err != nil {
			return diag.Errorf(diag.Failed, "cannot make the names durable").InFile(d).Wrap(err)
		}
	}
	if err := last.Publish(); err != nil {
		return diag.Errorf(diag.Failed, "cannot name the manifest").InFile(t.o.Manifest).Wrap(err)
	}
	t.settled = true
	err = t.o.FS.SyncDir(ctx, t.o.Target)
	for _, a := range t.aside {
		err = errors.Join(err, t.o.FS.Remove(ctx, a[1]))
	}
	err = errors.Join(err, t.sweep(ctx), t.unlock())
	t.unlock = nil
	if err != nil {
		return diag.Errorf(diag.Failed, "the checkpoint is written, but cleaning up failed").InFile(t.o.Target).Wrap(err)
	}
	return nil
}

// sweep removes folders that held nothing but files of the earlier run.
func (t *target) sweep(ctx context.Context) error {
	var errs []error
	seen := map[string]bool{path.Clean(t.o.Target): true}
	for _, a := range t.aside {
		dir := path.Dir(a[0])
		if seen[dir] {
			continue
		}
		seen[dir] = true
		list, err := t.o.FS.List(ctx, dir)
		if err == nil && len(list) == 0 {
			err = t.o.FS.Remove(ctx, dir)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// moveAside renames the files of an earlier run, so that they can come back.
func (t *target) moveAside(ctx context.Context, m *manifest.Manifest) error {
	if t.old == nil || t.o.OnExists != ExistsReplace {
		return nil
	}
	names := []string{t.o.Manifest}
	for _, f := range t.old.Files {
		if path.IsAbs(f.Name) || !local(f.Name) {
			return diag.Errorf(diag.Failed, "the earlier manifest lists `%s`, which lies outside the target", f.Name).InFile(t.o.Manifest)
		}
		names = append(names, f.Name)
	}
	for _, n := range names {
		from := t.path(n)
		if _, err := t.o.FS.Stat(ctx, from); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return diag.Errorf(diag.Failed, "cannot look for the old file").InFile(n).Wrap(err)
		}
		to := path.Join(path.Dir(from), "."+path.Base(from)+".old.convert-tmp")
		if err := t.o.FS.Rename(ctx, from, to); err != nil {
			return diag.Errorf(diag.Failed, "cannot move the old file away").InFile(n).Wrap(err)
		}
		t.aside = append(t.aside, [2]string{from, to})
	}
	return nil
}

// local reports whether a relative path stays where it is relative to.
func local(name string) bool {
	c := path.Clean(name)
	return c != ".." && c != "." && (len(c) < 3 || c[:3] != "../")
}

// name renames all files to their final names, and links the copies.
func (t *target) name(ctx context.Context) error {
	i := 0
	one := func(name string) error {
		if err := t.all[i].Publish(); err != nil {
			return diag.Errorf(diag.Failed, "cannot give the file its name").InFile(name).Wrap(err)
		}
		t.named = append(t.named, t.path(name))
		i++
		return nil
	}
	for _, c := range t.files {
		for j, n := range c.names {
			if j < len(c.writers) {
				if err := one(n); err != nil {
					return err
				}
				t.filesDone.Add(1)
				continue
			}
			if err := t.link(ctx, c.names[0], n); err != nil {
				return err
			}
		}
	}
	for _, x := range t.Extra {
		if err := one(x.Name); err != nil {
			return err
		}
	}
	return nil
}

func (t *target) link(ctx context.Context, old, name string) error {
	made, err := t.o.FS.MakeDir(ctx, path.Dir(t.path(name)))
	t.made = append(t.made, made...)
	if err != nil {
		return cannotMake(path.Dir(t.path(name)), err)
	}
	if err := t.o.FS.Link(ctx, t.path(old), t.path(name)); err != nil {
		return diag.Errorf(diag.Failed, "cannot link the copy to `%s`", old).InFile(name).Wrap(err).
			WithHint("the file system may have no hard links; set `target.replicas = \"copy\"`")
	}
	t.named = append(t.named, t.path(name))
	t.linked++
	t.filesDone.Add(1)
	return nil
}

// folders is every folder in which the run made a name, the deepest first.
func (t *target) folders() []string {
	out := []string{t.o.Target}
	for _, n := range t.named {
		if d := path.Dir(n); !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	for _, d := range t.made {
		if p := path.Dir(d); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

// abort takes back all that the run made.
func (t *target) abort() error {
	if t.settled {
		return nil
	}
	t.settled = true
	ctx := context.Background()
	var errs []error
	for _, n := range t.named {
		errs = append(errs, t.o.FS.Remove(ctx, n))
	}
	for _, w := range t.all {
		errs = append(errs, w.Abort())
	}
	for _, a := range t.aside {
		errs = append(errs, t.o.FS.Rename(ctx, a[1], a[0]))
	}
	if t.unlock != nil {
		errs = append(errs, t.unlock())
		t.unlock = nil
	}
	for i := len(t.made) - 1; i >= 0; i-- {
		// A folder that someone else has put a file into stays.
		if list, err := t.o.FS.List(ctx, t.made[i]); err == nil && len(list) == 0 {
			errs = append(errs, t.o.FS.Remove(ctx, t.made[i]))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return diag.Errorf(diag.Failed, "something that the run wrote could not be removed").InFile(t.o.Target).Wrap(err)
	}
	return nil
}
