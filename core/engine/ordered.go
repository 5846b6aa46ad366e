package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"
)

// ordered computes a digest that wants its bytes in order, from workers that
// have them nearly so: each waits for its turn. Bands are handed out in the
// order of the file, so the worker with the lowest band never waits, and what
// waits is one buffer a worker.
type ordered struct {
	mu   sync.Mutex
	turn *sync.Cond
	next int64
	h    hash.Hash
	dead bool
}

func newOrdered() *ordered {
	o := &ordered{h: sha256.New()}
	o.turn = sync.NewCond(&o.mu)
	return o
}

// add gives the bytes at an offset, once those before it have been given.
func (o *ordered) add(ctx context.Context, p []byte, at int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.next != at && !o.dead {
		o.turn.Wait()
	}
	if o.dead {
		return context.Canceled
	}
	o.h.Write(p)
	o.next = at + int64(len(p))
	o.turn.Broadcast()
	return ctx.Err()
}

// stop wakes all that wait; their bytes will never come.
func (o *ordered) stop() {
	o.mu.Lock()
	o.dead = true
	o.turn.Broadcast()
	o.mu.Unlock()
}

func (o *ordered) sum() string { return hex.EncodeToString(o.h.Sum(nil)) }
