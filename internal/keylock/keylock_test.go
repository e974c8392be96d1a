package keylock

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestLock(t *testing.T) {
	var l Locks[string]
	unlock, err := l.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Lock(t.Context(), "b")
	if err != nil {
		t.Fatalf("another key waits: %v", err)
	}
	other()
	ended, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if _, err := l.Lock(ended, "a"); !errors.Is(err, why) {
		t.Errorf("Lock of a held key = %v, want the context's cause", err)
	}
	unlock()

	var wg sync.WaitGroup
	n := 0
	for range 100 {
		wg.Go(func() {
			unlock, err := l.Lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			n++ // the race detector sees it where two hold the key
			unlock()
		})
	}
	wg.Wait()
	if n != 100 || len(l.locked) != 0 {
		t.Errorf("%d rounds, %d keys left; want 100 and none", n, len(l.locked))
	}
}
