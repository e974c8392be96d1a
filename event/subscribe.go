package event

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

// Dropped replaces lost events in a subscription or a file. It is not part of the stream:
// its sequence is that of the last lost event, so that a reader that resumes after it
// misses nothing more.
const Dropped Kind = "event.dropped"

// Fields of a Dropped event.
const (
	FieldCount = "count" // number of lost events, for DropExpired including events that the filter excludes; in EgressRequest, of refusals that are merged into one event
	FieldFirst = "first" // sequence of the first one, if known
)

// Values of FieldReason in a Dropped event.
const (
	DropSlow    = "slow"    // the reader was too slow
	DropExpired = "expired" // older than the replay buffer
	DropUnknown = "unknown" // the requested sequence is ahead of the stream: it belongs to another stream
	DropWrite   = "write"   // writing failed
)

// A Filter selects events. An empty field selects all.
type Filter struct {
	Kinds     []Kind  // a kind, or a prefix: "lifecycle.*"
	Tenant    *string // nil is all
	Workspace string
	Session   string
}

// Match reports whether e is selected.
func (f Filter) Match(e Event) bool {
	if f.Tenant != nil && *f.Tenant != e.Tenant {
		return false
	}
	if f.Workspace != "" && f.Workspace != e.Workspace || f.Session != "" && f.Session != e.Session {
		return false
	}
	return len(f.Kinds) == 0 || slices.ContainsFunc(f.Kinds, func(k Kind) bool { return k.covers(e.Kind) })
}

// Check refuses a kind that selects no event, such as a misspelt one.
func (f Filter) Check() error {
	for _, k := range f.Kinds {
		if !slices.ContainsFunc(Kinds, k.covers) {
			names := make([]string, 0, len(Kinds))
			for _, known := range Kinds {
				names = append(names, string(known))
			}
			return fault.Advise(fmt.Errorf("event kind %.80q: %w", k, fault.InvalidArgument),
				"the kinds are %s, or a prefix such as lifecycle.*", strings.Join(names, ", "))
		}
	}
	return nil
}

func (k Kind) covers(other Kind) bool {
	if area, ok := strings.CutSuffix(string(k), "*"); ok && (area == "" || strings.HasSuffix(area, ".")) {
		return strings.HasPrefix(string(other), area)
	}
	return k == other
}

// DefaultBuffer is the number of events that a subscription buffers for a slow reader.
const DefaultBuffer = 256

// SubscribeOptions are the options of Subscribe. Nil begins with the next event.
type SubscribeOptions struct {
	Buffer int // buffered events; 0 is DefaultBuffer

	// Replay is a ring that is a sink of the same stream; the subscription then begins with
	// the first event after the sequence After. Between replayed and new events there are
	// no gaps and no duplicates.
	Replay *Ring
	After  uint64
}

// A Subscription delivers events in order, until it is closed. If the reader is too slow,
// the oldest events are dropped and replaced by a [Dropped] event; emitters never wait.
type Subscription struct {
	c      chan Event
	filter Filter
	detach func()
	stop   chan struct{}
	once   sync.Once
	done   sync.WaitGroup

	mu    sync.Mutex
	queue []Event // ring buffer, oldest at head
	head  int
	count int
	lost  Event         // Dropped event for events lost before the queue
	wake  chan struct{} // of size 1; signals a queued event
}

// Subscribe returns a subscription to the events that filter selects. It must be closed.
func (s *Stream) Subscribe(filter Filter, opts *SubscribeOptions) *Subscription {
	var o SubscribeOptions
	if opts != nil {
		o = *opts
	}
	if o.Buffer <= 0 {
		o.Buffer = DefaultBuffer
	}
	sub := &Subscription{
		c: make(chan Event), filter: filter, stop: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	s.mu.Lock()
	if o.Replay != nil {
		o.Buffer = max(o.Buffer, sub.replay(o.Replay, o.After, s.next))
	}
	sub.queue = slices.Grow(sub.queue, o.Buffer)[:o.Buffer]
	sub.detach = s.attachLocked(sub)
	s.mu.Unlock()
	sub.done.Go(sub.deliver)
	return sub
}

// replay fills the queue with the ring's events after a sequence, and returns their number.
// last is the latest sequence of the stream.
func (sub *Subscription) replay(ring *Ring, after, last uint64) int {
	events, missing := ring.Since(after)
	if len(events) == 0 && after < last {
		missing = last - after
	}
	switch {
	case after > last:
		sub.lost = Event{Kind: Dropped, Time: time.Now().UTC(), Fields: map[string]any{FieldReason: DropUnknown, FieldCount: uint64(0)}}
	case missing > 0:
		sub.lost = droppedEvent(DropExpired, missing, Event{Sequence: after + missing, Time: time.Now()})
	}
	for _, e := range events {
		if sub.filter.Match(e) {
			sub.queue = append(sub.queue, e)
		}
	}
	if sub.count = len(sub.queue); sub.count > 0 || sub.lost.Kind != "" {
		sub.wake <- struct{}{}
	}
	return sub.count
}

// droppedEvent returns the Dropped event for count events, of which e is the last.
func droppedEvent(reason string, count uint64, e Event) Event {
	return Event{Kind: Dropped, Sequence: e.Sequence, Time: e.Time.UTC(), Fields: map[string]any{
		FieldReason: reason, FieldCount: count, FieldFirst: e.Sequence - count + 1,
	}}
}

// C returns the channel of events. Close closes it.
func (sub *Subscription) C() <-chan Event { return sub.c }

// Close ends the subscription. Undelivered events are dropped.
func (sub *Subscription) Close() {
	sub.once.Do(func() {
		sub.detach()
		close(sub.stop)
	})
	sub.done.Wait()
}

// Emit queues an event of the stream.
func (sub *Subscription) Emit(e Event) {
	if !sub.filter.Match(e) {
		return
	}
	sub.mu.Lock()
	if sub.count == len(sub.queue) {
		sub.countLostLocked(sub.queue[sub.head])
		sub.head = (sub.head + 1) % len(sub.queue)
		sub.count--
	}
	sub.queue[(sub.head+sub.count)%len(sub.queue)] = e
	sub.count++
	sub.mu.Unlock()
	select {
	case sub.wake <- struct{}{}:
	default: // already signalled
	}
}

// countLostLocked counts e as lost.
func (sub *Subscription) countLostLocked(e Event) {
	if sub.lost.Kind == "" {
		sub.lost = Event{Kind: Dropped, Fields: map[string]any{FieldReason: DropSlow, FieldCount: uint64(0), FieldFirst: e.Sequence}}
	}
	sub.lost.Sequence, sub.lost.Time = e.Sequence, e.Time
	sub.lost.Fields[FieldCount] = sub.lost.Fields[FieldCount].(uint64) + 1
}

// deliver sends events to the channel until the subscription is closed.
func (sub *Subscription) deliver() {
	defer close(sub.c)
	for {
		e, ok := sub.nextEvent()
		if !ok {
			select {
			case <-sub.wake:
				continue
			case <-sub.stop:
				return
			}
		}
		select {
		case sub.c <- e:
		case <-sub.stop:
			return
		}
	}
}

// nextEvent returns the next event to deliver.
func (sub *Subscription) nextEvent() (Event, bool) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.lost.Kind != "" {
		e := sub.lost
		sub.lost = Event{}
		return e, true
	}
	if sub.count == 0 {
		return Event{}, false
	}
	e := sub.queue[sub.head]
	sub.queue[sub.head] = Event{} // release its fields
	sub.head = (sub.head + 1) % len(sub.queue)
	sub.count--
	return e, true
}
