package egress

import (
	"fmt"
	"sync"
	"time"

	"github.com/croft-run/croft/event"
)

// A workload can make thousands of refused requests in a second, which would evict all other
// events from the audit stream. So in each window the first refusal of its kind is emitted at
// once, and the others as one event with their number.

const (
	mergeWindow = 10 * time.Second
	maxRefusals = 64 // kinds of refusals in a window; those beyond are one kind
)

// A refusalMerger emits the events of refused requests.
type refusalMerger struct {
	emit func(event.Event)

	mu    sync.Mutex
	kinds map[string]*mergedRefusal
	timer *time.Timer // ends the window; nil if none has begun
}

// A mergedRefusal is a kind of refusals in the present window.
type mergedRefusal struct {
	last event.Event
	more int64 // refusals after the first
}

// add emits the event of a refusal, or counts it.
func (m *refusalMerger) add(e event.Event) {
	f := e.Fields
	key := fmt.Sprint(f[event.FieldHost], f[event.FieldPort], f[event.FieldProtocol], f[event.FieldMethod], f[event.FieldReason], f[event.FieldAddress])
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer == nil {
		m.kinds = map[string]*mergedRefusal{}
		m.timer = time.AfterFunc(mergeWindow, m.flush)
	}
	kind := m.kinds[key]
	switch {
	case kind == nil && len(m.kinds) < maxRefusals:
		m.kinds[key] = &mergedRefusal{last: e}
		m.emit(e)
		return
	case kind == nil:
		if kind = m.kinds[""]; kind == nil {
			e.Fields = map[string]any{event.FieldHost: "*", event.FieldVerdict: event.VerdictDeny, event.FieldReason: "too many different requests were refused"}
			kind = &mergedRefusal{last: e}
			m.kinds[""] = kind
		}
		kind.more++
		return
	}
	kind.last, kind.more = e, kind.more+1
}

// flush ends the window and emits what was counted in it.
func (m *refusalMerger) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	for _, kind := range m.kinds {
		if kind.more > 0 {
			kind.last.Fields[event.FieldCount] = kind.more
			m.emit(kind.last)
		}
	}
	m.kinds = nil
}
