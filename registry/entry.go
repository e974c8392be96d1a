package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// An entry is a live handle with its state.
type entry struct {
	id       string
	tenant   string
	want     driver.Capabilities
	ws       *workspace.Workspace
	portable bool         // in a cluster: another node may own the workspace
	revision atomic.Int64 // of the newest ref of the handle

	// used is the time of the last use in nanoseconds, or retired.
	used  atomic.Int64
	ended atomic.Bool

	// failed is set when attaching again failed.
	failed atomic.Pointer[error]

	// pausing is set while Pause works on the workspace: no caller gets the handle, or another one.
	pausing atomic.Bool

	mu      sync.Mutex
	current *driver.Workspace   // guarded by mu; the provider's workspace
	stale   []*driver.Workspace // guarded by mu; evicted ones, closed with the handle
}

// retired is the value of used for a handle that must not be handed out any more.
const retired = -1

// useGrain is the resolution of use times: storing every use would make concurrent
// users contend for a cache line.
const useGrain = int64(time.Millisecond)

// useHandle records a use and returns the handle; ok is false if it is retired. With 0 for now it
// records none.
func (e *entry) useHandle(now int64) (ws *workspace.Workspace, ok bool, err error) {
	for {
		used := e.used.Load()
		if used == retired {
			return nil, false, nil
		}
		if failure := e.failed.Load(); failure != nil {
			return nil, true, *failure
		}
		if e.pausing.Load() {
			return nil, true, pausedError(e.id)
		}
		if now-used < useGrain || e.used.CompareAndSwap(used, now) {
			return e.ws, true, nil
		}
	}
}

// lastUse returns the time of the last use: now while a call is running, and zero
// if the handle is retired.
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

// markUsed records a use, unless the handle is retired.
func (e *entry) markUsed() {
	now := time.Now().UnixNano()
	for {
		used := e.used.Load()
		if used == retired || now-used < useGrain || e.used.CompareAndSwap(used, now) {
			return
		}
	}
}

func (r *Registry) liveEntry(id string) (*entry, bool) {
	v, ok := r.live.Load(id)
	if !ok {
		return nil, false
	}
	return v.(*entry), true
}

// installEntry makes and publishes a handle for a provider's workspace.
func (r *Registry) installEntry(ctx context.Context, rec Record, d *driver.Workspace) (*entry, error) {
	e := &entry{id: rec.ID, tenant: rec.Tenant, want: rec.Spec.Want, current: d, portable: r.replica.serves() && r.isPortable(rec.Kind)}
	used := time.Now()
	if !workspace.IsUse(ctx) {
		used = rec.LastUsed
	}
	e.used.Store(used.UnixNano())
	e.revision.Store(d.Ref.Revision)
	ws, err := workspace.New(rec.ID, d, rec.Spec.Want, &workspace.Options{
		Session: rec.Spec.Session, Log: r.opts.Log, Events: r.opts.Events, Used: e.markUsed, MaxFileSize: r.opts.MaxFileSize,
		Renew: func(ctx context.Context, stale *driver.Workspace) (*driver.Workspace, error) {
			return r.reattach(ctx, e)
		},
		// Other callers may use the same handle; only the registry ends it.
		OnClose: func(context.Context) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	e.ws = ws
	r.live.Store(rec.ID, e)
	return e, nil
}

// retireEntry ends a handle and, with destroy, the workspace. It waits for running
// calls. It is idempotent.
func (r *Registry) retireEntry(ctx context.Context, e *entry, destroy bool) error {
	if e.ended.Load() {
		return nil
	}
	used, err := r.endHandle(ctx, e, destroy)
	return errors.Join(err, r.store.Release(ctx, r.self.ID, map[string]time.Time{e.id: used}))
}

// endHandle is retireEntry without the store; it returns the last use.
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
		err = fmt.Errorf("registry: close the handle of workspace %s: %w", e.id, err)
	}
	e.mu.Lock()
	stale := e.stale
	e.stale = nil
	e.mu.Unlock()
	for _, d := range stale {
		// An error of an evicted workspace is not actionable.
		if err := d.Life.Close(ctx); err != nil {
			r.opts.Log.Debug("close an evicted workspace", "workspace", e.id, "code", fault.Of(err))
		}
	}
	if used == retired {
		return time.Time{}, err
	}
	return timeFromNanos(used), err
}

// retireID ends this registry's handle on a workspace, if it has one.
func (r *Registry) retireID(ctx context.Context, id string) error {
	if e, ok := r.liveEntry(id); ok {
		return r.retireEntry(ctx, e, false)
	}
	return nil
}
