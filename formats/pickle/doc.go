// Package pickle reads Python pickles without running them, and writes the
// small part of the language that torch checkpoints need.
//
// A pickle is a program for a stack machine: it pushes values, gathers them
// into containers, and names functions of Python to call with them. Parse runs
// the stack part and only writes down the rest: GLOBAL pushes a name that is
// never resolved, REDUCE makes a node that says "this would have been called
// with that". The result is a graph of Nodes, not a tree: what the memo shares
// is one node, and a container may hold itself. A consumer that follows it
// must bound its depth, and walk shared nodes with care: a pickle of a hundred
// bytes can stand for a tree of 2^100 leaves.
//
// All opcodes of protocols 0 to 5 are known. Those that need a partner outside
// the pickle (the extension registry, out-of-band buffers) are refused.
package pickle
