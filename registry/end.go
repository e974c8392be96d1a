package registry

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
)

// maxAnnotations bounds the keys and values of a workspace's annotations, in bytes.
const maxAnnotations = 64 << 10

func (a Attributes) check() error {
	if a.OnEnd != DestroyOnEnd && a.OnEnd != PauseOnEnd {
		return fmt.Errorf("on end %q: %w: must be empty or %q", a.OnEnd, fault.InvalidArgument, PauseOnEnd)
	}
	size := 0
	for key, value := range a.Annotations {
		size += len(key) + len(value)
	}
	if size > maxAnnotations {
		return fmt.Errorf("annotations of %d bytes: %w: at most %d are allowed", size, fault.InvalidArgument, maxAnnotations)
	}
	return nil
}

// hasEnded reports whether the workspace's EndAt is not after now.
func (r Record) hasEnded(now time.Time) bool { return !r.EndAt.IsZero() && !r.EndAt.After(now) }

// EndDue ends every workspace whose EndAt has passed, and returns how many. It does not wait for
// one that takes long.
func (r *Registry) EndDue(ctx context.Context) (int, error) {
	ctx = auth.Without(ctx)
	recs, err := r.store.List(ctx, Filter{Ended: time.Now()})
	if err != nil {
		return 0, err
	}
	if len(recs) == 0 {
		return 0, r.background.Each(ctx, "end", nil, nil)
	}
	mine, err := r.share(ctx)
	if err != nil {
		return 0, err
	}
	due := map[string]Record{}
	var ids []string
	for _, rec := range recs {
		if mine.has(rec) {
			due[rec.ID], ids = rec, append(ids, rec.ID)
		}
	}
	var n atomic.Int64
	err = r.background.Each(ctx, "end", ids, func(ctx context.Context, id string) error {
		rec := due[id]
		done, err := r.endWorkspace(ctx, rec)
		if done {
			n.Add(1)
			countEnded(ctx, "end")
		}
		if err == nil || errors.As(err, new(*ElsewhereError)) {
			return nil
		}
		return fmt.Errorf("registry: end workspace %s: %w", rec.label(), err)
	})
	return int(n.Load()), err
}

// endWorkspace pauses or destroys a workspace, unless its EndAt was moved meanwhile.
func (r *Registry) endWorkspace(ctx context.Context, seen Record) (bool, error) {
	if seen.OnEnd == PauseOnEnd && (seen.State == Ready || seen.State == Evicted) {
		done, err := r.pauseEnded(ctx, seen)
		if fault.Of(err) != fault.Unsupported {
			return done, err
		}
		// Destroying what was to be kept would lose files: without pause it is closed.
		if err := r.Close(ctx, seen.ID); err != nil {
			return false, err
		}
	}
	if seen.OnEnd == PauseOnEnd {
		_, err := r.SetAttributes(ctx, seen.ID, clearEnd)
		return err == nil, err
	}
	// A change that hangs does not keep the workspace from its end, unless that was moved.
	if now, err := r.getRecord(ctx, seen.ID); err == nil && !now.hasEnded(time.Now()) {
		return false, nil
	}
	ctx, unlock, err := r.lockToDestroy(ctx, seen.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	moved := false
	rec, err := r.changeRecord(ctx, seen.ID, func(rec *Record) error {
		if moved = !rec.hasEnded(time.Now()) || rec.OnEnd != seen.OnEnd; moved {
			return errUnchanged
		}
		if _, err := r.mux.Provider(rec.Kind); err != nil {
			return err
		}
		rec.moveToDestroyed()
		return nil
	})
	if moved || fault.Of(err) == fault.NotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.removeDestroyed(ctx, rec)
}

// pauseEnded pauses a workspace and clears its end. A workspace whose end was moved
// while it was being paused is resumed.
func (r *Registry) pauseEnded(ctx context.Context, seen Record) (bool, error) {
	if err := r.Pause(ctx, seen.ID); err != nil {
		return false, err
	}
	moved := false
	_, err := r.SetAttributes(ctx, seen.ID, func(a *Attributes) error {
		if moved = !a.EndAt.Equal(seen.EndAt); moved {
			return errUnchanged
		}
		return clearEnd(a)
	})
	if err == nil && moved {
		return false, r.Resume(ctx, seen.ID)
	}
	return err == nil, err
}

func clearEnd(a *Attributes) error {
	a.EndAt = time.Time{}
	return nil
}
