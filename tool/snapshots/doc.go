// Package snapshots is the tools that remember what a workspace is, go back to
// it, fork it, show what changed and bring that into another workspace; and the
// checkpoints that calls of other tools leave.
//
// They are there for workspaces that have the capability snapshot. In the coding
// toolset going back is in place; what was there becomes a snapshot first. In the
// workspace toolset a snapshot is restored into a new workspace, and the present
// one stays as it is.
package snapshots

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
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
		forkTool(), diffTool(), applyTool(), undoTool(),
	}
}

// Workspace returns the tools of the workspace toolset.
func Workspace() []*tool.Tool {
	return []*tool.Tool{wsSnapshotTool(), wsRestoreTool(), wsBranchTool(), wsListTool(), wsDeleteTool()}
}

// snapshotCaps is the capability of all of them.
var snapshotCaps = []workspace.Capability{driver.CapSnapshot}

// descriptionLabel keeps what an agent says of a snapshot.
const descriptionLabel = "description"

var snapshotName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]*$`)

// checkName refuses what can't name a snapshot.
func checkName(name string) error {
	switch {
	case name == "":
		return tool.Errorf(fault.InvalidArgument, "name is required")
	case !snapshotName.MatchString(name):
		return tool.Errorf(fault.InvalidArgument, "invalid snapshot name %q: must match [A-Za-z0-9_-][A-Za-z0-9_.-]*", name)
	}
	return nil
}

// findSnapshot returns a snapshot of the workspace of a call by its name or id.
func findSnapshot(ctx context.Context, c *tool.Call, name string) (driver.SnapshotInfo, error) {
	if err := checkName(name); err != nil {
		return driver.SnapshotInfo{}, err
	}
	list, err := c.Workspace.Snapshots(ctx, nil)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	at := slices.IndexFunc(list, func(s driver.SnapshotInfo) bool { return s.ID == name || s.Name == name })
	if at < 0 {
		return driver.SnapshotInfo{}, tool.Errorf(fault.NotFound, "snapshot %q not found", name)
	}
	return list[at], nil
}

// A snapshotOutput is a snapshot as answers have it.
type snapshotOutput struct {
	ID          string    `json:"id"`
	Name        string    `json:"name,omitempty"`
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created"`
	Files       int64     `json:"files"`
	Digest      string    `json:"digest"`
	Frozen      bool      `json:"frozen" jsonschema:"nothing could change while it was taken"`

	Missing      []driver.Skip `json:"missing,omitempty" jsonschema:"files that vanished while it was taken or can't be read; the first of them"`
	MissingTotal int64         `json:"missingTotal,omitempty"`
}

func newSnapshotOutput(s driver.SnapshotInfo) snapshotOutput {
	return snapshotOutput{
		ID: s.ID, Name: s.Name, Description: descriptionOf(s), Created: s.Created, Files: s.Files, Digest: s.Digest, Frozen: s.Frozen,
		Missing: s.Missing, MissingTotal: s.MissingTotal,
	}
}

// displayName is how an agent calls a snapshot.
func (s snapshotOutput) displayName() string {
	if s.Name != "" {
		return s.Name
	}
	return s.ID
}

// listLine shows a snapshot: name, beginning of the digest, time and what it is about.
func (s snapshotOutput) listLine() string {
	return fmt.Sprintf("%s\t%.12s\t%s\t%s", s.displayName(), strings.TrimPrefix(s.Digest, driver.DigestPrefix), s.Created.UTC().Format(time.RFC3339), s.Description)
}
