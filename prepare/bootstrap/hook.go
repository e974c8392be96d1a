package bootstrap

import (
	"context"
	"fmt"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
)

// A Hook runs once, after a workspace was created and before the caller gets it.
type Hook func(ctx context.Context, st *stage.Stage) error

// NewHook returns the hook that applies the spec to a workspace.
func NewHook(spec Spec) Hook {
	return func(ctx context.Context, st *stage.Stage) error {
		_, err := New(st, nil).Apply(ctx, spec)
		return err
	}
}

// cleanupTime bounds the removal of a workspace whose hooks failed.
const cleanupTime = 30 * time.Second

// RunHooks runs hooks in order. If a hook fails, RunHooks calls cleanup, which
// destroys the workspace, and the error names the hook.
func RunHooks(ctx context.Context, st *stage.Stage, cleanup func(ctx context.Context) error, hooks ...Hook) error {
	for i, h := range hooks {
		if h == nil {
			return fmt.Errorf("bootstrap: workspace init hook %d: %w: the hook is nil", i, fault.InvalidArgument)
		}
	}
	for i, h := range hooks {
		err := h(ctx, st)
		if err == nil {
			continue
		}
		err = fmt.Errorf("bootstrap: workspace init hook %d: %w", i, err)
		if cleanup != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
			defer cancel()
			if cerr := cleanup(ctx); cerr != nil {
				return fmt.Errorf("%w (and to clean up: %w)", err, cerr)
			}
		}
		return err
	}
	return nil
}
