package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
)

// The files of a workspace live in the provider until the workspace is destroyed.
func Example() {
	ctx := context.Background()
	mux := workspace.NewMux(new(memory.Provider))
	ws, err := mux.Open(ctx, workspace.Spec{Kind: memory.Kind, ID: workspace.NewID()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Destroy(ctx)
	if _, err := ws.WriteFile(ctx, "notes.txt", []byte("hi\n"), nil); err != nil {
		log.Fatal(err)
	}
	text, err := ws.ReadFile(ctx, "notes.txt")
	fmt.Printf("%s%v\n", text, err)
	// Output:
	// hi
	// <nil>
}
