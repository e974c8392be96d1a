package main

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"time"
)

// An engine runs events in the order of their times; events of one time run in the order in
// which they were scheduled. So a run depends on its seed alone.
type engine struct {
	now    time.Duration
	events events
	seq    uint64
	rng    *rand.Rand
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

// events is a heap.
type events []*event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(*event)) }
func (h *events) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func newEngine(seed uint64) *engine { return &engine{rng: rand.New(rand.NewPCG(seed, 0))} }

// after schedules do.
func (e *engine) after(d time.Duration, do func()) {
	e.seq++
	heap.Push(&e.events, &event{e.now + max(d, 0), e.seq, do})
}

// every calls do now and then each interval.
func (e *engine) every(interval time.Duration, do func()) {
	do()
	e.after(interval, func() { e.every(interval, do) })
}

// run runs events until a time.
func (e *engine) run(until time.Duration) {
	for len(e.events) > 0 && e.events[0].at <= until {
		next := heap.Pop(&e.events).(*event)
		e.now = next.at
		next.do()
	}
	e.now = until
}

// exponential draws a duration with an exponential distribution.
func (e *engine) exponential(mean time.Duration) time.Duration {
	return time.Duration(-math.Log(1-e.rng.Float64()) * float64(mean))
}

// A station has servers and one queue, first in, first out.
type station struct {
	e       *engine
	servers int
	busy    int
	queue   []func()
	used    time.Duration // server time until since
	since   time.Duration
}

func (e *engine) station(servers int) *station { return &station{e: e, servers: max(servers, 1)} }

// acquire calls do when a server is free. do, or what follows from it, calls release.
func (s *station) acquire(do func()) {
	if s.busy == s.servers {
		s.queue = append(s.queue, do)
		return
	}
	s.count(1)
	do()
}

func (s *station) release() {
	if len(s.queue) == 0 {
		s.count(-1)
		return
	}
	do := s.queue[0]
	s.queue = s.queue[1:]
	do()
}

// serve takes a server for a time, and then calls done.
func (s *station) serve(d time.Duration, done func()) {
	s.acquire(func() { s.e.after(d, func() { s.release(); done() }) })
}

func (s *station) count(n int) {
	s.used += time.Duration(s.busy) * (s.e.now - s.since)
	s.busy, s.since = s.busy+n, s.e.now
}

// utilisation is the share of the servers' time that was used.
func (s *station) utilisation() float64 {
	s.count(0)
	return float64(s.used) / float64(s.servers) / float64(max(s.e.now, 1))
}

// A batch is a write-ahead log: one flush at a time, which all commits that wait share (group
// commit).
type batch struct {
	e        *engine
	flush    time.Duration
	flushing bool
	waiting  []func()
}

func (b *batch) commit(done func()) {
	b.waiting = append(b.waiting, done)
	b.start()
}

func (b *batch) start() {
	if b.flushing || len(b.waiting) == 0 {
		return
	}
	now := b.waiting
	b.waiting, b.flushing = nil, true
	b.e.after(b.flush, func() {
		b.flushing = false
		for _, done := range now {
			done()
		}
		b.start()
	})
}

// A limiter is a token bucket, as those of Kubernetes' clients.
type limiter struct {
	e           *engine
	rate, burst float64
	tokens      float64
	at          time.Duration // of tokens
	taken       float64
}

func (e *engine) limiter(rate, burst float64) *limiter {
	return &limiter{e: e, rate: rate, burst: burst, tokens: burst}
}

// take calls done when n tokens are there.
func (l *limiter) take(n int, done func()) {
	l.tokens = min(l.burst, l.tokens+l.rate*(l.e.now-l.at).Seconds()) - float64(n)
	l.at = l.e.now
	l.taken += float64(n)
	l.e.after(seconds(-l.tokens/l.rate), done)
}

// utilisation is what was asked for beside what the bucket gives; it can be more than 1.
func (l *limiter) utilisation() float64 { return l.taken / (l.rate * max(l.e.now.Seconds(), 1)) }

// A step is a part of a sequence; it calls next at its end.
type step = func(next func())

// steps runs one step after the other.
func steps(list ...step) {
	if len(list) > 0 {
		list[0](func() { steps(list[1:]...) })
	}
}

func seconds(s float64) time.Duration { return time.Duration(max(s, 0) * float64(time.Second)) }
