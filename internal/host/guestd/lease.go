package guestd

import (
	"sync"
	"time"
)

// A lease ends the guest when no client has been connected for ttl, or soon after its
// workspace directory is removed: no other host process could find the guest then.
type lease struct {
	ttl           time.Duration
	workspaceGone func() bool
	end           func()

	mu      sync.Mutex
	owned   bool
	stopped bool
	expires time.Time
	timer   *time.Timer
}

// leaseCheckInterval is how often a guest checks its workspace directory.
var leaseCheckInterval = 5 * time.Second // shorter in tests

// newLease starts a lease without a client: the host has ttl to connect.
func newLease(ttl time.Duration, gone func() bool, end func()) *lease {
	l := &lease{ttl: ttl, workspaceGone: gone, end: end, expires: time.Now().Add(ttl)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(min(ttl, leaseCheckInterval), l.check)
	return l
}

// check ends the guest, or sets the timer again.
func (l *lease) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	left := l.ttl
	if !l.owned {
		left = time.Until(l.expires)
	}
	if left <= 0 || l.workspaceGone() {
		l.stopped = true
		l.end()
		return
	}
	l.timer.Reset(min(left, leaseCheckInterval))
}

// setClients takes the number of connected clients.
func (l *lease) setClients(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owned = n > 0; !l.owned {
		l.expires = time.Now().Add(l.ttl)
	}
	if !l.stopped {
		l.timer.Reset(min(l.ttl, leaseCheckInterval))
	}
}

func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.timer.Stop()
}
