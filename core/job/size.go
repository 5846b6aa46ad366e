package job

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

var units = map[string]int64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// ParseSize reads a number of bytes such as "256 MiB", "5GB", "1.5 GiB" or
// "4096". The case of the unit does not matter; the number of bytes must be
// whole and not negative.
func ParseSize(s string) (int64, error) {
	s = strings.TrimSpace(s)
	n := 0
	for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '.') {
		n++
	}
	number, unit := s[:n], strings.TrimSpace(s[n:])
	if number == "" || len(number) > 30 {
		return 0, errors.New("this is no number of bytes")
	}
	by, ok := units[strings.ToLower(unit)]
	if !ok {
		return 0, fmt.Errorf("%s is no unit, it can be B, KB, MB, GB, TB, KiB, MiB, GiB or TiB", quote(unit))
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, errors.New("this is no number of bytes")
	}
	r.Mul(r, new(big.Rat).SetInt64(by))
	switch {
	case !r.IsInt():
		return 0, errors.New("this is no whole number of bytes")
	case !r.Num().IsInt64():
		return 0, errors.New("this is more than a file can have")
	}
	return r.Num().Int64(), nil
}
