package history

import (
	"context"
	"fmt"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Labels and causes of the snapshots that this package takes.
const (
	StepLabel       = "croft.step" // description of the step
	CauseCheckpoint = "checkpoint"
	CauseStart      = "start"  // before the first step
	CauseOpened     = "opened" // of a directory in place, when work in it began

	causeRollback = "rollback"
	targetLabel   = "croft.target"
)

// A State is a former state of a workspace.
type State struct {
	driver.SnapshotInfo
	Parent *State // nil if unknown
}

// A Record is the states of a workspace.
type Record struct {
	States  []*State // oldest first
	Current *State   // the latest known state; nil if there is none
	tip     *State   // the state before the first rollback; nil if a new state was added since
}

// Load reads the record of a workspace. If the workspace started from a snapshot,
// that is the first state.
func Load(ctx context.Context, ws *workspace.Workspace) (*Record, error) {
	list, err := ws.Snapshots(ctx, &driver.ListSnapshotsOptions{Origin: true})
	if err != nil {
		return nil, err
	}
	if at := len(list) - 1; at >= 0 && list[at].Workspace != ws.ID() {
		// Its labels in the other workspace, such as the state before a rollback
		// there, do not apply here.
		list[at].Labels = map[string]string{snapshot.CauseLabel: CauseStart}
	}
	return NewRecord(list), nil
}

// NewRecord orders the snapshots of one workspace, given newest first. A snapshot
// taken before a rollback is a state only if it differs from the previous one.
func NewRecord(list []driver.SnapshotInfo) *Record {
	r := &Record{}
	byID := map[string]*State{}
	add := func(info driver.SnapshotInfo) *State {
		s := &State{info, r.Current}
		r.States = append(r.States, s)
		return s
	}
	for _, info := range slices.Backward(list) {
		if info.Labels[snapshot.CauseLabel] == snapshot.CauseTarget {
			continue
		}
		if info.Labels[snapshot.CauseLabel] != causeRollback {
			r.Current, r.tip = add(info), nil
			byID[info.ID] = r.Current
			continue
		}
		from := r.Current
		if from == nil || from.Digest != info.Digest {
			from = add(info)
		}
		byID[info.ID] = from
		if r.tip == nil {
			r.tip = from
		}
		r.Current = byID[info.Labels[targetLabel]]
	}
	return r
}

// undoTarget returns the newest state before the current files, which have the
// given digest.
func (r *Record) undoTarget(digest string) *State {
	s := r.Current
	for s != nil && s.Digest == digest {
		s = s.Parent
	}
	return s
}

// redoTarget returns the next state toward the one before the first rollback.
func (r *Record) redoTarget(digest string) *State {
	if r.tip == nil || r.Current == nil || r.Current.Digest != digest {
		return nil
	}
	var next *State
	for s := r.tip; s != r.Current; s = s.Parent {
		switch {
		case s == nil && r.tip.Digest != digest:
			return r.tip // on another branch
		case s == nil:
			return nil
		case s.Digest != digest:
			next = s
		}
	}
	return next
}

// A Move is the result of Undo or Redo.
type Move struct {
	To     driver.SnapshotInfo `json:"to"`     // the new state
	Before driver.SnapshotInfo `json:"before"` // the old state

	Changed []string `json:"changed"` // paths
}

// Undo rolls a workspace back to the state before the current one.
func Undo(ctx context.Context, ws *workspace.Workspace) (Move, error) {
	return moveTo(ctx, ws, "undo", (*Record).undoTarget, "no snapshot or checkpoint has an earlier state that differs from the current files")
}

// Redo reverts the last Undo. If anything changed since, there is nothing to redo.
func Redo(ctx context.Context, ws *workspace.Workspace) (Move, error) {
	return moveTo(ctx, ws, "redo", (*Record).redoTarget, "nothing was undone, or the files changed since")
}

func moveTo(ctx context.Context, ws *workspace.Workspace, verb string, choose func(*Record, string) *State, otherwise string) (Move, error) {
	r, err := Load(ctx, ws)
	if err != nil {
		return Move{}, err
	}
	digest, err := currentDigest(ctx, ws)
	if err != nil {
		return Move{}, err
	}
	to := choose(r, digest)
	if to == nil {
		return Move{}, fault.WithHint(fmt.Errorf("%s: %w: %s", verb, fault.NotFound, otherwise), fault.HintSnapshot)
	}
	before, err := ws.Rollback(ctx, to.ID, nil)
	if err != nil {
		return Move{}, err
	}
	m := Move{To: to.SnapshotInfo, Before: before}
	m.Changed, err = changedPaths(ctx, ws, before.ID, to.ID)
	return m, err
}

// changedPaths returns the paths that differ between two snapshots.
func changedPaths(ctx context.Context, ws *workspace.Workspace, from, to string) ([]string, error) {
	a, err := Tree(ctx, ws, from, nil)
	if err != nil {
		return nil, err
	}
	b, err := Tree(ctx, ws, to, nil)
	if err != nil {
		return nil, err
	}
	d, err := snapshot.Diff(ctx, a, b, &snapshot.DiffOptions{NoGit: true, NoRenames: true})
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, c := range d.Changes {
		out = append(out, c.Path)
	}
	return out, nil
}

// currentDigest returns the digest of the current files.
func currentDigest(ctx context.Context, ws *workspace.Workspace) (string, error) {
	info, err := ws.Snapshot(ctx, &driver.SnapshotOptions{Labels: map[string]string{snapshot.CauseLabel: "look"}})
	if err != nil {
		return "", err
	}
	return info.Digest, ws.DeleteSnapshot(ctx, info.ID, nil)
}
