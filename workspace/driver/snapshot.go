package driver

import (
	"context"
	"time"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// Snapshots is the module that stores states of a workspace. Snapshots are in a
// store, not in the workspace: they outlive it. To restore or fork a snapshot, Open a
// new workspace with Spec.From; this module never creates a workspace.
type Snapshots struct {
	Snapshotter

	// List lists the snapshots of this workspace or, with opts, of others.
	List func(ctx context.Context, opts *ListSnapshotsOptions) ([]SnapshotInfo, error)

	// Files returns the files of a snapshot, read-only. The id "" is the present
	// state of the workspace, which does not change for the reader; "@origin" is what
	// the workspace started from, NotFound if it started empty. Here and below, an id
	// may also be the name of a snapshot of this workspace.
	Files func(ctx context.Context, id string, opts *SnapshotAccess) (*FS, error)

	// Delete removes a snapshot. It may fail with WrongState if an existing workspace
	// started from the snapshot.
	Delete func(ctx context.Context, id string, opts *SnapshotAccess) error

	// Rollback returns the workspace to a snapshot in place. Before that it takes a
	// snapshot of the present state, and returns that snapshot.
	Rollback func(ctx context.Context, id string, opts *SnapshotAccess) (SnapshotInfo, error)

	// Accept brings the workspace, in place, to the state of files, which differs
	// from the present state only at the given paths. It is all or nothing. Like
	// Rollback, it first takes a snapshot of the present state, with opts.
	Accept func(ctx context.Context, files *FS, paths []string, opts *SnapshotOptions) (SnapshotInfo, error)

	// Seal turns the files of a workspace without running processes into an immutable
	// layer (an overlayfs lower directory) from which any number of workspaces start.
	Seal func(ctx context.Context, opts *SnapshotOptions) (SnapshotInfo, error)

	// Checkpoint stores processes and memory, too. If it is nil, NoCheckpoint may say
	// why.
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
	// Snapshot stores the present files. If the context ends, there is either the
	// complete snapshot or no snapshot.
	Snapshot(ctx context.Context, opts *SnapshotOptions) (SnapshotInfo, error)
}

// SnapshotOptions are the options of Snapshot, Seal and Checkpoint.
type SnapshotOptions struct {
	Name   string // optional; see ValidSnapshotName
	Labels map[string]string
	Ignore []string // patterns of .gitignore syntax, to leave out

	// Complete makes the snapshot fail if a file can't be stored: Conflict for a file
	// that vanished while the snapshot was taken, Unavailable for a file that can't
	// be read. Without Complete such files are in SnapshotInfo.Missing.
	Complete bool
}

// ValidSnapshotName reports whether name may name a snapshot:
// [A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}, and not of the form of an id. So a name is never a
// path, a state such as @now, or a source such as template:NAME.
func ValidSnapshotName(name string) bool {
	return snapshotName.MatchString(name) && !ValidID(name)
}

var snapshotName = lazyregexp.New(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$`)

// SnapshotAccess says which snapshots may be used.
type SnapshotAccess struct {
	CrossSession bool // snapshots of other sessions, too
}

// ListSnapshotsOptions are the options of Snapshots.List.
type ListSnapshotsOptions struct {
	SnapshotAccess
	Limit int // the newest snapshots; 0 is all

	// Origin adds the snapshot that the workspace started from, if it still exists,
	// at the end.
	Origin bool
}

// SnapshotInfo describes a snapshot.
type SnapshotInfo struct {
	ID        string            `json:"id"`
	Name      string            `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Provider  string            `json:"providerId"`
	Workspace string            `json:"workspace"`         // id of the workspace
	Session   string            `json:"session,omitempty"` // session that took it
	Created   time.Time         `json:"created"`
	Order     int64             `json:"order,omitempty"` // replaces Created in sorting, as nanoseconds since 1970, if the clock was set back
	Files     int64             `json:"files"`
	Bytes     int64             `json:"bytes"` // size of all content
	Digest    string            `json:"digest"`
	Skipped   int64             `json:"skipped,omitempty"` // special files that were left out: FIFOs, sockets and devices
	Frozen    bool              `json:"frozen"`            // no process ran, or all were frozen, while the snapshot was taken
	Memory    bool              `json:"memory,omitempty"`

	// Missing are files and directories that were listed but are not in the snapshot:
	// they vanished before they were read, or reading failed. It has the first
	// MaxMissingListed.
	Missing      []Skip `json:"missing,omitempty"`
	MissingTotal int64  `json:"missingTotal,omitempty"`

	SkippedPaths []string `json:"skippedPaths,omitempty"` // the first MaxMissingListed special files

	// Credentials are known credential files in a snapshot of a directory in place, such
	// as .env, up to MaxMissingListed: forks contain them. Copies leave them out.
	Credentials []string `json:"credentials,omitempty"`
}

// MaxMissingListed bounds SnapshotInfo.Missing and SkippedPaths.
const MaxMissingListed = 100
