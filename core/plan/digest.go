package plan

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
)

// digest sums the canonical form of a plan: what it reads, by names relative
// to the root, sizes and header digests; what it does; what it writes. Places,
// times, host and settings that change no byte are left out, so the same job
// has the same digest everywhere.
func (p *Plan) digest() string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 1<<16)
	line := func(parts ...string) {
		for _, s := range parts {
			w.WriteString(strconv.Itoa(len(s)))
			w.WriteByte(':')
			w.WriteString(s)
		}
		w.WriteByte('\n')
	}
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	line("convert/plan/v1", p.Source.Format, num(int64(p.Source.Stages)), num(int64(p.Source.Devices)))
	for i := range p.Source.Ranks {
		r := &p.Source.Ranks[i]
		line("rank", num(int64(r.ID)), string(r.Header.Digest[:]))
		for _, f := range r.Files {
			line("file", f.Name, num(f.Size))
		}
	}
	for i := range p.Source.Tensors {
		s := &p.Source.Tensors[i]
		line("source", s.Name, s.DType.String(), fmt.Sprint(s.Shape))
		for _, pl := range s.Places {
			line("place", num(int64(pl.Stage)), pl.Layout.Key())
		}
	}
	line("target", p.Format.Describe().Name, num(int64(p.Stages)), num(int64(p.Devices)), string(p.Replicas), strconv.FormatBool(p.Trailer), strconv.FormatBool(p.Link))
	for i := range p.Tensors {
		t := &p.Tensors[i]
		line("tensor", num(int64(t.Source)), t.Name, t.DType.String())
	}
	for i := range p.Groups {
		g := &p.Groups[i]
		line("group", num(int64(g.Stage)), num(p.blueprints[i].Size))
		for _, r := range g.Ranks {
			line("out", num(int64(r)), p.FileName(g, r))
		}
		for _, it := range g.Items {
			line("item", num(int64(it.Tensor)), num(int64(it.From)), it.Layout.Key())
		}
	}
	for _, x := range p.Extra {
		line("extra", x.Name, string(x.Bytes))
	}
	for _, d := range p.Dropped {
		line("dropped", d.Kind, d.Name, d.Reason)
	}
	w.Flush()
	return hex.EncodeToString(h.Sum(nil))
}
