package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Names in the directory of a workspace, besides those of package plot.
const (
	stageName = "stage" // where a rollback makes ready what is new
)

// guestSection is there while processes may run; see package keep.
const guestSection = wsdir.Section[json.RawMessage]("guest")

// journalsName is a name beside those of workspaces.
const journalsName = ".journals"

// own is what the meta of a workspace keeps for this provider.
type own struct {
	From string `json:"from,omitempty"` // the snapshot that it started with
}

func ownOf(spec driver.Spec) (json.RawMessage, error) {
	if spec.From.Snapshot == "" {
		return nil, nil
	}
	return json.Marshal(own{From: spec.From.Snapshot})
}

// originOf returns the snapshot that a workspace started with; "" is none.
func originOf(m *wsdir.State) string {
	var o own
	if driver.DecodeStrict(m.Own, &o) != nil {
		return "" // it has nothing of its own
	}
	return o.From
}

// fill puts what a new workspace starts with into its directory.
func (p *Provider) fill(ctx context.Context, spec driver.Spec) func(dir string) error {
	if spec.From.Snapshot == "" {
		return nil
	}
	return func(dir string) error {
		tree, m, err := p.snapshots.Whole(ctx, spec.From.Snapshot)
		if err == nil {
			err = m.Permit(spec.ID, spec.Session.ID, spec.From.CrossSession)
		}
		if err != nil {
			return err
		}
		return snapshot.Extract(ctx, tree, filepath.Join(dir, wsdir.FilesName), &snapshot.RestoreOptions{Sync: spec.Policy.Durable})
	}
}

// stage is where a change to the files of a workspace is made ready: beside them,
// or hidden among those of a directory in place, which may be on another file
// system.
func (p *Provider) stage(m *wsdir.State) string {
	if m.Dir != "" {
		return ""
	}
	return p.ground.Path(m.ID, stageName)
}

// journals is where it is written down what is to be done to the files of a
// directory in place, in which others can write.
func (p *Provider) journals() string { return p.ground.Path(journalsName) }

// recover completes a rollback that a process which died had begun.
func (p *Provider) recover(ctx context.Context, m *wsdir.State) error {
	if p.snapshots == nil || m.Policy.ReadOnly {
		return nil
	}
	err := snapshot.Recover(ctx, p.ground.Files(m), p.stage(m), p.journals())
	switch fault.Of(err) {
	case fault.NotFound, fault.InvalidArgument, fault.Unavailable:
		return nil // there is no such directory, which Attach tells, or another process is at it
	}
	return err
}

// keeper gives a workspace the module for snapshots.
func (h *handle) keeper(m *wsdir.State) *snapshot.Adapter {
	return &snapshot.Adapter{
		Store: h.p.snapshots, Provider: Kind, Workspace: m.ID, Session: m.Session, Origin: originOf(m),
		Now: func(context.Context) (snapshot.View, error) {
			if err := h.plot.Current(); err != nil {
				return snapshot.View{}, err
			}
			now := h.plot.State()
			quiet := !guestSection.In(&now) && m.Dir == ""
			return snapshot.View{Tree: snapshot.HostDir(h.p.ground.Files(m), nil), Cache: Kind + ":" + m.ID, Frozen: quiet}, nil
		},
		Rollback: h.become,
	}
}

// become brings the files to what is in a tree.
func (h *handle) become(ctx context.Context, to *snapshot.RollbackTarget) error {
	if err := h.plot.Current(); err != nil {
		return err
	}
	m := h.plot.State()
	if m.Policy.ReadOnly {
		return fmt.Errorf("local: roll back: %w: the workspace is read-only", fault.PermissionDenied)
	}
	stage := h.p.stage(&m)
	if stage != "" {
		if err := os.MkdirAll(stage, 0o700); err != nil {
			return fmt.Errorf("local: roll back: %w: %w", fault.Of(err), err)
		}
	}
	_, err := snapshot.Restore(ctx, to.Tree, h.p.ground.Files(&m), &snapshot.RestoreOptions{Only: to.Paths, Stage: stage, Journals: h.p.journals(), Sync: m.Policy.Durable})
	return err
}
