// Package manifest is the record of what was written: every file with its size
// and sums, every tensor with a digest that does not depend on how it is cut,
// what was left out and why, and where it all came from.
package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Schema names the form of the document.
const Schema = "convert/manifest/v1"

// Manifest is the document. Sums are lower-case hex.
type Manifest struct {
	Schema  string    `json:"schema"`
	Program Program   `json:"program"`
	Plan    string    `json:"plan"`
	Job     Job       `json:"job"`
	Source  Source    `json:"source"`
	Target  Target    `json:"target"`
	Files   []File    `json:"files"`
	Tensors []Tensor  `json:"tensors"`
	Leaves  []string  `json:"leaves,omitempty"`
	Dropped []Dropped `json:"dropped"`
	Absent  []string  `json:"missing,omitempty"`
	Notes   []string  `json:"notes,omitempty"`
}

// Program is what wrote the checkpoint.
type Program struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Job is the job that was run.
type Job struct {
	Name   string `json:"name"`   // of the file, without its folder
	SHA256 string `json:"sha256"` // of its text
}

// Source is what was read.
type Source struct {
	Format string       `json:"format"`
	Stages int          `json:"stages"`
	Ranks  int          `json:"ranks"`
	Files  []SourceFile `json:"files"`
}

// SourceFile is a file that was read, and the digest of its header.
type SourceFile struct {
	Rank   int    `json:"rank"`
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	Header string `json:"header_sha256"`
}

// Target is what was written.
type Target struct {
	Format string `json:"format"`
	Stages int    `json:"stages"`
	Ranks  int    `json:"ranks"`
}

// File is a file that was written.
type File struct {
	Name   string `json:"name"`
	Rank   int    `json:"rank"`
	Size   int64  `json:"size"`
	CRC64  string `json:"crc64nvme"`
	SHA256 string `json:"sha256,omitempty"`
	LinkTo string `json:"link_to,omitempty"`
}

// Tensor is a tensor that was written. The digest is the CRC-64/NVME of its
// whole row-major little-endian bytes; it is absent where only a part of the
// tensor was written.
type Tensor struct {
	Name   string  `json:"name"`
	From   string  `json:"from,omitempty"` // the source's name, if it differs
	Rank   *int    `json:"rank,omitempty"` // of the only rank that has it, rank by rank
	DType  string  `json:"dtype"`
	Cast   string  `json:"cast_from,omitempty"`
	Shape  []int64 `json:"shape"`
	CRC64  string  `json:"crc64nvme,omitempty"`
	Source string  `json:"source_crc64nvme,omitempty"` // before a cast
}

// Dropped is what was left out.
type Dropped struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// Marshal writes the document.
func (m *Manifest) Marshal() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// MaxBytes bounds a manifest that is read.
const MaxBytes = 1 << 30

// Parse reads a document.
func Parse(b []byte) (*Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("is no manifest: %w", err)
	}
	if m.Schema != Schema {
		return nil, fmt.Errorf("has schema %q, this program knows %q", m.Schema, Schema)
	}
	return &m, nil
}
