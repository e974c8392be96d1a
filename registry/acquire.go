package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

// An openCall is one attempt to open a workspace, shared by concurrent callers
// (singleflight).
type openCall struct {
	done   chan struct{}
	cancel context.CancelFunc
	e      *entry
	err    error

	waiters   int  // guarded by Registry.mu
	abandoned bool // guarded by Registry.mu; all callers left
}

// Acquire returns a live handle on the workspace, and opens or attaches to it if
// necessary. Concurrent calls share one attempt (singleflight), which continues
// while a caller waits for it. The handle is shared: closing it does nothing, and
// it ends when the registry ends it.
//
// A failed workspace returns the error of its failure until Reset. One whose
// provider was unreachable (fault.CauseOutage) is tried again.
func (r *Registry) Acquire(ctx context.Context, id string) (*workspace.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("registry: acquire %s: %w", id, err)
	}
	if err := r.checkTenant(ctx, id); err != nil {
		return nil, err
	}
	e, err := r.acquireEntry(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.ws, nil
}

// checkTenant returns NotFound for a workspace that the context's principal does not see.
// Concurrent callers share one attempt to open, so the check comes before it.
func (r *Registry) checkTenant(ctx context.Context, id string) error {
	if p, ok := auth.From(ctx); !ok || p.Operator() {
		return nil
	}
	if e, ok := r.liveEntry(id); ok && auth.SeesWorkspace(ctx, e.tenant, id) {
		return nil
	}
	_, err := r.getRecord(ctx, id)
	return err
}

func (r *Registry) acquireEntry(ctx context.Context, id string) (*entry, error) {
	for {
		if e, ok := r.liveEntry(id); ok {
			if !r.mayUse(e) {
				if err := r.checkLease(ctx, id); err != nil {
					return nil, err
				}
				continue
			}
			var now int64
			if workspace.IsUse(ctx) {
				now = time.Now().UnixNano()
			}
			if _, ok, err := e.useHandle(now); ok {
				return e, err
			}
		}
		f, member, err := r.joinOpen(ctx, id)
		if err != nil {
			return nil, err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			if member {
				r.leaveOpen(f)
			}
			return nil, fmt.Errorf("registry: acquire %s: %w", id, ctx.Err())
		}
		if member {
			if f.err == nil && workspace.IsUse(ctx) {
				f.e.markUsed() // somebody who only looks on may have begun to open it
			}
			return f.e, f.err
		}
	}
}

// joinOpen joins the open call of a workspace, or starts one. A call that all its
// callers have left can only be waited for: member is false.
func (r *Registry) joinOpen(ctx context.Context, id string) (f *openCall, member bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isDown {
		return nil, false, fmt.Errorf("registry: acquire %s: %w: the registry is shut down", id, fault.Unavailable)
	}
	if f := r.openCalls[id]; f != nil {
		if !f.abandoned {
			f.waiters++
		}
		return f, !f.abandoned, nil
	}
	if r.opts.MaxOpen > 0 && r.openCount >= r.opts.MaxOpen {
		return nil, false, fmt.Errorf("registry: acquire %s: %w: %d workspaces are open, which is the limit of the whole server (caps.maxOpen); wait until one is idle, or destroy one", id, fault.ResourceExhausted, r.openCount)
	}
	ctx, cancel := context.WithTimeout(auth.Without(context.WithoutCancel(ctx)), r.opts.OpenTimeout)
	f = &openCall{done: make(chan struct{}), cancel: cancel, waiters: 1}
	r.openCalls[id] = f
	r.openCount++
	r.wg.Go(func() {
		defer cancel()
		if f.e, f.err = r.openEntry(ctx, id); fault.Of(f.err) == fault.Canceled {
			f.err = r.whyCanceled(ctx, id, f.err)
		}
		r.finishOpen(id, f)
	})
	return f, true, nil
}

// finishOpen publishes the result of an open call.
func (r *Registry) finishOpen(id string, f *openCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.openCalls, id)
	if f.err != nil {
		r.openCount--
	}
	close(f.done)
}

// leaveOpen ends the wait of one caller; the last one cancels the call.
func (r *Registry) leaveOpen(f *openCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.abandoned = true
		f.cancel()
	}
}

// cancelOpen cancels the open call of a workspace, if there is one, and waits for
// its end.
func (r *Registry) cancelOpen(ctx context.Context, id string) error {
	r.mu.Lock()
	f := r.openCalls[id]
	r.mu.Unlock()
	if f == nil {
		return nil
	}
	f.cancel()
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("registry: wait until opening %s has ended: %w", id, ctx.Err())
	}
}

