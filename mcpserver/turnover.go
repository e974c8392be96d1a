package mcpserver

import (
	"context"
	"sync"
	"time"
)

// patience is how long a call may keep its reader from reading on.
const patience = time.Millisecond

// A turnover has somebody else read where the reader is held up by a call. To wake
// another goroutine for each call would cost more than most calls take, so that
// the reader works alone, and a watch looks at it now and then for as long as it
// is busy.
type turnover struct {
	read func() // reads on
	wake chan struct{}

	mu    sync.Mutex
	busy  bool      // +checklocks:mu; the reader runs a call
	since time.Time // +checklocks:mu; and began then
	idle  bool      // +checklocks:mu; the watch waits to be woken
}

func newTurnover(read func()) *turnover {
	return &turnover{read: read, wake: make(chan struct{}, 1), idle: true}
}

// begin says that the reader runs a call now.
func (t *turnover) begin() {
	t.mu.Lock()
	t.busy, t.since = true, time.Now()
	wake := t.idle
	t.idle = false
	t.mu.Unlock()
	if wake {
		t.wake <- struct{}{} // the watch takes it: it is woken once for each time it is idle
	}
}

// end says that the call is over. Where it is true the reader is still the one who
// reads.
func (t *turnover) end() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.busy
	t.busy = false
	return mine
}

// restingLooks is how often the watch looks at a reader without a call before it
// waits to be woken.
const restingLooks = 50

// watch looks after the reader until ctx ends.
func (t *turnover) watch(ctx context.Context) {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for resting := 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		switch t.look(&resting) {
		case lookReads:
			go t.read() // it ends with the stream
		case lookRests:
			tick.Stop()
			select {
			case <-t.wake:
			case <-ctx.Done():
				return
			}
			tick.Reset(patience)
		}
	}
}

// What look found.
const (
	lookNothing = iota
	lookReads   // somebody has to read on
	lookRests   // there is nothing to look after
)

func (t *turnover) look(resting *int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.busy && time.Since(t.since) >= patience:
		*resting, t.busy = 0, false // the reader is no longer the one
		return lookReads
	case t.busy:
		*resting = 0
	default:
		if *resting++; *resting >= restingLooks {
			*resting, t.idle = 0, true
			return lookRests
		}
	}
	return lookNothing
}
