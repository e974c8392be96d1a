// Package snapshots has the tools that take, restore, compare, fork and merge snapshots of
// a workspace, and the checkpoints after calls of other tools.
//
// The tools need the capability snapshot. In the coding toolset a restore is in place,
// after a snapshot of the present state. In the workspace toolset a snapshot is restored
// into a new workspace, and the present one is unchanged.
package snapshots

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Coding returns the tools of the coding toolset.
func Coding() []*tool.Tool {
	return []*tool.Tool{
		createTool(), listTool(), restoreTool(), snapshotDiffTool(), deleteTool(),
		forkTool(), diffTool(), applyTool(), undoTool(), snapshotTool(),
	}
}

// Workspace returns the tools of the workspace toolset.
func Workspace() []*tool.Tool {
	return []*tool.Tool{wsSnapshotTool(), wsRestoreTool(), wsBranchTool(), wsListTool(), wsDeleteTool()}
}

// snapshotCaps is the capability that all tools need.
var snapshotCaps = []workspace.Capability{driver.CapSnapshot}

// descriptionLabel is the label with the agent's description of a snapshot.
const descriptionLabel = "description"

// checkName checks the name or id of a snapshot.
func checkName(name string) error {
	switch {
	case name == "":
		return tool.Errorf(fault.InvalidArgument, "name is required")
	case !driver.ValidSnapshotName(name) && !driver.ValidID(name):
		return tool.Errorf(fault.InvalidArgument, "invalid snapshot name %q: must match [A-Za-z0-9_-][A-Za-z0-9_.-]*", name)
	}
	return nil
}

// findSnapshot returns a snapshot of the call's workspace by name or id.
func findSnapshot(ctx context.Context, c *tool.Call, name string) (driver.SnapshotInfo, error) {
	return findSnapshotOf(ctx, c.Workspace, name, nil)
}

// findSnapshotOf returns a snapshot of a workspace by name or id. The provider's own lookup
// would find those of other workspaces by their ids, too.
func findSnapshotOf(ctx context.Context, ws *workspace.Workspace, name string, opts *driver.ListSnapshotsOptions) (driver.SnapshotInfo, error) {
	if err := checkName(name); err != nil {
		return driver.SnapshotInfo{}, err
	}
	list, err := ws.Snapshots(ctx, opts)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	at := slices.IndexFunc(list, func(s driver.SnapshotInfo) bool { return s.ID == name || s.Name == name })
	if at < 0 {
		return driver.SnapshotInfo{}, tool.Errorf(fault.NotFound, "snapshot %q not found", name)
	}
	return list[at], nil
}

// A snapshotOutput is a snapshot in answers.
type snapshotOutput struct {
	ID          string    `json:"id"`
	Name        string    `json:"name,omitempty"`
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created"`
	Files       int64     `json:"files"`
	Digest      string    `json:"digest"`
	Frozen      bool      `json:"frozen" jsonschema:"the workspace was frozen while it was taken"`

	Missing      []driver.Skip `json:"missing,omitempty" jsonschema:"the first files that vanished while it was taken or can't be read"`
	MissingTotal int64         `json:"missingTotal,omitempty"`
	Skipped      int64         `json:"skipped,omitempty" jsonschema:"number of FIFOs, sockets and devices, which a snapshot leaves out"`
	SkippedPaths []string      `json:"skippedPaths,omitempty" jsonschema:"the first of them"`
	Credentials  []string      `json:"credentials,omitempty" jsonschema:"credential files of a directory in place, which it contains"`
}

func newSnapshotOutput(s driver.SnapshotInfo) snapshotOutput {
	return snapshotOutput{
		ID: s.ID, Name: s.Name, Description: descriptionOf(s), Created: s.Created, Files: s.Files, Digest: s.Digest, Frozen: s.Frozen,
		Missing: s.Missing, MissingTotal: s.MissingTotal, Skipped: s.Skipped, SkippedPaths: s.SkippedPaths, Credentials: s.Credentials,
	}
}

// displayName returns the name of a snapshot, else its id.
func (s snapshotOutput) displayName() string {
	if s.Name != "" {
		return s.Name
	}
	return s.ID
}

// listLine returns name, id, time and description of a snapshot.
func (s snapshotOutput) listLine() string {
	return fmt.Sprintf("%s\t%s\t%s\t%s", s.displayName(), s.ID, s.Created.UTC().Format(time.RFC3339), s.Description)
}
