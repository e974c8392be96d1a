package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// An entry is a live handle and what the registry knows of it.
type entry struct {
	id       string
	want     driver.Capabilities
	ws       *workspace.Workspace
	revision atomic.Int64 // of the newest ref that the handle obeys

	// used is when the handle was last asked for, in nanoseconds, or retired.
	used  atomic.Int64
	ended atomic.Bool

	// failed is set when the workspace could not be attached to again.
	failed atomic.Pointer[error]

	mu      sync.Mutex
	current *driver.Workspace   // guarded by mu; what the handle rests on
	stale   []*driver.Workspace // guarded by mu; those that were evicted, closed with the handle
}

// retired is the use of a handle that nobody may be given any more.
const retired = -1

// useGrain is how exactly uses are known: marking every one of them would make
// the users of one workspace fight for a cache line.
const useGrain = int64(time.Millisecond)

// useHandle marks a use and returns the handle; ok is false if it has been retired.
func (e *entry) useHandle(now int64) (ws *workspace.Workspace, ok bool, err error) {
	for {
		used := e.used.Load()
		if used == retired {
			return nil, false, nil
		}
		if failure := e.failed.Load(); failure != nil {
			return nil, true, *failure
		}
		if now-used < useGrain || e.used.CompareAndSwap(used, now) {
			return e.ws, true, nil
		}
	}
}

// lastUse returns when the handle was last used, which is now while a call is
// under way, and zero if it is retired.
func (e *entry) lastUse() time.Time {
	if e.ws.Busy() {
		e.markUsed()
	}
	used := e.used.Load()
	if used == retired {
		return time.Time{}
	}
	return timeFromNanos(used)
}

// markUsed marks a use, unless the handle is retired.
func (e *entry) markUsed() {
	now := time.Now().UnixNano()
	for {
		used := e.used.Load()
		if used == retired || now-used < useGrain || e.used.CompareAndSwap(used, now) {
			return
		}
	}
}

// usage marks a use whenever an operation on the handle ends.
type usage struct {
	event.Sink
	e *entry
}

func (u usage) Emit(ev event.Event) {
	u.e.markUsed()
	u.Sink.Emit(ev)
}

// liveEntry returns the live handle of a workspace.
func (r *Registry) liveEntry(id string) (*entry, bool) {
	v, ok := r.live.Load(id)
	if !ok {
		return nil, false
	}
	return v.(*entry), true
}

// installEntry makes a handle for what a provider returned, for all to find.
func (r *Registry) installEntry(rec Record, d *driver.Workspace) (*entry, error) {
	e := &entry{id: rec.ID, want: rec.Spec.Want, current: d}
	e.used.Store(time.Now().UnixNano())
	e.revision.Store(d.Ref.Revision)
	ws, err := workspace.New(rec.ID, d, rec.Spec.Want, &workspace.Options{
		Session: rec.Spec.Session, Log: r.opts.Log, Events: usage{r.opts.Events, e}, MaxFileSize: r.opts.MaxFileSize,
		Renew: func(ctx context.Context, stale *driver.Workspace) (*driver.Workspace, error) {
			return r.reattach(ctx, e)
		},
		// Others may hold the same handle; it ends when the registry ends it.
		OnClose: func(context.Context) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	e.ws = ws
	r.live.Store(rec.ID, e)
	return e, nil
}

// retireEntry ends a handle: with destroy set the workspace, too. It waits for the
// calls that are under way. Retiring twice is retiring once.
func (r *Registry) retireEntry(ctx context.Context, e *entry, destroy bool) error {
	if e.ended.Load() {
		return nil
	}
	used, err := r.endHandle(ctx, e, destroy)
	return errors.Join(err, r.store.Release(ctx, r.self.ID, map[string]time.Time{e.id: used}))
}

// endHandle is retire without telling the store; it returns the last use.
func (r *Registry) endHandle(ctx context.Context, e *entry, destroy bool) (time.Time, error) {
	if !e.ended.CompareAndSwap(false, true) {
		return time.Time{}, nil
	}
	used := e.used.Swap(retired)
	r.live.CompareAndDelete(e.id, e)
	r.mu.Lock()
	r.openCount--
	r.mu.Unlock()
	end := e.ws.Detach
	if destroy {
		end = e.ws.Destroy
	}
	err := end(ctx)
	if err != nil {
		err = fmt.Errorf("registry: let go of workspace %s: %w", e.id, err)
	}
	e.mu.Lock()
	stale := e.stale
	e.stale = nil
	e.mu.Unlock()
	for _, d := range stale {
		// What was evicted has nothing left to lose; its error helps nobody.
		if err := d.Life.Close(ctx); err != nil {
			r.opts.Log.Debug("close an evicted workspace", "workspace", e.id, "code", fault.Of(err))
		}
	}
	if used == retired {
		return time.Time{}, err
	}
	return timeFromNanos(used), err
}

// retireID ends the handle on a workspace, if this registry has one.
func (r *Registry) retireID(ctx context.Context, id string) error {
	if e, ok := r.liveEntry(id); ok {
		return r.retireEntry(ctx, e, false)
	}
	return nil
}
