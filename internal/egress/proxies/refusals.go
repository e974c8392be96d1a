package proxies

import (
	"slices"
	"sync"

	"github.com/croft-run/croft/workspace/driver"
)

// maxRefusals bounds the refusals that are kept.
const maxRefusals = 100

// Refusals keeps the recent refusals of a workspace's proxy, for the results of commands.
type Refusals struct {
	mu   sync.Mutex
	seen int // number of all refusals
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

// Now returns the present position, for Since.
func (r *Refusals) Now() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// Since lists the distinct refusals since a position.
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
