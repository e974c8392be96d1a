package eval

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A track notes what ran at the same time.
type track struct {
	mu      sync.Mutex
	now     []int
	started []int
	most    int
	clash   bool // two of one lane
}

func (tr *track) do(lane func(int) int, took time.Duration) func(context.Context, int) {
	return func(_ context.Context, i int) {
		tr.mu.Lock()
		for _, other := range tr.now {
			tr.clash = tr.clash || lane(other) == lane(i)
		}
		tr.now, tr.started = append(tr.now, i), append(tr.started, i)
		tr.most = max(tr.most, len(tr.now))
		tr.mu.Unlock()
		time.Sleep(took)
		tr.mu.Lock()
		tr.now = slices.DeleteFunc(tr.now, func(x int) bool { return x == i })
		tr.mu.Unlock()
	}
}

//croft:slow-race
func TestSchedules(t *testing.T) {
	lane := func(i int) int { return i % 3 } // cases x 3 runners
	for _, c := range []struct {
		schedule Schedule
		max      int
		most     int
		took     time.Duration // of 12 executions of a second
		clash    bool
	}{
		{Serial, 8, 1, 12 * time.Second, false},
		{Parallel, 4, 4, 3 * time.Second, true},
		{Parallel, 100, 12, time.Second, true},
		{ByRunner, 100, 3, 4 * time.Second, false},
		{ByRunner, 2, 2, 8 * time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var tr track
			start := time.Now()
			c.schedule.run(t.Context(), 12, c.max, lane, tr.do(lane, time.Second))
			if took := time.Since(start); took != c.took {
				t.Errorf("%s with %d takes %v, want %v", c.schedule, c.max, took, c.took)
			}
			if len(tr.started) != 12 || tr.most != c.most || tr.clash != c.clash {
				t.Errorf("%s with %d: %d started, %d at once, clash %v; want 12, %d, %v", c.schedule, c.max, len(tr.started), tr.most, tr.clash, c.most, c.clash)
			}
			if c.schedule == Serial && !slices.IsSorted(tr.started) {
				t.Errorf("serial ran in the order %v", tr.started)
			}
		})
	}
}

//croft:slow-race
func TestScheduleEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var ran []int
	Serial.run(ctx, 10, 1, func(int) int { return 0 }, func(_ context.Context, i int) {
		ran = append(ran, i)
		if i == 2 {
			cancel()
		}
	})
	if diff := cmp.Diff([]int{0, 1, 2}, ran); diff != "" {
		t.Error(diff)
	}
}

func TestParseSchedule(t *testing.T) {
	if _, err := ParseSchedule("sometimes"); err == nil {
		t.Error("an unknown schedule is taken")
	}
	if s, err := ParseSchedule(""); s != Serial || err != nil {
		t.Errorf("none is %q, %v", s, err)
	}
}
