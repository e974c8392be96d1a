package snapshots

import (
	"context"
	"fmt"
	"maps"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace/driver"
)

type forkInput struct {
	Name     string `json:"name,omitempty" jsonschema:"name of the new workspace; default its id" croft:"name"`
	Snapshot string `json:"snapshot,omitempty" jsonschema:"snapshot to start from, by name or id; default the present files"`
}

type forkOutput struct {
	Fork     string         `json:"fork" jsonschema:"the new workspace, to be passed as workspace"`
	Snapshot snapshotOutput `json:"snapshot" jsonschema:"snapshot that it started from"`

	of string
}

func (o forkOutput) Text() string {
	return fmt.Sprintf("forked %s as %s (snapshot %s); pass workspace %q to work there%s\n", o.of, o.Fork, o.Snapshot.displayName(), o.Fork, o.Snapshot.missingText())
}

func forkTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "fork", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true,
		Description: "Open a new workspace from the present files of this one, or from a snapshot. This workspace is unchanged. Use apply to merge the changes back.",
	}, forkWorkspace)
}

func forkWorkspace(ctx context.Context, c *tool.Call, in forkInput) (forkOutput, error) {
	if in.Name != "" && string(c.Args["workspace"]) == `"all"` {
		in.Name += "-" + c.Name // each fork needs its own name
	}
	info, err := forkStart(ctx, c, in.Snapshot)
	if err != nil {
		return forkOutput{}, err
	}
	name, err := openFork(ctx, c, info.ID, in.Name)
	return forkOutput{Fork: name, Snapshot: newSnapshotOutput(info), of: c.Name}, err
}

// forkStart returns the snapshot that a fork starts from; without a name it takes one.
func forkStart(ctx context.Context, c *tool.Call, name string) (driver.SnapshotInfo, error) {
	if name != "" {
		return findSnapshot(ctx, c, name)
	}
	return c.Workspace.Snapshot(ctx, &driver.SnapshotOptions{Labels: map[string]string{snapshot.CauseLabel: "fork"}})
}

// openFork opens a workspace from a snapshot.
func openFork(ctx context.Context, c *tool.Call, id, name string) (string, error) {
	if c.Env.Fork == nil {
		return "", tool.Errorf(fault.Unsupported, "%s: this server can't open workspaces", c.Tool)
	}
	return c.Env.Fork(ctx, c, id, name)
}

type wsSnapshotInput struct {
	Name   string            `json:"name,omitempty" jsonschema:"name; optional" croft:"name"`
	Labels map[string]string `json:"labels,omitempty" jsonschema:"labels of the snapshot"`
}

func wsSnapshotTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "workspace_snapshot", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true,
		Description: "Take a snapshot of all files of the workspace, and return its id.",
	}, func(ctx context.Context, c *tool.Call, in wsSnapshotInput) (createOutput, error) {
		if in.Name != "" {
			if err := checkName(in.Name); err != nil {
				return createOutput{}, err
			}
		}
		labels := map[string]string{}
		maps.Copy(labels, in.Labels)
		labels[snapshot.ToolLabel] = "true"
		info, err := c.Workspace.Snapshot(ctx, &driver.SnapshotOptions{Name: in.Name, Labels: labels})
		return createOutput{newSnapshotOutput(info)}, err
	})
}

type wsRestoreInput struct {
	Snapshot string `json:"snapshot" jsonschema:"snapshot, by id or name"`
	Name     string `json:"name,omitempty" jsonschema:"name of the new workspace; default its id" croft:"name"`
}

func wsRestoreTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "workspace_restore", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true,
		Description: "Open a new workspace from a snapshot. This workspace is unchanged; pass the new one as workspace to work there.",
	}, func(ctx context.Context, c *tool.Call, in wsRestoreInput) (forkOutput, error) {
		if _, err := findSnapshot(ctx, c, in.Snapshot); err != nil {
			return forkOutput{}, err
		}
		return forkWorkspace(ctx, c, forkInput{Name: in.Name, Snapshot: in.Snapshot})
	})
}

func wsBranchTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "workspace_branch", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true,
		Description: "Open a new workspace from the present files of this one, or from a snapshot. This workspace is unchanged.",
	}, forkWorkspace)
}

func wsListTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "workspace_list_snapshots", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true, ReadOnly: true, Idempotent: true,
		Description: "List the snapshots of the workspace, the newest first.",
	}, listSnapshots)
}

type wsDeleteInput struct {
	Snapshot string `json:"snapshot" jsonschema:"snapshot, by id or name"`
}

func wsDeleteTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "workspace_delete_snapshot", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true, Destructive: true,
		Description: "Delete a snapshot. The files of the workspace are unchanged.",
	}, func(ctx context.Context, c *tool.Call, in wsDeleteInput) (tool.Message, error) {
		info, err := findSnapshot(ctx, c, in.Snapshot)
		if err == nil {
			err = c.Workspace.DeleteSnapshot(ctx, info.ID, nil)
		}
		return tool.Message{Message: fmt.Sprintf("snapshot %s deleted", in.Snapshot)}, err
	})
}
