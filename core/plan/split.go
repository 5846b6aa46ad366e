package plan

import (
	"path"
	"strings"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/weightmap"
)

// split cuts a full checkpoint into files of a size, with the Hub's names and
// index.
func (m *maker) split() error {
	if m.Folder {
		if m.MaxFileSize > 0 {
			return diag.Errorf(diag.Usage, "`target.max_file_size` is for one full checkpoint; rank folders have one file each")
		}
		return nil
	}
	if len(m.Groups) != 1 || len(m.Groups[0].Ranks) != 1 {
		return diag.Errorf(diag.Usage, "the target has %s and no rank folders", count(m.Stages*m.Devices, "rank"))
	}
	g := m.Groups[0]
	m.Groups[0].File = m.File
	if m.MaxFileSize <= 0 {
		return nil
	}
	prefix, ext := "model", ".safetensors"
	switch name := m.Format.Describe().Name; name {
	case "safetensors":
	case "torch":
		prefix, ext = "pytorch_model", ".bin"
	default:
		return diag.Errorf(diag.Usage, "%s checkpoints of several files have no index, so `target.max_file_size` cannot be used", name).
			WithHint("leave it out, or write safetensors")
	}
	sizes := make([]int64, len(g.Items))
	var total int64
	for i, it := range g.Items {
		t := &m.Tensors[it.Tensor]
		sizes[i], _ = t.DType.Bytes(t.Shape)
		total += sizes[i]
	}
	shards := weightmap.Split(sizes, m.MaxFileSize)
	if len(shards) <= 1 {
		return nil
	}
	if base := path.Base(m.File); base != "model"+m.Format.Describe().Extensions[0] {
		prefix = strings.TrimSuffix(base, path.Ext(base))
		if path.Ext(base) != "" {
			ext = path.Ext(base)
		}
	}
	dir := path.Dir(m.File)
	m.Groups = nil
	var entries []weightmap.Weight
	for n, shard := range shards {
		f := Group{Ranks: g.Ranks, Meta: g.Meta, File: path.Join(dir, weightmap.ShardName(prefix, ext, n+1, len(shards)))}
		if n == 0 {
			f.Leaves = g.Leaves
		}
		for _, i := range shard {
			f.Items = append(f.Items, g.Items[i])
			entries = append(entries, weightmap.Weight{Name: m.Tensors[g.Items[i].Tensor].Name, File: path.Base(f.File)})
		}
		m.Groups = append(m.Groups, f)
	}
	m.Extra = append(m.Extra, ExtraFile{Name: path.Join(dir, prefix+ext+".index.json"), Bytes: weightmap.Marshal(entries, total)})
	return nil
}
