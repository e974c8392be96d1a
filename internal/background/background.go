// Package background runs the periodic work of a server so that a part which hangs stops no
// other part: each part has a time limit, and one that exceeds it is logged and listed.
package background

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

const (
	// slots is the number of workspaces that one call of Each works on at a time.
	slots = 16
	// slotTime is how long work on a workspace keeps its slot. Slower work continues without
	// one, so that workspaces which hang delay the others by this time at most.
	slotTime = 2 * time.Second
	// WorkTime limits the work on one workspace. After work that exceeded it, as long passes
	// before it is tried again.
	WorkTime = time.Minute
)

// A Stall is work that exceeded its time limit and did not succeed since.
type Stall struct {
	Task      string
	Workspace string // "" is the task itself
	Since     time.Time
}

// A Tracker knows what work runs. It is safe for concurrent use.
type Tracker struct {
	log  *slog.Logger
	base context.Context // ends the work on workspaces

	mu   sync.Mutex
	work map[key]*work // guarded by mu; what runs, and what stalled
	wg   sync.WaitGroup
}

type key struct{ task, workspace string }

type work struct {
	since   time.Time // of the first attempt that did not succeed
	running bool
	late    bool      // this attempt is over its limit
	stalled bool      // this attempt or an earlier one
	retry   time.Time // not before
}

// New returns a tracker that logs what stalls. The end of ctx ends the work on workspaces.
func New(ctx context.Context, log *slog.Logger) *Tracker {
	return &Tracker{log: log, base: ctx, work: map[key]*work{}}
}

// Stalls lists what stalls, by task and workspace.
func (t *Tracker) Stalls() []Stall {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Stall
	for k, w := range t.work {
		if w.stalled {
			out = append(out, Stall{k.task, k.workspace, w.since})
		}
	}
	slices.SortFunc(out, func(a, b Stall) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Workspace, b.Workspace))
	})
	return out
}

// Do does one round of a task. The context of f ends after the limit; a round that does not
// return then is listed as stalled, and Do waits for it.
func (t *Tracker) Do(ctx context.Context, task string, limit time.Duration, f func(context.Context) error) error {
	k := key{task: task}
	if !t.begin(k) {
		return nil
	}
	return t.run(ctx, k, limit, f)
}

// Each calls f for each workspace, some at a time, and returns when each call has ended or takes
// long. Such a call continues until its time limit, also after ctx ends, and its error is logged. A
// workspace on which an earlier call still works is left out. The stalls of the task on other
// workspaces are forgotten.
func (t *Tracker) Each(ctx context.Context, task string, ids []string, f func(ctx context.Context, id string) error) error {
	t.forgetOthers(task, ids)
	free := make(chan struct{}, slots)
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for _, id := range ids {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			wg.Wait()
			return errors.Join(append(errs, ctx.Err())...)
		}
		k := key{task, id}
		if !t.begin(k) {
			<-free
			continue
		}
		done, left := make(chan error), make(chan struct{})
		t.wg.Go(func() {
			ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
			defer cancel(nil)
			defer context.AfterFunc(t.base, func() { cancel(context.Cause(t.base)) })()
			err := t.run(ctx, k, WorkTime, func(ctx context.Context) error { return f(ctx, id) })
			select {
			case done <- err:
			case <-left:
				if err != nil && ctx.Err() == nil {
					t.log.Warn("background work", "task", task, "workspace", id, "error", err)
				}
			}
		})
		wg.Go(func() {
			defer func() { <-free }()
			slow := time.NewTimer(slotTime)
			defer slow.Stop()
			select {
			case err := <-done:
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			case <-slow.C:
				close(left)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// forgetOthers forgets stalls on workspaces that are not in ids: they need no work any more.
func (t *Tracker) forgetOthers(task string, ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, w := range t.work {
		if k.task == task && k.workspace != "" && !w.running && !slices.Contains(ids, k.workspace) {
			delete(t.work, k)
		}
	}
}

// begin registers work, unless it runs already or is not to be tried yet.
func (t *Tracker) begin(k key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.work[k]
	if w == nil {
		w = &work{since: time.Now()}
		t.work[k] = w
	}
	if w.running || time.Now().Before(w.retry) {
		return false
	}
	w.running, w.late = true, false
	return true
}

func (t *Tracker) run(ctx context.Context, k key, limit time.Duration, f func(context.Context) error) (err error) {
	over := fmt.Errorf("%w: background work (%s) took longer than %v", fault.DeadlineExceeded, k.task, limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, over)
	defer cancel()
	late := time.AfterFunc(limit, func() { t.stall(k, limit) })
	defer func() {
		late.Stop()
		if err != nil && errors.Is(context.Cause(ctx), over) {
			t.stall(k, limit)
		}
		t.end(k, err)
	}()
	return f(ctx)
}

func (t *Tracker) stall(k key, limit time.Duration) {
	t.mu.Lock()
	w := t.work[k]
	if w == nil || !w.running || w.late {
		t.mu.Unlock()
		return
	}
	w.stalled, w.late = true, true
	since := w.since
	t.mu.Unlock()
	t.log.Error("background work stalls", "task", k.task, "workspace", k.workspace, "limit", limit, "since", since)
}

// end forgets work, unless it stalled and failed.
func (t *Tracker) end(k key, err error) {
	t.mu.Lock()
	w := t.work[k]
	w.running = false
	stalled := w.stalled
	if err == nil || !stalled {
		delete(t.work, k)
	} else if k.workspace != "" {
		w.retry = time.Now().Add(WorkTime)
	}
	t.mu.Unlock()
	if stalled && err == nil {
		t.log.Info("background work that stalled has ended", "task", k.task, "workspace", k.workspace)
	}
}

// Wait waits for the work on workspaces, which the caller has ended, until ctx ends.
func (t *Tracker) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends with the work
		t.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
