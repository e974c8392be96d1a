package snapshots

import (
	"context"

	"github.com/croft-run/croft/snapshot/history"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace/driver"
)

// Around returns a tool.Config.Around that takes a checkpoint, labelled with the call,
// after each call that changed something. wanted selects the workspaces and the limits of
// their history.
func Around(wanted func(ctx context.Context, c *tool.Call) (history.Limits, bool)) func(context.Context, *tool.Call, *tool.Tool, string) (func(context.Context) error, error) {
	nothing := func(context.Context) error { return nil }
	return func(ctx context.Context, c *tool.Call, t *tool.Tool, about string) (func(context.Context) error, error) {
		limits, ok := wanted(ctx, c)
		if !ok || !c.Workspace.Capabilities().Has(driver.CapSnapshot) {
			return nothing, nil
		}
		points, err := tool.PerWorkspace(c, func() (*history.Checkpoints, error) { return history.NewCheckpoints(c.Workspace, limits), nil })
		if err != nil {
			return nil, err
		}
		if t.Family == tool.Snapshot {
			return func(context.Context) error { points.Moved(); return nil }, nil
		}
		if err := points.Begin(ctx); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			_, _, err := points.Step(ctx, about)
			return err
		}, nil
	}
}
