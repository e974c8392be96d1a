package workspace_test

import (
	"context"
	"testing"

	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// bareProvider has nothing but the required part of FS, and Symlink and Chmod
// where they are kept, so that the suite runs over what package workspace makes
// up for the rest.
type bareProvider struct {
	driver.Provider
	keep bool
}

func (p bareProvider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	d, err := p.Provider.Open(ctx, spec)
	return p.strip(d), err
}

func (p bareProvider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	d, err := p.Provider.Resolve(ctx, ref)
	return p.strip(d), err
}

func (p bareProvider) strip(d *driver.Workspace) *driver.Workspace {
	if d == nil {
		return nil
	}
	next := *d
	next.FS = &driver.FS{Files: d.FS.Files}
	if p.keep {
		next.FS.Symlink, next.FS.Chmod = d.FS.Symlink, d.FS.Chmod
	}
	return &next
}

func TestFallbacksPassTheSuite(t *testing.T) {
	for name, keep := range map[string]bool{"with nothing": false, "with symlinks and modes": true} {
		t.Run(name, func(t *testing.T) {
			workspacetest.Run(t, workspacetest.Harness{
				Provider: func(testing.TB, string) driver.Provider { return bareProvider{new(memory.Provider), keep} },
			})
		})
	}
}
