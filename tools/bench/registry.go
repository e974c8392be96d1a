package main

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
)

// benchRegistry compares getting a live workspace by its id with a look-up in a sync.Map.
func benchRegistry(ctx context.Context, b *bench) error {
	dir, err := b.tempDir()
	if err != nil {
		return err
	}
	store, err := registry.OpenStore(ctx, "sqlite:"+filepath.Join(dir, "croft.db"))
	if err != nil {
		return err
	}
	b.addCleanup(func() { store.Close() })
	reg, err := registry.New(ctx, store, workspace.NewMux(new(memory.Provider)), nil)
	if err != nil {
		return err
	}
	b.addCleanup(func() { reg.Shutdown(context.WithoutCancel(ctx)) })
	rec, err := reg.Create(ctx, workspace.Spec{Kind: "memory"})
	if err != nil {
		return err
	}
	acquire := func() error { _, err := reg.Acquire(ctx, rec.ID); return err }
	if err := acquire(); err != nil {
		return err
	}
	var plain sync.Map
	plain.Store(rec.ID, reg)
	lookup := func() error { plain.Load(rec.ID); return nil }
	return b.compareSides(ctx, "Acquire of a live workspace", "sync.Map.Load", 0, repeatSide(acquire), repeatSide(lookup))
}
