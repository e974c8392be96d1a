package guestd

import (
	"sync"
	"time"
)

// A lease ends a guest that has had no owner for too long, or whose workspace is
// gone meanwhile, after which nobody can find it.
type lease struct {
	ttl           time.Duration
	workspaceGone func() bool
	end           func()

	mu      sync.Mutex
	owned   bool
	expires time.Time
	timer   *time.Timer
}

// leaseCheckInterval is how often a guest without an owner looks for its workspace.
var leaseCheckInterval = 5 * time.Second // tests have less

// newLease starts without an owner: the host that started the guest has ttl to
// come back.
func newLease(ttl time.Duration, gone func() bool, end func()) *lease {
	l := &lease{ttl: ttl, workspaceGone: gone, end: end, expires: time.Now().Add(ttl)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(min(ttl, leaseCheckInterval), l.check)
	return l
}

// check ends the guest, or waits on.
func (l *lease) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owned {
		return
	}
	left := time.Until(l.expires)
	if left <= 0 || l.workspaceGone() {
		l.end()
		return
	}
	l.timer.Reset(min(left, leaseCheckInterval))
}

// setClients is told how many owners there are.
func (l *lease) setClients(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	if l.owned = n > 0; !l.owned {
		l.expires = time.Now().Add(l.ttl)
		l.timer.Reset(min(l.ttl, leaseCheckInterval))
	}
}

func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owned = true
	l.timer.Stop()
}
