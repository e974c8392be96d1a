package local

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Names in the directory of a workspace, besides those of package wsdir.
const (
	rollbackStageName = "rollback-stage" // new files of a rollback
)

// guestSection exists while processes may run; see package supervise.
const guestSection = wsdir.Section[json.RawMessage]("guest")

// journalsName is the directory of journals, in the root.
const journalsName = ".journals"

// ownState is what this provider records in the state of a workspace.
type ownState struct {
	From    string   `json:"from,omitempty"` // the snapshot that it started with
	Options *Options `json:"options,omitempty"`
}

// Options are the options of a workspace, in Spec.Config.
type Options struct {
	Allow    []string `json:"allow,omitempty"`    // paths outside of the workspace that commands may name, such as a program
	AllowEnv []string `json:"allowEnv,omitempty"` // as Config.AllowEnv
	Writable []string `json:"writable,omitempty"` // with isolation: paths of the host that commands may read and write, too
}

// encodeOwn checks the options of a workspace, and returns what is recorded of it.
func (p *Provider) encodeOwn(spec driver.Spec) (json.RawMessage, error) {
	own := ownState{From: spec.From.Snapshot}
	var opts Options
	if err := driver.DecodeConfig(spec, &opts); err != nil {
		return nil, err
	}
	if len(opts.Allow)+len(opts.AllowEnv)+len(opts.Writable) > 0 {
		own.Options = &opts
	}
	for _, path := range opts.Allow {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			return nil, fmt.Errorf("local: open: option allow: path %q: %w: it must be absolute and clean", path, fault.InvalidArgument)
		}
	}
	if len(opts.Writable) > 0 && !isolated(spec.Policy) {
		return nil, fmt.Errorf("local: open: option writable: %w: without isolation commands can write everywhere", fault.InvalidArgument)
	}
	for _, path := range opts.Writable {
		if _, err := p.store.CheckHostPath(path); err != nil {
			return nil, fmt.Errorf("local: open: option writable: %w", err)
		}
	}
	if own.From == "" && own.Options == nil {
		return nil, nil
	}
	return json.Marshal(own)
}

// optionsOf returns the options of a workspace.
func optionsOf(m *wsdir.State) Options {
	var o ownState
	if driver.DecodeStrict(m.Own, &o) != nil || o.Options == nil {
		return Options{} // nothing was recorded
	}
	return *o.Options
}

// originOf returns the snapshot that a workspace started from, "" if it started empty.
func originOf(m *wsdir.State) string {
	var o ownState
	if driver.DecodeStrict(m.Own, &o) != nil {
		return "" // nothing was recorded
	}
	return o.From
}

// extractOrigin returns a function that extracts the snapshot into the directory of a new
// workspace, nil if it starts empty.
func (p *Provider) extractOrigin(ctx context.Context, spec driver.Spec) func(dir string) error {
	if spec.From.Snapshot == "" {
		return nil
	}
	return func(dir string) error {
		tree, err := p.snapshots.StartFrom(ctx, spec)
		if err != nil {
			return err
		}
		return snapshot.Extract(ctx, tree, filepath.Join(dir, wsdir.FilesName), &snapshot.RestoreOptions{Sync: spec.Policy.Durable})
	}
}

// rollbackStage returns the directory for the new files of a rollback. For a directory in
// place, which may be on another file system, it is "": a hidden directory in it.
func (p *Provider) rollbackStage(m *wsdir.State) string {
	if m.Dir != "" {
		return ""
	}
	return p.store.Path(m.ID, rollbackStageName)
}

// journalsDir returns the directory of the rollback journals of directories in place: other
// programs could change a journal in the directory itself.
func (p *Provider) journalsDir() string { return p.store.Path(journalsName) }

// recoverRollback completes the rollback of a process that died.
func (p *Provider) recoverRollback(ctx context.Context, m *wsdir.State) error {
	if p.snapshots == nil || m.Policy.ReadOnly {
		return nil
	}
	done, err := snapshot.Recover(ctx, p.store.Files(m), p.rollbackStage(m), p.journalsDir())
	for _, r := range done {
		p.log.Warn("local: " + r.String())
	}
	switch fault.Of(err) {
	case fault.NotFound, fault.InvalidArgument, fault.Unavailable:
		return nil // the directory is missing, which Attach reports, or another process rolls back
	}
	return err
}

// snapshotAdapter returns the snapshot adapter of the workspace.
func (h *handle) snapshotAdapter(m *wsdir.State) *snapshot.Adapter {
	return &snapshot.Adapter{
		Store: h.p.snapshots, Provider: Kind, Workspace: m.ID, Session: m.Session, Origin: originOf(m), Dir: m.Real,
		Now: func(context.Context) (snapshot.View, error) {
			if err := h.dir.Current(); err != nil {
				return snapshot.View{}, err
			}
			now := h.dir.State()
			// Without guests another process may run commands that leave no trace in the state.
			quiet := !guestSection.In(&now) && m.Dir == "" && (!h.p.inProcess || h.shell == nil)
			return snapshot.View{Tree: snapshot.HostDir(h.p.store.Files(m), nil), Cache: Kind + ":" + cmp.Or(m.Real, m.ID), Frozen: quiet}, nil // with .git, for forks
		},
		Rollback: h.rollbackTo,
	}
}

// rollbackTo rolls the files back to a snapshot.
func (h *handle) rollbackTo(ctx context.Context, to *snapshot.RollbackTarget) error {
	if err := h.dir.Current(); err != nil {
		return err
	}
	m := h.dir.State()
	if m.Policy.ReadOnly {
		return fmt.Errorf("local: roll back: %w: the workspace is read-only", fault.PermissionDenied)
	}
	stage := h.p.rollbackStage(&m)
	if stage != "" {
		if err := os.MkdirAll(stage, 0o700); err != nil {
			return fmt.Errorf("local: roll back: %w: %w", fault.Of(err), err)
		}
	}
	_, err := snapshot.Restore(ctx, to.Tree, h.p.store.Files(&m), &snapshot.RestoreOptions{Only: to.Paths, Stage: stage, Journals: h.p.journalsDir(), Sync: m.Policy.Durable, NoGit: m.Dir != ""})
	return err
}
