package app

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/tenants"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
)

// countingStore counts how often all records are listed.
type countingStore struct {
	registry.Store
	lists atomic.Int32
}

func (s *countingStore) List(ctx context.Context, f registry.Filter) ([]registry.Record, error) {
	if f.Name == "" {
		s.lists.Add(1)
	}
	return s.Store.List(ctx, f)
}

// TestCallsDoNotListTheRegistry: a call that names its workspace finds it by its
// name, one that does not has a listing that is kept for as long as nothing
// happens, and what happens is seen at once.
func TestCallsDoNotListTheRegistry(t *testing.T) {
	ctx := t.Context()
	opened, err := registry.OpenStore(ctx, "sqlite:"+filepath.Join(t.TempDir(), "registry.db"))
	if err != nil {
		t.Fatal(err)
	}
	store := &countingStore{Store: opened}
	stream := &events{tenants: new(tenants.Tenants), Stream: event.NewStream(event.NewRing(16)), wake: make(chan struct{}, 1)}
	reg, err := registry.New(ctx, store, workspace.NewMux(new(memory.Provider)), &registry.Options{Events: stream})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Shutdown(context.WithoutCancel(ctx)) })
	open := func(name string) string {
		t.Helper()
		rec, err := reg.Create(ctx, workspace.Spec{Kind: memory.Kind, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return rec.ID
	}
	one := open("one")
	env, err := tool.NewEnv(tool.Config{Tools: tool.Coding(), Workspaces: &registryWorkspaces{registry: reg, changes: &stream.changes, admit: func(string) error { return nil }}})
	if err != nil {
		t.Fatal(err)
	}
	call := func(args string, only string) error {
		_, err := env.Run(ctx, tool.Request{Tool: "Glob", Args: []byte(args), Only: only})
		return err
	}
	if err := call(`{"pattern":"*"}`, ""); err != nil {
		t.Fatal(err)
	}
	before := store.lists.Load()
	for range 50 {
		for _, err := range []error{call(`{"pattern":"*","workspace":"one"}`, ""), call(`{"pattern":"*"}`, "one")} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := store.lists.Load() - before; got != 0 {
		t.Errorf("100 calls that name their workspace listed the registry %d times", got)
	}
	began := time.Now()
	for range 50 {
		if err := call(`{"pattern":"*"}`, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got, most := store.lists.Load()-before, 10+int32(time.Since(began)/listCacheTTL); got > most {
		t.Errorf("50 calls that name no workspace listed the registry %d times, want at most %d", got, most)
	}
	if err := call(`{"pattern":"*","workspace":"`+one+`"}`, ""); err != nil {
		t.Errorf("by its id: %v", err)
	}
	two := open("two")
	if err := call(`{"pattern":"*"}`, ""); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("with another workspace a call that names none is answered with %v", err)
	}
	if err := reg.Destroy(ctx, two); err != nil {
		t.Fatal(err)
	}
	if err := call(`{"pattern":"*"}`, ""); err != nil {
		t.Errorf("with one workspace again: %v", err)
	}
	if err := call(`{"pattern":"*","workspace":"two"}`, ""); fault.Of(err) != fault.NotFound {
		t.Errorf("a workspace that is gone: %v", err)
	}
}
