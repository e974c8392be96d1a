package console

import (
	"context"
	"sync"
	"testing"

	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
)

// opener opens a workspace of memory for each name.
type opener struct {
	Workspaces
	mux *workspace.Mux
}

func (o opener) Open(ctx context.Context, _ string) (*workspace.Workspace, error) {
	return o.mux.Open(ctx, workspace.Spec{Kind: memory.Kind, ID: workspace.NewID()}, nil)
}

// TestManyAreOpenedAtOnce, as croft work --parallel does.
func TestManyAreOpenedAtOnce(t *testing.T) {
	a, all := new(Console), opener{mux: workspace.NewMux(new(memory.Provider))}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := a.WithOpened(t.Context(), all, "x", func(*workspace.Workspace) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