// whyCanceled returns why an open call was canceled: the workspace was destroyed or paused meanwhile. If
// it was not, all callers have left, or it was closed, and the error is err.
func (r *Registry) whyCanceled(ctx context.Context, id string, err error) error {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	rec, why := r.getRecord(ctx, id)
	if why == nil {
		why = rec.checkUsable()
	}
	if why == nil {
		return err
	}
	return why
}

// openEntry opens a workspace, or attaches to it, and returns its entry.
func (r *Registry) openEntry(ctx context.Context, id string) (*entry, error) {
	rec, err := r.getRecord(ctx, id)
	if err != nil {
		return nil, err
	}
	if rec, err = r.afterOutage(ctx, rec); err != nil {
		return nil, err
	}
	if err := rec.checkUsable(); err != nil {
		return nil, err
	}
	_, err = r.mux.Provider(rec.Kind)
	if err == nil && r.opts.Admit != nil {
		err = r.opts.Admit(rec.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("registry: acquire %s: %w", id, err)
	}
	if rec, err = r.claim(ctx, rec); err != nil {
		return nil, err
	}
	if rec, err = r.store.Hold(ctx, id, r.self, r.opts.Lease); err != nil {
		return nil, err
	}
	r.startHeartbeat()
	e, err := r.attachHandle(ctx, rec)
	if err != nil {
		r.releaseHold(ctx, id)
		return nil, err
	}
	return e, nil
}

// outagePause is how long an unreachable workspace fails fast, so that concurrent
// calls do not each wait for all retries.
const outagePause = 2 * time.Second

// afterOutage makes an unreachable workspace eligible for another attempt.
func (r *Registry) afterOutage(ctx context.Context, rec Record) (Record, error) {
	if !rec.isOutage() || time.Since(rec.UpdatedAt) < outagePause {
		return rec, nil
	}
	return r.changeRecord(ctx, rec.ID, func(now *Record) error {
		if !now.isOutage() {
			return errUnchanged
		}
		now.moveTo(Evicted)
		now.Error = nil
		return nil
	})
}

// checkUsable returns an error if a workspace can't be used in this state.
func (r Record) checkUsable() error {
	switch r.State {
	case Destroyed:
		return destroyedError(r.ID)
	case Failed:
		return r.failure()
	case Paused:
		return pausedError(r.label())
	}
	return nil
}

func pausedError(label string) error {
	return fault.WithCause(fmt.Errorf("registry: workspace %s is paused: %w: resume it first", label, fault.WrongState), fault.CausePaused)
}

// attachHandle opens or resolves the workspace and installs a handle. Close and
// Destroy change the record before they look for a handle, and attachHandle reads
// the record after it has installed one, so that neither misses the other.
func (r *Registry) attachHandle(ctx context.Context, rec Record) (*entry, error) {
	for {
		d, settled, err := r.claimAndOpen(ctx, rec)
		if err != nil {
			return nil, err
		}
		e, err := r.installEntry(ctx, settled, d)
		if err != nil {
			return nil, err
		}
		now, err := r.getRecord(ctx, rec.ID)
		if err == nil {
			err = now.checkUsable()
		}
		if err == nil && now.Node != r.replica.Node {
			now, err = r.claim(ctx, now) // an error is the usual case: another node owns it now
		}
		if err == nil && now.State != Closed && now.Ref != nil && now.Ref.Revision == e.revision.Load() {
			return e, nil
		}
		r.discardEntry(ctx, e)
		if err != nil {
			return nil, err
		}
		rec = now
	}
}

// discardEntry ends a handle that came too late. The open call still counts it as
// open.
func (r *Registry) discardEntry(ctx context.Context, e *entry) {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	r.mu.Lock()
	r.openCount++ // retireEntry decrements it
	r.mu.Unlock()
	if err := r.retireEntry(ctx, e, false); err != nil {
		r.opts.Log.Warn("close a workspace handle", "workspace", e.id, "error", err)
	}
}

func (r *Registry) releaseHold(ctx context.Context, id string) {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	if err := r.store.Release(ctx, r.self.ID, map[string]time.Time{id: {}}); err != nil {
		r.opts.Log.Warn("release a workspace", "workspace", id, "error", err)
	}
}

// cleanupContext returns a context for work that must be done although the caller's
// context has ended.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
}
