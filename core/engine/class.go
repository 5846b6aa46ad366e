package engine

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/layout"
	"github.com/seed-e934e81e/convert/core/plan"
	"github.com/seed-e934e81e/convert/core/storage"
	"github.com/seed-e934e81e/convert/core/sum"
)

// class is target files with the same contents: those of ranks that hold the
// same part of every tensor. Their bytes are made and summed once.
type class struct {
	group   int
	ranks   []int
	laid    *plan.Laid
	names   []string // relative to the target, one for each rank
	writers []storage.Writer
	crc     *sum.Acc
	scopes  []scope  // what the holes sum, by offset
	ordered *ordered // the SHA-256, nil if none is asked for
	sha     string
	nested  bool // the format keeps paths
}

// classes finds the files with equal contents.
func (r *run) classes(ctx context.Context) error {
	r.byGroup = make([][]*class, len(r.Groups))
	for gi := range r.Groups {
		g := &r.Groups[gi]
		at := map[string]*class{}
		distinct := distinctLayouts(g)
		for _, rank := range g.Ranks {
			key := r.content(g, distinct, rank)
			c := at[key]
			if c == nil {
				l, err := r.Lay(ctx, gi, rank)
				if err != nil {
					return err
				}
				c = &class{group: gi, laid: l, nested: r.Format.Describe().Nested, crc: sum.NewAcc(sum.CRC64, l.Size)}
				c.scopes = scopes(l.Holes)
				at[key] = c
				r.files = append(r.files, c)
				r.byGroup[gi] = append(r.byGroup[gi], c)
			}
			c.ranks = append(c.ranks, rank)
			c.names = append(c.names, r.FileName(g, rank))
		}
	}
	return nil
}

func distinctLayouts(g *plan.Group) []*layout.Layout {
	seen := map[string]bool{}
	var out []*layout.Layout
	for _, it := range g.Items {
		if k := it.Layout.Key(); !seen[k] {
			seen[k] = true
			out = append(out, it.Layout)
		}
	}
	return out
}

// content is a key that is equal for ranks of a group whose files are equal.
func (r *run) content(g *plan.Group, distinct []*layout.Layout, rank int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", r.Selector(rank))
	for _, l := range distinct {
		blk := make([]int, l.NDim())
		l.Block(rank%r.Devices, blk)
		fmt.Fprintf(&b, "|%v", blk)
	}
	return b.String()
}

// add counts n bytes with the CRC-64 s at an offset of the files.
func (c *class) add(s uint64, at, n int64) { c.crc.Add(s, at, n) }

// scope is a run of a file that one or several holes hold the sum of.
type scope struct {
	storage.Range
	acc *sum.Acc
}

// scopes gives the distinct runs that holes sum, by offset. They do not
// overlap.
func scopes(holes []checkpoint.Hole) []scope {
	var out []scope
	for _, h := range holes {
		i := find(out, h.Over)
		if i == len(out) || out[i].Range != h.Over {
			out = slices.Insert(out, i, scope{h.Over, sum.NewAcc(sum.CRC32, h.Over.Len)})
		}
	}
	return out
}

// find is the place of a run among scopes; of two that begin at one byte the
// empty one comes first.
func find(list []scope, r storage.Range) int {
	return sort.Search(len(list), func(i int) bool {
		return list[i].Off > r.Off || list[i].Off == r.Off && list[i].Len >= r.Len
	})
}

// addHoles counts bytes for the checksums that the files hold of themselves.
func (c *class) addHoles(p []byte, at int64) {
	end := at + int64(len(p))
	for i := sort.Search(len(c.scopes), func(i int) bool { return c.scopes[i].Off+c.scopes[i].Len > at }); i < len(c.scopes); i++ {
		s := c.scopes[i]
		if s.Off >= end {
			return
		}
		lo, hi := max(at, s.Off), min(end, s.Off+s.Len)
		s.acc.AddBytes(p[lo-at:hi-at], lo-s.Off)
	}
}

// fill writes the sums into literal bytes that lie at an offset, as far as
// they belong there.
func (c *class) fill(p []byte, at int64) {
	for _, h := range c.laid.Holes {
		lo, hi := max(at, h.At), min(at+int64(len(p)), h.At+h.Encoding.Width())
		if lo >= hi {
			continue
		}
		i := find(c.scopes, h.Over)
		var enc [10]byte
		encode(enc[:], h.Encoding, uint32(c.scopes[i].acc.Sum()))
		copy(p[lo-at:hi-at], enc[lo-h.At:hi-h.At])
	}
}

// encode writes a sum in its encoding.
func encode(p []byte, e checkpoint.Encoding, s uint32) {
	if e == checkpoint.BigEndian80 {
		clear(p[:6])
		p[6], p[7], p[8], p[9] = byte(s>>24), byte(s>>16), byte(s>>8), byte(s)
		return
	}
	p[0], p[1], p[2], p[3] = byte(s), byte(s>>8), byte(s>>16), byte(s>>24)
}
