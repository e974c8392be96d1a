package proxies

import (
	"slices"
	"sync"

	"github.com/croft-run/croft/workspace/driver"
)

// maxRefusals bounds what is remembered of refusals.
const maxRefusals = 100

// Refusals remembers what the proxy of a workspace has refused of late, so that the
// results of commands tell.
type Refusals struct {
	mu   sync.Mutex
	seen int // all that there ever were
	last []driver.Refusal
}

func (r *Refusals) add(host, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	if r.last = append(r.last, driver.Refusal{Host: host, Reason: reason}); len(r.last) > maxRefusals {
		r.last = slices.Delete(r.last, 0, len(r.last)-maxRefusals)
	}
}

// Now is a moment to ask from. A nil one has none.
func (r *Refusals) Now() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// Since lists what was refused since a moment, each once.
func (r *Refusals) Since(moment int) []driver.Refusal {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []driver.Refusal
	for _, x := range r.last[max(0, len(r.last)-(r.seen-moment)):] {
		if !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return list
}
