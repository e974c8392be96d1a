package workspace_test

import (
	"context"
	"testing"

	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// bareProvider has nothing of FS but the required part, and what nothing can
// make up for, so that the suite runs over the fallbacks for all the rest.
type bareProvider struct{ driver.Provider }

func (p bareProvider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	d, err := p.Provider.Open(ctx, spec)
	return strip(d), err
}

func (p bareProvider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	d, err := p.Provider.Resolve(ctx, ref)
	return strip(d), err
}

func strip(d *driver.Workspace) *driver.Workspace {
	if d == nil {
		return nil
	}
	next := *d
	next.FS = &driver.FS{Files: d.FS.Files, Symlink: d.FS.Symlink, Chmod: d.FS.Chmod, Watch: d.FS.Watch}
	return &next
}

func TestFallbacksPassTheSuite(t *testing.T) {
	workspacetest.Run(t, workspacetest.Harness{
		Provider: func(testing.TB, string) driver.Provider { return bareProvider{new(memory.Provider)} },
	})
}
