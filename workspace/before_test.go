package workspace

import (
	"context"
	"errors"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestBefore: what a command waits for is called once, also where the first try
// finds the workspace evicted, and by the handle unless the driver does it; where it
// fails nothing is started. It may make calls itself.
func TestBefore(t *testing.T) {
	refusal := errors.New("not now")
	for name, holds := range map[string]bool{"by the handle": false, "by the driver": true} {
		t.Run(name, func(t *testing.T) {
			var renewed driver.Workspace
			opts := &Options{Renew: func(context.Context, *driver.Workspace) (*driver.Workspace, error) { return &renewed, nil }}
			w, h := newShell(t, opts, func(d *driver.Workspace) {
				start := d.Shell.Starter
				d.Shell.Holds = holds
				d.Shell.Run = func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
					if (cmd.Before != nil) != holds {
						t.Errorf("the driver has Before: %v", cmd.Before != nil)
					}
					if cmd.Before != nil {
						if err := cmd.Before(ctx); err != nil {
							return driver.Result{}, err
						}
					}
					s, err := start.Start(ctx, cmd)
					if err != nil {
						return driver.Result{}, err
					}
					return s.Wait(ctx)
				}
				renewed = *d
			})
			calls := 0
			cmd := driver.Command{Argv: []string{"true"}, Before: func(ctx context.Context) error {
				calls++
				return w.Mkdir(ctx, "made", nil)
			}}
			h.evict.Store(1)
			if _, err := w.Run(t.Context(), cmd); err != nil || calls != 1 || h.starts.Load() != 1 {
				t.Errorf("Run: %v after %d calls, %d starts", err, calls, h.starts.Load())
			}
			if _, err := w.Stat(t.Context(), "made", nil); err != nil {
				t.Error(err)
			}
			cmd.Before = func(context.Context) error { return refusal }
			if _, err := w.Run(t.Context(), cmd); !errors.Is(err, refusal) {
				t.Errorf("Run: %v, want what was answered", err)
			}
			if _, err := w.Start(t.Context(), cmd); !errors.Is(err, refusal) {
				t.Errorf("Start: %v, want what was answered", err)
			}
			if h.starts.Load() != 1 {
				t.Errorf("%d starts, want 1", h.starts.Load())
			}
		})
	}
}

// TestBeforeOfAClosedHandle: closing a handle ends what a command waits for, and
// neither waits for the other.
func TestBeforeOfAClosedHandle(t *testing.T) {
	w, _ := newShell(t, nil)
	begun, closed := make(chan struct{}), make(chan error, 1)
	go func() {
		<-begun
		closed <- w.Close(context.Background())
	}()
	_, err := w.Run(t.Context(), driver.Command{Argv: []string{"sleep", "60"}, Before: func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return w.Mkdir(context.WithoutCancel(ctx), "made", nil)
	}})
	if fault.Of(err) != fault.WrongState {
		t.Errorf("got %v, want %v", err, fault.WrongState)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
