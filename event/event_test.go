package event

import (
	"sync"
	"testing"
)

func TestStreamNumbersWithoutGaps(t *testing.T) {
	ring := NewRing(1000)
	s := NewStream(ring)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 100 {
				s.Emit(Event{Kind: Operation})
			}
		})
	}
	wg.Wait()
	got := ring.Events()
	if len(got) != 1000 {
		t.Fatalf("got %d events, want 1000", len(got))
	}
	for i, e := range got {
		if e.Sequence != uint64(i+1) {
			t.Fatalf("event %d has sequence %d", i, e.Sequence)
		}
		if e.Time.IsZero() {
			t.Fatal("an event has no time")
		}
	}
}

func TestRingKeepsTheLatest(t *testing.T) {
	ring := NewRing(3)
	s := NewStream(ring)
	for range 5 {
		s.Emit(Event{})
	}
	got := ring.Events()
	if len(got) != 3 || got[0].Sequence != 3 || got[2].Sequence != 5 {
		t.Errorf("got %v, want sequences 3 to 5", got)
	}
}

func TestDetach(t *testing.T) {
	a, b := NewRing(9), NewRing(9)
	s := NewStream()
	detachA, _ := s.Attach(a), s.Attach(b)
	s.Emit(Event{})
	detachA()
	detachA()
	s.Emit(Event{})
	if na, nb := len(a.Events()), len(b.Events()); na != 1 || nb != 2 {
		t.Errorf("a saw %d and b %d events, want 1 and 2", na, nb)
	}
}
