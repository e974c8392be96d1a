package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/posix/boundary"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Files that a mount shows are rolled back through it, one after another, while
// all that runs there stands still. Beforehand a journal, in the directory of the
// workspace, where nothing inside reaches it, says where the way leads; it is
// locked while someone is on it. Whoever next meets the guest and finds it without
// an owner goes the rest of the way before anything else.

const rollbackName = "rollback" // the journal

// A rollback is what the journal says.
type rollback struct {
	Target string `json:"target"`
	Before string `json:"before"` // where the target is gone
}

// rollback brings files that a mount shows to another state.
func (h *handle) rollback(ctx context.Context, to *snapshot.Return) error {
	g, err := h.guest(ctx)
	if err != nil {
		return err
	}
	path := h.p.ground.Path(h.id, rollbackName)
	lock, err := beginRollback(path, &rollback{Target: to.Target, Before: to.Before})
	if err != nil {
		return fmt.Errorf("sandbox: roll back: %w: %w", fault.Of(err), err)
	}
	defer lock.Close()
	driver.Step(ctx, "journal")
	_, done, err := h.hold(ctx)
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	if done != nil {
		defer done()
	}
	// From here on there is no way back, whatever the context says.
	if err := h.write(context.WithoutCancel(ctx), g, to.Tree, to.Paths); err != nil {
		return err // the journal stays, for who comes next
	}
	driver.Step(ctx, "written")
	return os.Remove(path)
}

// beginRollback writes the journal and locks it. One that another left is replaced:
// who is here has completed it.
func beginRollback(path string, r *rollback) (*os.File, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%w: another rollback is under way", fault.Conflict)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// completeRollback goes the rest of a way that a process which died was on. The
// lock of the guest is held.
func (h *handle) completeRollback(ctx context.Context, g *live) error {
	path := h.p.ground.Path(h.id, rollbackName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil //nolint:nilerr // its owner lives
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	var r rollback
	if err := driver.DecodeStrict(data, &r); err != nil {
		return fmt.Errorf("sandbox: complete a rollback: its journal is not valid: %w", fault.Failed)
	}
	tree, _, err := h.p.cfg.Snapshots.Whole(ctx, r.Target)
	if fault.Of(err) == fault.NotFound {
		tree, _, err = h.p.cfg.Snapshots.Whole(ctx, r.Before)
	}
	var s still
	if err == nil {
		s, err = h.holdLocked(ctx)
	}
	if err == nil {
		err = h.write(ctx, g, tree, nil)
		h.letGoLocked(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("sandbox: complete a rollback to %s that was cut short: %w", r.Target, err)
	}
	h.p.log.Info("sandbox: a rollback that was cut short is complete", "workspace", h.id, "snapshot", r.Target)
	return os.Remove(path)
}

// write brings what a mount shows to what is in a tree, exactly.
func (h *handle) write(ctx context.Context, g *live, t snapshot.Tree, paths []string) error {
	if g.root == nil { // in place: what must not be changed is held by the guest's mounts
		return snapshot.Write(ctx, t, g.Changes(h.plot.Direct()), &snapshot.WriteOptions{Only: paths})
	}
	root, err := g.root.With(&boundary.Options{Sync: h.plot.Meta().Policy.Durable, Exact: true})
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written through the descriptor
	files := root.Module()
	if h.p.ids.root {
		files = guest.AsUser(files, h.p.ids.base+workloadUID)
	}
	return snapshot.Write(ctx, t, files, &snapshot.WriteOptions{Only: paths, Exact: true})
}
