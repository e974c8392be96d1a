package guestd

import (
	"sync"
	"time"
)

// A lease ends a guest that has had no owner for too long, or whose workspace is
// gone meanwhile, after which nobody can find it.
type lease struct {
	ttl  time.Duration
	gone func() bool
	end  func()

	mu    sync.Mutex
	held  bool
	till  time.Time
	timer *time.Timer
}

// leaseLook is how often a guest without an owner looks for its workspace.
var leaseLook = 5 * time.Second // tests have less

// newLease starts without an owner: the host that started the guest has ttl to
// come back.
func newLease(ttl time.Duration, gone func() bool, end func()) *lease {
	l := &lease{ttl: ttl, gone: gone, end: end, till: time.Now().Add(ttl)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(min(ttl, leaseLook), l.look)
	return l
}

// look ends the guest, or waits on.
func (l *lease) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held {
		return
	}
	left := time.Until(l.till)
	if left <= 0 || l.gone() {
		l.end()
		return
	}
	l.timer.Reset(min(left, leaseLook))
}

// holders is told how many owners there are.
func (l *lease) holders(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	if l.held = n > 0; !l.held {
		l.till = time.Now().Add(l.ttl)
		l.timer.Reset(min(l.ttl, leaseLook))
	}
}

func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
	l.timer.Stop()
}
