package snapshots

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace/driver"
)

// Around returns a tool.Config.Around that records the edits of each call, as far as
// tool.Config.Records asks for it, and takes a checkpoint, labelled with the call, after
// each call that changed something. wanted selects the workspaces with checkpoints and the
// limits of their history.
func Around(wanted func(ctx context.Context, c *tool.Call) (history.Limits, bool)) func(context.Context, *tool.Call, *tool.Tool, string) (func(context.Context) error, error) {
	return func(ctx context.Context, c *tool.Call, t *tool.Tool, about string) (func(context.Context) error, error) {
		kept, err := recordsOf(ctx, c)
		if err != nil {
			return nil, err
		}
		kept.opened(ctx, c)
		after, err := aroundCheckpoint(ctx, c, t, about, wanted)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			return errors.Join(kept.recordEdit(ctx, c, about), after(ctx))
		}, nil
	}
}

// aroundCheckpoint is Around for checkpoints.
func aroundCheckpoint(ctx context.Context, c *tool.Call, t *tool.Tool, about string, wanted func(context.Context, *tool.Call) (history.Limits, bool)) (func(context.Context) error, error) {
	nothing := func(context.Context) error { return nil }
	limits, ok := wanted(ctx, c)
	if !ok || !c.Workspace.Capabilities().Has(driver.CapSnapshot) {
		return nothing, nil
	}
	points, err := tool.PerWorkspace(c, func() (*history.Checkpoints, error) { return history.NewCheckpoints(c.Workspace, limits), nil })
	if err != nil {
		return nil, err
	}
	if t.Family == tool.Snapshot && t.Name != undoName {
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

// records is what is recorded of a workspace.
type records struct {
	tool.Records
	once sync.Once // of the state in which work begins
}

func recordsOf(ctx context.Context, c *tool.Call) (*records, error) {
	return tool.PerWorkspace(c, func() (*records, error) {
		if c.Env.Records == nil {
			return &records{}, nil
		}
		r, err := c.Env.Records(ctx, c.Workspace.ID())
		return &records{Records: r}, err
	})
}

// opened records the state in which work begins, once. Without it diff needs a snapshot
// to compare with, so a failure is only logged.
func (r *records) opened(ctx context.Context, c *tool.Call) {
	if !r.Opened || !c.Workspace.Capabilities().Has(driver.CapSnapshot) {
		return
	}
	r.once.Do(func() {
		slow := filepath.Join(r.Edits, "slow")
		if info, err := os.Stat(slow); err == nil && time.Since(info.ModTime()) < slowFor {
			return
		}
		err := history.RecordOpened(ctx, c.Workspace)
		if fault.Of(err) == fault.DeadlineExceeded && r.Edits != "" && os.MkdirAll(r.Edits, 0o700) == nil {
			err = errors.Join(err, os.WriteFile(slow, nil, 0o600))
		}
		if err != nil {
			c.Env.Log.Warn("no snapshot before the first change", "workspace", c.Workspace.ID(), "error", err)
		}
	})
}

// slowFor is how long a directory counts as too large for a snapshot.
const slowFor = 24 * time.Hour

// recordEdit records the files that a call has changed.
func (r *records) recordEdit(ctx context.Context, c *tool.Call, about string) error {
	if r.Edits == "" {
		return nil
	}
	var files []history.EditedFile
	for _, k := range c.KeptBefore() {
		f := history.EditedFile{Path: k.Path}
		if k.Exists && k.Err == nil {
			f.Before = history.NewFileState(k.Content, k.Mode)
		}
		after, err := history.ReadState(ctx, c.Workspace, k.Path)
		switch {
		case fault.Of(k.Err) == fault.Unsupported && isThere(ctx, c, k.Path):
			continue // a directory that the call left in its place
		case k.Err != nil:
			f.Reason = tool.ErrorText(k.Err)
		case err != nil:
			f.Reason = tool.ErrorText(err)
		case after.Digest == f.Before.Digest && after.Mode == f.Before.Mode:
			continue
		}
		after.Content = nil // the file has it, until the edit is undone
		f.After = after
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil
	}
	return history.Edits(r.Edits).Add(about, files)
}

func isThere(ctx context.Context, c *tool.Call, name string) bool {
	_, err := c.Workspace.Stat(ctx, name, &driver.StatOptions{NoFollow: true})
	return err == nil
}
