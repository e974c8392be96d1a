package registry_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
)

// A registry finds a workspace by its name, also in another process that shares the store.
func Example() {
	ctx := context.Background()
	data, err := os.MkdirTemp("", "registry")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(data)
	store, err := registry.OpenStore(ctx, "sqlite:"+filepath.Join(data, "croft.db")) // or postgres://...
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	provider, err := local.New(&local.Config{Root: filepath.Join(data, "ws")})
	if err != nil {
		log.Fatal(err)
	}
	reg, err := registry.New(ctx, store, workspace.NewMux(provider), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer reg.Shutdown(ctx)

	if _, err := reg.Create(ctx, workspace.Spec{Kind: "local", Name: "notes"}); err != nil { // nothing is opened yet
		log.Fatal(err)
	}
	rec, err := reg.Lookup(ctx, "", "notes")
	if err != nil {
		log.Fatal(err)
	}
	ws, err := reg.Acquire(ctx, rec.ID) // opened once, however many ask at the same time
	if err != nil {
		log.Fatal(err)
	}
	if _, err := ws.WriteFile(ctx, "todo.txt", []byte("remember the milk\n"), nil); err != nil {
		log.Fatal(err)
	}
	text, err := ws.ReadFile(ctx, "todo.txt")
	fmt.Printf("%s%v\n", text, err)
	// Output:
	// remember the milk
	// <nil>
}
