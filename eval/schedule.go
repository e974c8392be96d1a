package eval

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
)

// A Schedule says which executions run at the same time.
type Schedule string

// Schedules.
const (
	Serial   Schedule = "serial"
	Parallel Schedule = "parallel"           // any executions, up to max-parallel
	ByRunner Schedule = "isolated-by-runner" // one per runner, up to max-parallel runners
)

// ParseSchedule reads a schedule; "" is serial.
func ParseSchedule(s string) (Schedule, error) {
	if s == "" {
		return Serial, nil
	}
	if !slices.Contains(suite.Schedules, s) {
		return "", fmt.Errorf("eval: schedule %q: %w: expected one of: %s", s, fault.InvalidArgument, strings.Join(suite.Schedules, ", "))
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

// run calls do for each execution, in the order of the schedule. queueOf returns the
// queue of an execution, for isolated-by-runner. run returns when all started executions
// have ended. After the end of ctx no execution is started.
func (s Schedule) run(ctx context.Context, n, maxParallel int, queueOf func(i int) int, do func(ctx context.Context, i int)) {
	var queues [][]int
	at := map[int]int{}
	for i := range n {
		key := i
		if s == ByRunner {
			key = queueOf(i)
		}
		if _, ok := at[key]; !ok {
			at[key] = len(queues)
			queues = append(queues, nil)
		}
		queues[at[key]] = append(queues[at[key]], i)
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
