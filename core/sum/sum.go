// Package sum computes cyclic redundancy checks of messages that arrive in
// pieces, in any order.
//
// A CRC is linear over GF(2): the sum of a message is the exclusive or of the
// sums of its pieces, each multiplied by a power of x for the bytes that
// follow it. So files and tensors are summed while their pieces are in cache,
// whatever order the pieces come in, and a tensor has the same digest however
// it was sharded.
//
// Two checks are known: CRC-64/NVME, the digest of tensors and files, and
// CRC-32/IEEE, which zip records and MindSpore trailers hold. Sums are uint64
// values; those of CRC-32 use the low 32 bits.
package sum

import (
	"hash/crc32"

	"github.com/minio/crc64nvme"
)

// Kind is a check.
type Kind uint8

// The checks.
const (
	CRC64 Kind = iota // CRC-64/NVME
	CRC32             // CRC-32/IEEE
)

// String is the name of the check: "crc64-nvme" or "crc32".
func (k Kind) String() string { return [...]string{"crc64-nvme", "crc32"}[k] }

// Size is the number of bytes of a sum.
func (k Kind) Size() int { return [...]int{8, 4}[k] }

// Of is the sum of p.
func (k Kind) Of(p []byte) uint64 { return k.Update(0, p) }

// Update is the sum of a message followed by p, where s is the sum of the
// message; the empty message has the sum 0.
func (k Kind) Update(s uint64, p []byte) uint64 {
	if k == CRC32 {
		return uint64(crc32.Update(uint32(s), crc32.IEEETable, p))
	}
	return crc64nvme.Update(s, p)
}

// Combine is the sum of a message followed by another one of n bytes, where a
// and b are their sums.
func (k Kind) Combine(a, b uint64, n int64) uint64 { return k.shift(a, n) ^ b }

// Zeros is the sum of n zero bytes.
func (k Kind) Zeros(n int64) uint64 {
	ones := k.field().ones
	return k.shift(ones, n) ^ ones
}

// raw takes the conditioning off the sum s of n bytes: both checks begin with
// all ones and invert the result, which is affine, not linear. A raw sum does
// not change where zeros are put before the message.
func (k Kind) raw(s uint64, n int64) uint64 { return s ^ k.Zeros(n) }

// shift multiplies by x^(8n): the raw sum of a message followed by n zeros.
func (k Kind) shift(raw uint64, n int64) uint64 {
	f := k.field()
	for i := 0; n > 0; i, n = i+1, n>>8 {
		if d := n & 0xff; d != 0 {
			raw = f.mul(raw, f.pow[i][d])
		}
	}
	return raw
}
