package wrap_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/internal/wrap/limit"
	"github.com/croft-run/croft/internal/wrap/pool"
	"github.com/croft-run/croft/internal/wrap/record"
	"github.com/croft-run/croft/internal/wrap/retry"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// stack wraps a provider in one decorator after another.
func stack(t testing.TB, inner driver.Provider, dir string) driver.Provider {
	t.Helper()
	pooled, err := pool.Wrap(t.Context(), inner, pool.Options{Dir: filepath.Join(dir, "pool"), Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	limited, err := limit.Wrap(pooled, limit.Options{Workspaces: 10_000, Calls: 10_000, Rate: 1e9})
	if err != nil {
		t.Fatal(err)
	}
	again, err := retry.Wrap(record.New(io.Discard).Wrap(limited), retry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// inner returns a provider with files, a shell and snapshots.
func inner(t testing.TB, dir string) driver.Provider {
	t.Helper()
	p, err := local.New(&local.Config{Root: filepath.Join(dir, "ws"), Snapshots: snapshot.Open(snapshot.Dir(filepath.Join(dir, "snapshots")), nil)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConformance(t *testing.T) {
	workspacetest.Run(t, workspacetest.Harness{
		Provider: func(t testing.TB, dir string) driver.Provider {
			return stack(t, inner(t, dir), dir)
		},
	})
}

// TestLosesNothing proves that every module and function is still there.
func TestLosesNothing(t *testing.T) {
	dir := t.TempDir()
	below := inner(t, dir)
	plain, err := below.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: local.Kind})
	if err != nil {
		t.Fatal(err)
	}
	p := stack(t, below, dir)
	wrapped, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: local.Kind})
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range workspacetest.Lost(plain, wrapped) {
		t.Errorf("wrapping loses %s", lost)
	}
	if p.Features().Reserve == nil {
		t.Error("the pool can't be found below the others")
	}
	for _, ws := range []*driver.Workspace{plain, wrapped} {
		if err := ws.Life.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
