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

// callSnapshots runs an operation of the snapshot module. what names the function for
// errors, and has reports whether the module has it.
func (w *Workspace) callSnapshots(ctx context.Context, v *verb, what string, has func(*driver.Snapshots) bool, call func(context.Context, *driver.Snapshots) error) error {
	return w.call(ctx, v, subject{}, func(ctx context.Context, d *live) error {
		if d.Life.Snapshot == nil || !has(d.Life.Snapshot) {
			return w.unsupported(what, d)
		}
		return call(w.withProgressEvents(ctx, v), d.Life.Snapshot)
	})
}

// progressEvery is the interval of progress events.
const progressEvery = 500 * time.Millisecond

// withProgressEvents returns a context under which long work emits progress events.
func (w *Workspace) withProgressEvents(ctx context.Context, v *verb) context.Context {
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

// Progress returns a context under which work for the workspace that is not one of
// its methods, such as opening a fork, emits progress events.
func (w *Workspace) Progress(ctx context.Context) context.Context {
	return w.withProgressEvents(ctx, verbFork)
}

// checkSnapshotOptions checks the name of a new snapshot.
func checkSnapshotOptions(opts *driver.SnapshotOptions) (*driver.SnapshotOptions, error) {
	if opts = orZero(opts); opts.Name != "" && !driver.ValidSnapshotName(opts.Name) {
		err := fmt.Errorf("snapshot name %.200q: %w: a name has 1 to 128 letters, digits, '_', '-' and '.', does not begin with '.', "+
			"and has not the form of an id (%d of [a-z0-9])", opts.Name, fault.InvalidArgument, driver.IDLength)
		return nil, fault.Advise(err, "choose another name, such as before-tests")
	}
	return opts, nil
}

// Snapshot stores the present files. To continue from the snapshot elsewhere, open a
// new workspace with Spec.From.
func (w *Workspace) Snapshot(ctx context.Context, opts *driver.SnapshotOptions) (info driver.SnapshotInfo, err error) {
	if opts, err = checkSnapshotOptions(opts); err != nil {
		return info, err
	}
	err = w.callSnapshots(ctx, verbSnapshot, "snapshots", func(*driver.Snapshots) bool { return true },
		func(ctx context.Context, s *driver.Snapshots) error {
			info, err = s.Snapshot(ctx, opts)
			return err
		})
	return info, err
}

// Snapshots lists the snapshots of this workspace or, with opts, of others.
func (w *Workspace) Snapshots(ctx context.Context, opts *driver.ListSnapshotsOptions) (list []driver.SnapshotInfo, err error) {
	err = w.callSnapshots(ctx, verbSnapshots, "a list of snapshots", func(s *driver.Snapshots) bool { return s.List != nil },
		func(ctx context.Context, s *driver.Snapshots) error {
			list, err = s.List(ctx, orZero(opts))
			return err
		})
	return list, err
}

// SnapshotFiles returns the files of a snapshot, read-only; "" is the present state
// of the workspace.
func (w *Workspace) SnapshotFiles(ctx context.Context, id string, opts *driver.SnapshotAccess) (files *driver.FS, err error) {
	err = w.callSnapshots(ctx, verbSnapshots, "the files of snapshots", func(s *driver.Snapshots) bool { return s.Files != nil },
		func(ctx context.Context, s *driver.Snapshots) error {
			files, err = s.Files(ctx, id, orZero(opts))
			return err
		})
	return files, err
}

// DeleteSnapshot removes a snapshot.
func (w *Workspace) DeleteSnapshot(ctx context.Context, id string, opts *driver.SnapshotAccess) error {
	return w.callSnapshots(ctx, verbSnapshot, "deleting snapshots", func(s *driver.Snapshots) bool { return s.Delete != nil },
		func(ctx context.Context, s *driver.Snapshots) error { return s.Delete(ctx, id, orZero(opts)) })
}

// Rollback returns the workspace to a snapshot in place. Before that it takes a
// snapshot of the present state, and returns that snapshot.
func (w *Workspace) Rollback(ctx context.Context, id string, opts *driver.SnapshotAccess) (before driver.SnapshotInfo, err error) {
	err = w.callSnapshots(ctx, verbRollback, "rolling back", func(s *driver.Snapshots) bool { return s.Rollback != nil },
		func(ctx context.Context, s *driver.Snapshots) error {
			before, err = s.Rollback(ctx, id, orZero(opts))
			return err
		})
	return before, err
}

// Accept brings the workspace, in place, to the state of files, which differs from
// the present state only at the given paths. It is all or nothing. It first takes a
// snapshot of the present state, with opts, and returns that snapshot.
func (w *Workspace) Accept(ctx context.Context, files *driver.FS, paths []string, opts *driver.SnapshotOptions) (before driver.SnapshotInfo, err error) {
	if opts, err = checkSnapshotOptions(opts); err != nil {
		return before, err
	}
	err = w.callSnapshots(ctx, verbRollback, "accepting changes", func(s *driver.Snapshots) bool { return s.Accept != nil },
		func(ctx context.Context, s *driver.Snapshots) error {
			before, err = s.Accept(ctx, files, paths, opts)
			return err
		})
	return before, err
}

// Seal turns the files of a workspace without running processes into an immutable
// layer from which any number of workspaces start.
func (w *Workspace) Seal(ctx context.Context, opts *driver.SnapshotOptions) (info driver.SnapshotInfo, err error) {
	if opts, err = checkSnapshotOptions(opts); err != nil {
		return info, err
	}
	err = w.callSnapshots(ctx, verbSnapshot, "sealing", func(s *driver.Snapshots) bool { return s.Seal != nil },
		func(ctx context.Context, s *driver.Snapshots) error {
			info, err = s.Seal(ctx, opts)
			return err
		})
	return info, err
}

// Checkpoint stores processes and memory, too.
func (w *Workspace) Checkpoint(ctx context.Context, opts *driver.SnapshotOptions) (info driver.SnapshotInfo, err error) {
	if opts, err = checkSnapshotOptions(opts); err != nil {
		return info, err
	}
	can := func(s *driver.Snapshots) bool { return s.Checkpoint != nil || s.NoCheckpoint != "" }
	err = w.callSnapshots(ctx, verbSnapshot, "checkpoints", can,
		func(ctx context.Context, s *driver.Snapshots) error {
			if s.Checkpoint == nil {
				return fmt.Errorf("checkpoints: %w: %s", fault.Unsupported, s.NoCheckpoint)
			}
			info, err = s.Checkpoint(ctx, opts)
			return err
		})
	return info, err
}
