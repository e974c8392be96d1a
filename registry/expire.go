package registry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/fault"
)

// Expire ends the workspaces that were idle for as long as their policy allows, and
// returns how many. It does not wait for one that takes long. A persistent workspace is closed, any other destroyed.
// Workspaces that are paused, or held by a living registry elsewhere, are left
// alone.
func (r *Registry) Expire(ctx context.Context) (int, error) {
	if err := r.store.Reap(ctx); err != nil {
		return 0, err
	}
	mine, err := r.share(ctx)
	if err != nil {
		return 0, err
	}
	recs, err := r.store.List(ctx, Filter{})
	if err != nil {
		return 0, err
	}
	var ids []string
	for _, rec := range recs {
		if mine.has(rec) && rec.canExpire() && r.isIdle(rec, time.Now()) {
			ids = append(ids, rec.ID)
		}
	}
	var n atomic.Int64
	err = r.background.Each(ctx, "expire", ids, func(ctx context.Context, id string) error {
		done, err := r.expireWorkspace(ctx, id)
		if done {
			n.Add(1)
			countEnded(ctx, "idle")
		}
		if errors.As(err, new(*ElsewhereError)) {
			return nil // another node has claimed it meanwhile
		}
		return err
	})
	return int(n.Load()), err
}

// canExpire reports whether a workspace expires in this state.
func (r Record) canExpire() bool {
	switch {
	case r.Spec.Policy.Idle <= 0, r.State == Paused, r.State == Destroyed:
		return false
	case r.Spec.Policy.Persist:
		return r.State != Closed && r.State != Failed
	}
	return true
}

// isIdle reports whether a workspace was unused for as long as its policy allows.
func (r *Registry) isIdle(rec Record, now time.Time) bool {
	used := rec.LastUsed
	if e, ok := r.liveEntry(rec.ID); ok {
		if last := e.lastUse(); last.After(used) {
			used = last
		}
	}
	return now.Sub(used) >= rec.Spec.Policy.Idle
}

// expireWorkspace ends one workspace, unless it was used meanwhile.
func (r *Registry) expireWorkspace(ctx context.Context, id string) (bool, error) {
	ctx, done, err := r.lockWorkspace(ctx, "expire", id)
	if err != nil {
		return false, err
	}
	defer done()
	rec, err := r.getRecord(ctx, id)
	if fault.Of(err) == fault.NotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e, live := r.liveEntry(id)
	var used int64
	if live {
		used = e.used.Load()
	}
	if !rec.canExpire() || !r.isIdle(rec, time.Now()) || r.isOpening(id) {
		return false, nil
	}
	if live && (used == retired || !e.used.CompareAndSwap(used, retired)) {
		return false, nil
	}
	next := rec.clone()
	if rec.Spec.Policy.Persist {
		next.moveTo(Closed)
	} else {
		next.moveToDestroyed()
	}
	stored, err := r.putRecord(ctx, rec.State, next, func(ctx context.Context, rec Record) (Record, error) {
		return r.store.PutIdle(ctx, rec, r.self.ID)
	})
	if err != nil {
		if live {
			e.used.Store(used)
		}
		if code := fault.Of(err); code == fault.Conflict || code == fault.NotFound {
			return false, nil // it was used or ended meanwhile
		}
		return false, err
	}
	if stored.State == Destroyed {
		return true, r.removeDestroyed(ctx, stored)
	}
	return true, r.retireID(ctx, id)
}

func (r *Registry) isOpening(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.openCalls[id] != nil
}
