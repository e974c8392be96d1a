package event

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Dropped stands in a subscription, or in a file, for events that were lost
// there. It is not part of the stream: its sequence is that of the last lost
// event, so that whoever resumes after it misses nothing more.
const Dropped Kind = "event.dropped"

// Fields of a Dropped event.
const (
	FieldCount = "count" // how many were lost; for DropExpired those of other filters count too
	FieldFirst = "first" // sequence of the first, where it is known
)

// Values of FieldReason in a Dropped event.
const (
	DropSlow    = "slow"    // the reader did not keep up
	DropExpired = "expired" // they are older than what is kept for replay
	DropUnknown = "unknown" // the stream has not come to the sequence that was asked for: it is another stream's
	DropWrite   = "write"   // they could not be written
)

// A Filter selects events. An empty part selects all.
type Filter struct {
	Kinds     []Kind // a kind, or all below one: "lifecycle.*"
	Workspace string
	Session   string
}

// Match reports whether e is selected.
func (f Filter) Match(e Event) bool {
	if f.Workspace != "" && f.Workspace != e.Workspace || f.Session != "" && f.Session != e.Session {
		return false
	}
	return len(f.Kinds) == 0 || slices.ContainsFunc(f.Kinds, func(k Kind) bool { return k.covers(e.Kind) })
}

func (k Kind) covers(other Kind) bool {
	if area, ok := strings.CutSuffix(string(k), "*"); ok && (area == "" || strings.HasSuffix(area, ".")) {
		return strings.HasPrefix(string(other), area)
	}
	return k == other
}

// DefaultBuffer is how many events a subscription holds for a slow reader.
const DefaultBuffer = 256

// SubscribeOptions says where a subscription begins. Nil is: with the next event.
type SubscribeOptions struct {
	Buffer int // events held for a slow reader; 0 is DefaultBuffer

	// Replay, a ring that is a sink of the same stream, has the subscription
	// begin with the first event after the sequence After. Between what is
	// replayed and what follows nothing is missing and nothing comes twice.
	Replay *Ring
	After  uint64
}

// A Subscription hands out events in order, until it is closed. A reader that
// is too slow loses the oldest events and is told how many by a [Dropped] event
// in their place; the emitters never wait.
type Subscription struct {
	c      chan Event
	filter Filter
	detach func()
	stop   chan struct{}
	once   sync.Once
	done   sync.WaitGroup

	mu    sync.Mutex
	queue []Event // held, oldest at head
	head  int
	count int
	lost  Event         // what stands for the events that are missing before the queue
	wake  chan struct{} // of size 1: there is something to hand out
}

// Subscribe returns a subscription to the events that filter selects. It must
// be closed.
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

// replay fills the queue with what the ring holds after a sequence, and returns
// how much that is. last is the latest sequence of the stream.
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

// droppedEvent stands for count events, of which e is the last.
func droppedEvent(reason string, count uint64, e Event) Event {
	return Event{Kind: Dropped, Sequence: e.Sequence, Time: e.Time.UTC(), Fields: map[string]any{
		FieldReason: reason, FieldCount: count, FieldFirst: e.Sequence - count + 1,
	}}
}

// C returns the channel of the events. Close closes it.
func (sub *Subscription) C() <-chan Event { return sub.c }

// Close ends the subscription. What was not yet received is gone.
func (sub *Subscription) Close() {
	sub.once.Do(func() {
		sub.detach()
		close(sub.stop)
	})
	sub.done.Wait()
}

// Emit takes an event from the stream.
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
	default: // it is awake already
	}
}

// countLostLocked counts e among the missing.
func (sub *Subscription) countLostLocked(e Event) {
	if sub.lost.Kind == "" {
		sub.lost = Event{Kind: Dropped, Fields: map[string]any{FieldReason: DropSlow, FieldCount: uint64(0), FieldFirst: e.Sequence}}
	}
	sub.lost.Sequence, sub.lost.Time = e.Sequence, e.Time
	sub.lost.Fields[FieldCount] = sub.lost.Fields[FieldCount].(uint64) + 1
}

// deliver hands out events until the subscription is closed.
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

// nextEvent returns the next event to hand out.
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
	sub.queue[sub.head] = Event{} // let go of its fields
	sub.head = (sub.head + 1) % len(sub.queue)
	sub.count--
	return e, true
}
