package workspace

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// snapshots runs an operation of the snapshot module; what is the one it needs,
// and has says whether that is there.
func (w *Workspace) snapshots(ctx context.Context, v *verb, what string, has func(*driver.Snapshots) bool, call func(context.Context, *driver.Snapshots) error) error {
	return w.do(ctx, v, subject{}, func(ctx context.Context, d *live) error {
		if d.Life.Snapshot == nil || !has(d.Life.Snapshot) {
			return w.lacks(what, d)
		}
		return call(w.watched(ctx, v), d.Life.Snapshot)
	})
}

// progressEvery is how often an operation tells how far it is.
const progressEvery = 500 * time.Millisecond

// watched returns a context under which long work tells the event stream, now and
// then, how far it is.
func (w *Workspace) watched(ctx context.Context, v *verb) context.Context {
	if w.opts.Events == event.Discard || driver.Progress(ctx) != nil {
		return ctx
	}
	var last atomic.Int64
	last.Store(time.Now().UnixNano())
	return driver.WithProgress(ctx, func(files, bytes int64) {
		was, now := last.Load(), time.Now().UnixNano()
		if now-was < int64(progressEvery) || !last.CompareAndSwap(was, now) {
			return
		}
		w.emit(event.Progress, map[string]any{event.FieldVerb: v.name, event.FieldFiles: files, event.FieldBytes: bytes})
	})
}

// Progress returns a context under which work for the workspace that is none of its
// methods, such as to open a fork of it, tells its events how far it is.
func (w *Workspace) Progress(ctx context.Context) context.Context { return w.watched(ctx, verbFork) }

// Snapshot remembers the files as they are. To go on from it elsewhere is to
// open a new workspace with Spec.From.
func (w *Workspace) Snapshot(ctx context.Context, opts *driver.SnapshotOptions) (info driver.SnapshotInfo, err error) {
	err = w.snapshots(ctx, verbSnapshot, "snapshots", func(*driver.Snapshots) bool { return true },
		func(ctx context.Context, s *driver.Snapshots) error {
			info, err = s.Snapshot(ctx, orZero(opts))
			return err
		})
	return info, err
}

// Snapshots lists the snapshots of this workspace or, with opts, of others.
func (w *Workspace) Snapshots(ctx context.Context, opts *driver.ListSnapshotsOptions) (list []driver.SnapshotInfo, err error) {
	err = w.snapshots(ctx, verbSnapshot, "a list of snapshots", func(s *driver.Snapshots) bool { return s.List != nil },
		func(ctx context.Context, s *driver.Snapshots) error {
			list, err = s.List(ctx, orZero(opts))
			return err
		})
	return list, err
}

// SnapshotFiles returns the files of a snapshot, to be read; "" is the workspace as
// it is now.
func (w *Workspace) SnapshotFiles(ctx context.Context, id string, opts *driver.SnapshotAccess) (files *driver.FS, err error) {
	err = w.snapshots(ctx, verbSnapshot, "the files of snapshots", func(s *driver.Snapshots) bool { return s.Files != nil },
		func(ctx context.Context, s *driver.Snapshots) error {
			files, err = s.Files(ctx, id, orZero(opts))
			return err
		})
	return files, err
}

// DeleteSnapshot forgets a snapshot.
func (w *Workspace) DeleteSnapshot(ctx context.Context, id string, opts *driver.SnapshotAccess) error {
	return w.snapshots(ctx, verbSnapshot, "deleting snapshots", func(s *driver.Snapshots) bool { return s.Delete != nil },
		func(ctx context.Context, s *driver.Snapshots) error { return s.Delete(ctx, id, orZero(opts)) })
}

// Rollback returns the workspace to a snapshot in place. It first takes a
// snapshot of what is there and returns that one.
func (w *Workspace) Rollback(ctx context.Context, id string, opts *driver.SnapshotAccess) (before driver.SnapshotInfo, err error) {
	err = w.snapshots(ctx, verbRollback, "rolling back", func(s *driver.Snapshots) bool { return s.Rollback != nil },
		func(ctx context.Context, s *driver.Snapshots) error {
			before, err = s.Rollback(ctx, id, orZero(opts))
			return err
		})
	return before, err
}

// Accept brings the workspace, in place, to what files hold, which differs from
// what is there at the given paths alone: all of it, or nothing. It first takes a
// snapshot, with opts, of what is there, and returns that one.
func (w *Workspace) Accept(ctx context.Context, files *driver.FS, paths []string, opts *driver.SnapshotOptions) (before driver.SnapshotInfo, err error) {
	err = w.snapshots(ctx, verbRollback, "accepting changes", func(s *driver.Snapshots) bool { return s.Accept != nil },
		func(ctx context.Context, s *driver.Snapshots) error {
			before, err = s.Accept(ctx, files, paths, orZero(opts))
			return err
		})
	return before, err
}

// Seal turns the files of a workspace in which nothing runs into an immutable
// layer that any number of workspaces start from.
func (w *Workspace) Seal(ctx context.Context, opts *driver.SnapshotOptions) (info driver.SnapshotInfo, err error) {
	err = w.snapshots(ctx, verbSnapshot, "sealing", func(s *driver.Snapshots) bool { return s.Seal != nil },
		func(ctx context.Context, s *driver.Snapshots) error {
			info, err = s.Seal(ctx, orZero(opts))
			return err
		})
	return info, err
}

// Checkpoint remembers processes and memory, too.
func (w *Workspace) Checkpoint(ctx context.Context, opts *driver.SnapshotOptions) (info driver.SnapshotInfo, err error) {
	can := func(s *driver.Snapshots) bool { return s.Checkpoint != nil || s.NoCheckpoint != "" }
	err = w.snapshots(ctx, verbSnapshot, "checkpoints", can,
		func(ctx context.Context, s *driver.Snapshots) error {
			if s.Checkpoint == nil {
				return fmt.Errorf("workspace %s: checkpoints: %w: %s", w.id, fault.Unsupported, s.NoCheckpoint)
			}
			info, err = s.Checkpoint(ctx, orZero(opts))
			return err
		})
	return info, err
}
