// Package conformance is what every checkpoint format must pass, whether it is
// built in, a plugin in another process, or a guest in WebAssembly.
//
// A format that writes is given seeded random checkpoints: they are laid out,
// assembled in memory, indexed again, and compared bit for bit. A format that
// only reads brings samples. Either way its files are then cut at each byte of
// the header and bent bit by bit, and it must answer with an error that has a
// place, or with an index that holds; it must never panic, read or allocate
// out of proportion, or disregard that it was cancelled.
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, myformat.Format{}, conformance.Options{})
//	}
//
// Checks gives the same as a list, for programs that are no tests.
package conformance

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
)

// Sample is a file of a format.
type Sample struct {
	Name string
	Data []byte
}

// Options says what a format is tested with. The zero value suits a format
// that writes.
type Options struct {
	// Samples are whole, valid files. A format that only reads needs one at
	// least; one that writes may have some.
	Samples []Sample

	// DTypes are the element types that the format must hold. Others may be
	// refused; nil demands none.
	DTypes []dtype.Type

	// Seeds is the number of random checkpoints, 0 for 20.
	Seeds int

	// Flips is the number of files with flipped bits, 0 for 400 for each
	// checkpoint.
	Flips int

	// Budget is what indexing a small damaged file may allocate, 0 for 64 MiB.
	// A negative one is not checked, for formats that run elsewhere.
	Budget int64
}

func (o Options) withDefaults() Options {
	if o.Seeds == 0 {
		o.Seeds = 20
	}
	if o.Flips == 0 {
		o.Flips = 400
	}
	if o.Budget == 0 {
		o.Budget = 64 << 20
	}
	return o
}

// Check is one thing that a format must do.
type Check struct {
	Name string // reads as a sentence after the format's name
	Run  func(ctx context.Context) error
}

// Checks lists what f must do. Each check stands alone, and turns a panic of
// the format into an error.
func Checks(f checkpoint.Format, o Options) []Check {
	k := kit{format: f, about: f.Describe(), Options: o.withDefaults()}
	list := []Check{
		{"describes itself", k.describes},
		{"does not claim files of others", k.leavesOthersAlone},
	}
	if k.about.Write {
		list = append(list, k.writing()...)
	}
	if k.about.Read {
		list = append(list, k.reading()...)
	}
	for i, c := range list {
		list[i].Run = func(ctx context.Context) (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			return c.Run(ctx)
		}
	}
	return list
}

// Runner is what Run needs of *testing.T, so that this package can be linked
// into a program.
type Runner[T any] interface {
	Run(name string, f func(T)) bool
	Helper()
	Fatal(args ...any)
}

// Run runs all checks of f as subtests of t, a *testing.T.
func Run[T Runner[T]](t T, f checkpoint.Format, o Options) {
	t.Helper()
	for _, c := range Checks(f, o) {
		t.Run(c.Name, func(t T) {
			if err := c.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// kit is a format under test.
type kit struct {
	format checkpoint.Format
	about  checkpoint.Description
	Options
}
