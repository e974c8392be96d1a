package eval

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
)

// A Schedule says which executions run at the same time.
type Schedule string

// Schedules.
const (
	Serial   Schedule = "serial"
	Parallel Schedule = "parallel"           // any, up to max-parallel
	ByRunner Schedule = "isolated-by-runner" // one per runner, up to max-parallel runners
)

// Schedules lists them.
var Schedules = []Schedule{Serial, Parallel, ByRunner}

// ParseSchedule reads a schedule; "" is serial.
func ParseSchedule(s string) (Schedule, error) {
	if s == "" {
		return Serial, nil
	}
	if !slices.Contains(Schedules, Schedule(s)) {
		var names []string
		for _, k := range Schedules {
			names = append(names, string(k))
		}
		return "", fmt.Errorf("eval: schedule %q: %w: expected one of: %s", s, fault.InvalidArgument, strings.Join(names, ", "))
	}
	return Schedule(s), nil
}

// workers returns how many executions may run at once.
func (s Schedule) workers(maxParallel int) int {
	switch {
	case s == Serial:
		return 1
	case maxParallel > 0:
		return maxParallel
	default:
		return runtime.GOMAXPROCS(0)
	}
}

// run calls do for each execution, in the order of the schedule. queueOf
// returns the queue of an execution, for isolated-by-runner. run returns when all that
// were started have ended. Where ctx ends no further one is started.
func (s Schedule) run(ctx context.Context, n, maxParallel int, queueOf func(i int) int, do func(ctx context.Context, i int)) {
	queues := make([][]int, 0, n)
	if s == ByRunner {
		at := map[int]int{}
		for i := range n {
			l := queueOf(i)
			if _, ok := at[l]; !ok {
				at[l] = len(queues)
				queues = append(queues, nil)
			}
			queues[at[l]] = append(queues[at[l]], i)
		}
	} else {
		for i := range n {
			queues = append(queues, []int{i})
		}
	}
	next := make(chan []int)
	var wg sync.WaitGroup
	for range min(s.workers(maxParallel), len(queues)) {
		wg.Go(func() {
			for queue := range next {
				for _, i := range queue {
					if ctx.Err() == nil {
						do(ctx, i)
					}
				}
			}
		})
	}
	for _, q := range queues {
		select {
		case next <- q:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
}
