package driver

import (
	"context"
	"time"
)

// Snapshots is the module that remembers states of a workspace. Snapshots live
// in a store, not in the workspace: they outlive it. To restore or to fork one
// is to Open a new workspace with Spec.From; this module never makes one.
type Snapshots struct {
	Snapshotter

	// List lists the snapshots of this workspace or, with opts, of others.
	List func(ctx context.Context, opts *ListSnapshotsOptions) ([]SnapshotInfo, error)

	// Files returns the files of a snapshot, to be read; "" is the workspace as it
	// is now, which stays so for the reader, and "@origin" what it started from, NotFound
	// where that is nothing. An id is, here and below, also the
	// name of a snapshot of this workspace.
	Files func(ctx context.Context, id string, opts *SnapshotAccess) (*FS, error)

	// Delete forgets a snapshot. One that a workspace which is there started from
	// may be kept for it: WrongState.
	Delete func(ctx context.Context, id string, opts *SnapshotAccess) error

	// Rollback returns the workspace to a snapshot in place. It first takes a
	// snapshot of what is there and returns that one.
	Rollback func(ctx context.Context, id string, opts *SnapshotAccess) (SnapshotInfo, error)

	// Accept brings the workspace, in place, to what files hold, which differs
	// from what is there at the given paths alone: all of it, or nothing. Like
	// Rollback it first takes a snapshot, with opts, of what is there.
	Accept func(ctx context.Context, files *FS, paths []string, opts *SnapshotOptions) (SnapshotInfo, error)

	// Seal turns the files of a workspace in which nothing runs into an
	// immutable layer that any number of workspaces start from.
	Seal func(ctx context.Context, opts *SnapshotOptions) (SnapshotInfo, error)

	// Checkpoint remembers processes and memory, too. Where it is nil,
	// NoCheckpoint may say why.
	Checkpoint   func(ctx context.Context, opts *SnapshotOptions) (SnapshotInfo, error)
	NoCheckpoint string
}

func (s *Snapshots) core() any {
	if s == nil {
		return nil
	}
	return s.Snapshotter
}

// A Snapshotter takes snapshots.
type Snapshotter interface {
	// Snapshot remembers the files as they are. A context that ends leaves
	// either the whole snapshot or none.
	Snapshot(ctx context.Context, opts *SnapshotOptions) (SnapshotInfo, error)
}

// SnapshotOptions are the options of Snapshot, Seal and Checkpoint.
type SnapshotOptions struct {
	Name   string
	Labels map[string]string
	Ignore []string // patterns in the manner of .gitignore, to leave out

	// Complete fails where a file can't be in the snapshot: Conflict for one that
	// vanished while the snapshot was taken, Unavailable for one that can't be read.
	// Without it such files are in SnapshotInfo.Missing.
	Complete bool
}

// SnapshotAccess says whose snapshots may be used.
type SnapshotAccess struct {
	CrossSession bool // those of other sessions, too
}

// ListSnapshotsOptions are the options of Snapshots.List.
type ListSnapshotsOptions struct {
	SnapshotAccess
	Limit int // the newest so many; 0 is all

	// Origin puts the snapshot that the workspace started from, where it is still
	// there, at the end.
	Origin bool
}

// SnapshotInfo describes a snapshot.
type SnapshotInfo struct {
	ID        string            `json:"id"`
	Name      string            `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Provider  string            `json:"providerId"`
	Workspace string            `json:"workspace"`         // id of the one it was taken of
	Session   string            `json:"session,omitempty"` // that took it
	Created   time.Time         `json:"created"`
	Order     int64             `json:"order,omitempty"` // in place of Created, as nanoseconds since 1970, where it was taken after the clock was set back
	Files     int64             `json:"files"`
	Bytes     int64             `json:"bytes"` // of content
	Digest    string            `json:"digest"`
	Skipped   int64             `json:"skipped,omitempty"` // pipes, sockets and devices that are not in it
	Frozen    bool              `json:"frozen"`            // nothing ran, or all that ran stood still, while it was taken
	Memory    bool              `json:"memory,omitempty"`

	// Missing are files and directories that were listed and are not in it: they
	// vanished before they were read, or reading them failed. It names the first
	// MaxMissingListed.
	Missing      []Skip `json:"missing,omitempty"`
	MissingTotal int64  `json:"missingTotal,omitempty"`
}

// MaxMissingListed bounds SnapshotInfo.Missing.
const MaxMissingListed = 100
