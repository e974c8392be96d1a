package remote

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// FindOrigin finds the snapshot that a new workspace starts from; nil for one that starts
// empty, or that exists, even if the snapshot was deleted.
func (p *Provider) FindOrigin(ctx context.Context, spec driver.Spec) (snapshot.Tree, error) {
	if spec.From.Snapshot == "" {
		return nil, nil
	}
	if m, err := p.Store.Read(spec.ID); err == nil && made.In(m) {
		return nil, nil
	}
	tree, err := p.Snapshots.StartFrom(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: open: %w", p.Kind, err)
	}
	return tree, nil
}

// originOf returns the snapshot that a workspace started from: the field "from" of the
// provider's part of the state.
func originOf(m *wsdir.State) string {
	var own struct {
		From string `json:"from"`
	}
	if json.Unmarshal(m.Own, &own) != nil {
		return ""
	}
	return own.From
}

// snapshotAdapter returns the snapshot adapter of the workspace.
func (h *handle) snapshotAdapter(m *wsdir.State) *snapshot.Adapter {
	return &snapshot.Adapter{
		Store: h.p.Snapshots, Provider: h.p.Kind, Workspace: m.ID, Session: m.Session, Origin: originOf(m),
		Now: func(ctx context.Context) (snapshot.View, error) {
			files, err := h.filesModule(ctx)
			if err != nil {
				return snapshot.View{}, err
			}
			return snapshot.View{Tree: snapshot.Files(files)}, nil // not frozen: nothing stops the processes there
		},
		Rollback: h.rollbackTo,
	}
}

const rollbackName = "rollback" // the journal of a rollback

// rollbackTo rolls the files back to a snapshot one by one, with a journal. The next process
// that connects completes an interrupted rollback.
func (h *handle) rollbackTo(ctx context.Context, to *snapshot.RollbackTarget) error {
	files, err := h.filesModule(ctx)
	if err != nil {
		return err
	}
	if h.dir.State().Policy.ReadOnly {
		return fmt.Errorf("%s: roll back: %w: the workspace is read-only", h.p.Kind, fault.PermissionDenied)
	}
	if err := snapshot.RollBackFiles(ctx, h.p.Store.Path(h.id, rollbackName), to, files); err != nil {
		return fmt.Errorf("%s: roll back: %w", h.p.Kind, err)
	}
	return nil
}

// completeRollback completes the rollback of a process that died. It requires the guest
// lock.
func (h *handle) completeRollback(ctx context.Context, c *guest.Client) error {
	target, err := snapshot.CompleteRollback(ctx, h.p.Store.Path(h.id, rollbackName), h.p.Snapshots, c.Files())
	if err != nil {
		return fmt.Errorf("%s: %w", h.p.Kind, err)
	}
	if target != "" {
		h.p.Store.Log().Info(h.p.Kind+": an interrupted rollback was completed", "workspace", h.id, "snapshot", target)
	}
	return nil
}
