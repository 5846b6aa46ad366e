// Package safetensors reads and writes safetensors files.
//
// A file is a length, a JSON text and data, and nothing after:
//
//	┌────────────┬───────────────────────────────┬──────────────────────────┐
//	│ n: u64 le  │ header: JSON, n bytes         │ data: tensors, no gaps   │
//	└────────────┴───────────────────────────────┴──────────────────────────┘
//
//	{"__metadata__":{"format":"pt"},
//	 "w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}
//
// Offsets count from the begin of the data; tensors are row-major and little
// endian. What the reference reader in Rust accepts is accepted here and what
// it refuses is refused; oddities that it lets pass are warnings, and errors
// where the caller is strict. Files that are written are those that the
// reference writes for the same tensors, byte by byte.
//
// Two conventions live in the metadata: MindSpore marks 4-bit integers there,
// and this program keeps what is no tensor under the key convert.leaves.
// specs/formats/safetensors.md is normative.
package safetensors
