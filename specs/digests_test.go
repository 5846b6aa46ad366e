package specs_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/sum"
)

// rows gives the cells of the rows of a spec that match an expression.
func rows(t *testing.T, name, expression string) [][]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?m)"+expression).FindAllStringSubmatch(string(text), -1)
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(strings.TrimPrefix(s, "(none)"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDigestVectors(t *testing.T) {
	all := rows(t, "digests.md", `^\| (\(none\)|[0-9a-f]+) \| ([0-9a-f]{16}) \|$`)
	if len(all) < 8 {
		t.Fatalf("%d vectors were found in digests.md", len(all))
	}
	for _, r := range all {
		if got := fmt.Sprintf("%016x", sum.CRC64.Of(unhex(t, r[1]))); got != r[2] {
			t.Errorf("the sum of %s is %s, the spec says %s", r[1], got, r[2])
		}
	}
}

func TestDigestOfPieces(t *testing.T) {
	const whole = "0000803f0000004000004040000080400000a0400000c040"
	const n = int64(len(whole) / 2)
	acc := sum.NewAcc(sum.CRC64, n)
	shares := sum.CRC64.Zeros(n)
	pieces := rows(t, "digests.md", `^\| (\d+) \| ([0-9a-f]+) \| ([0-9a-f]{16}) \| ([0-9a-f]{16}) \|$`)
	if len(pieces) != 4 {
		t.Fatalf("%d pieces were found in digests.md", len(pieces))
	}
	for _, r := range pieces {
		off, err := strconv.ParseInt(r[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		p := unhex(t, r[2])
		if whole[2*off:2*off+int64(len(r[2]))] != r[2] {
			t.Errorf("the piece at %d is not %s", off, r[2])
		}
		if got := fmt.Sprintf("%016x", sum.CRC64.Of(p)); got != r[3] {
			t.Errorf("the sum of the piece at %d is %s, the spec says %s", off, got, r[3])
		}
		share, err := strconv.ParseUint(r[4], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		shares ^= share
		acc.AddBytes(p, off)
	}
	want := sum.CRC64.Of(unhex(t, whole))
	if acc.Missing() != 0 || acc.Sum() != want || shares != want {
		t.Errorf("the pieces give %016x, their shares %016x, with %d bytes missing; want %016x", acc.Sum(), shares, acc.Missing(), want)
	}
}
