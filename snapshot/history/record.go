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
	StepLabel       = "croft.step" // what was done
	CauseCheckpoint = "checkpoint"
	CauseStart      = "start" // before the first step

	causeRollback = "rollback"
	targetLabel   = "croft.target"
)

// A State is one that a workspace had.
type State struct {
	driver.SnapshotInfo
	Parent *State // what it came from; nil where that is not known
}

// A Record is the states of a workspace.
type Record struct {
	States  []*State // the oldest first
	Current *State   // where the workspace was last, as far as is known; nil is nowhere
	tip     *State   // where it was before somebody went back; nil where it went on since
}

// Load reads the record of a workspace. What it started from, where that is a
// snapshot, is its first state.
func Load(ctx context.Context, ws *workspace.Workspace) (*Record, error) {
	list, err := ws.Snapshots(ctx, &driver.ListSnapshotsOptions{Origin: true})
	if err != nil {
		return nil, err
	}
	if at := len(list) - 1; at >= 0 && list[at].Workspace != ws.ID() {
		// What it was in the other workspace, such as the state before a rollback
		// there, does not count here.
		list[at].Labels = map[string]string{snapshot.CauseLabel: CauseStart}
	}
	return NewRecord(list), nil
}

// NewRecord puts snapshots of one workspace, the newest first, into their order. A
// snapshot that was taken before a rollback is a state only where it differs from
// the one before it.
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

// undoTarget returns the newest state before what is there, which has the given digest.
func (r *Record) undoTarget(digest string) *State {
	s := r.Current
	for s != nil && s.Digest == digest {
		s = s.Parent
	}
	return s
}

// redoTarget returns the state that was left by going back, one step towards where
// that began.
func (r *Record) redoTarget(digest string) *State {
	if r.tip == nil || r.Current == nil || r.Current.Digest != digest {
		return nil
	}
	var next *State
	for s := r.tip; s != r.Current; s = s.Parent {
		switch {
		case s == nil && r.tip.Digest != digest:
			return r.tip // the two are not on one line
		case s == nil:
			return nil
		case s.Digest != digest:
			next = s
		}
	}
	return next
}

// A Move is what Undo and Redo did.
type Move struct {
	To     driver.SnapshotInfo `json:"to"`     // what the workspace is now
	Before driver.SnapshotInfo `json:"before"` // what it was
}

// Undo returns a workspace to the state before the one that it is in.
func Undo(ctx context.Context, ws *workspace.Workspace) (Move, error) {
	return moveTo(ctx, ws, (*Record).undoTarget, "there is no earlier state of it that differs from what is there")
}

// Redo takes back the last Undo that was not taken back. Where anything changed
// since there is nothing to redo.
func Redo(ctx context.Context, ws *workspace.Workspace) (Move, error) {
	return moveTo(ctx, ws, (*Record).redoTarget, "nothing was undone, or something changed since")
}

func moveTo(ctx context.Context, ws *workspace.Workspace, choose func(*Record, string) *State, otherwise string) (Move, error) {
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
		return Move{}, fmt.Errorf("history: workspace %s: %w: %s", ws.ID(), fault.NotFound, otherwise)
	}
	before, err := ws.Rollback(ctx, to.ID, nil)
	return Move{To: to.SnapshotInfo, Before: before}, err
}

// currentDigest returns the digest of the files as they are.
func currentDigest(ctx context.Context, ws *workspace.Workspace) (string, error) {
	info, err := ws.Snapshot(ctx, &driver.SnapshotOptions{Labels: map[string]string{snapshot.CauseLabel: "look"}})
	if err != nil {
		return "", err
	}
	return info.Digest, ws.DeleteSnapshot(ctx, info.ID, nil)
}
