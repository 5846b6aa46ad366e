package mapping

import (
	"fmt"

	"github.com/seed-e934e81e/convert/core/dtype"
)

// CastError says that a rule asks for a cast that is not possible.
type CastError struct {
	Rule int
	From dtype.Type
	To   dtype.Type
}

func (e *CastError) Error() string {
	return fmt.Sprintf("map rule %d casts to %s, but %s holds no values that can be cast", e.Rule+1, e.To, e.From)
}

// Type is the type that a tensor of type t and that shape has in the target.
//
// A rule's type wins, and is a *CastError where t cannot be cast. Otherwise
// all, the type that the job wants everywhere (Invalid for none), applies to
// floating weights and states: to what can be cast and is no scalar. A tensor
// of at most one dim and one element counts as a scalar: a step, a loss scale.
func (r Result) Type(t dtype.Type, shape []int64, all dtype.Type) (dtype.Type, error) {
	switch {
	case r.DType != dtype.Invalid && !t.Castable():
		return t, &CastError{Rule: r.Cast, From: t, To: r.DType}
	case r.DType != dtype.Invalid:
		return r.DType, nil
	case all == dtype.Invalid || !t.Castable() || scalar(shape):
		return t, nil
	}
	return all, nil
}

func scalar(shape []int64) bool {
	return len(shape) == 0 || len(shape) == 1 && shape[0] == 1
}
