package sandbox

import (
	"slices"
	"sync"

	"github.com/croft-run/croft/workspace/driver"
)

// mostRefused bounds what is remembered of refusals.
const mostRefused = 100

// refused remembers what the proxy of a workspace has refused of late, so that the
// results of commands tell.
type refused struct {
	mu   sync.Mutex
	seen int // all that there ever were
	last []driver.Refusal
}

func (r *refused) add(host, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	if r.last = append(r.last, driver.Refusal{Host: host, Reason: reason}); len(r.last) > mostRefused {
		r.last = slices.Delete(r.last, 0, len(r.last)-mostRefused)
	}
}

// now is a moment to ask from. A nil one has none.
func (r *refused) now() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// since lists what was refused since a moment, each once.
func (r *refused) since(moment int) []driver.Refusal {
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

// refused returns what remembers the refusals of a workspace, nil where this process
// has no proxy for it.
func (w *waysOut) refused(id string) *refused {
	w.mu.Lock()
	defer w.mu.Unlock()
	if way := w.open[id]; way != nil {
		return &way.refused
	}
	return nil
}
