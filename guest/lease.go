package guest

import (
	"sync"
	"time"
)

// A lease ends a guest that has had no owner for too long.
type lease struct {
	mu    sync.Mutex
	ttl   time.Duration
	timer *time.Timer
}

// newLease starts without an owner: the host that started the guest has ttl to
// come back.
func newLease(ttl time.Duration, end func()) *lease {
	return &lease{ttl: ttl, timer: time.AfterFunc(ttl, end)}
}

// holders is told how many owners there are.
func (l *lease) holders(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	if n == 0 {
		l.timer.Reset(l.ttl)
	}
}

func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
}
