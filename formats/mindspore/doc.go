// Package mindspore knows MindSpore's .ckpt files and the strategy files that
// tell how a distributed run's parameters lie on its devices.
//
// A checkpoint is protobuf without an envelope: records, one for each
// parameter, then perhaps a checksum. There is no magic, no version, no index.
//
//	file    = record* [trailer]
//	record  = 0A len value                       Checkpoint.value
//	value   = 0A len tag  12 len tensor          Value.tag, Value.tensor
//	tensor  = (08 dim)*   12 len type   1A len content
//	trailer = "crc_num" sum                      sum: 10 bytes, big-endian CRC-32 of all before
//
// A parameter over 512 MiB is cut into slices: consecutive records with equal
// tags, each with the dims of the whole. So a reader walks from record to
// record over the contents, and a writer knows every length beforehand.
//
// A strategy file is protobuf (ParallelStrategyMap) or JSON with the same
// names. It gives each parameter a device matrix, a tensor map that counts
// axes from the right, and an optimizer shard of dim 0.
//
// Everything here is written down with its sources in
// specs/formats/mindspore.md.
package mindspore
