package filestore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/provider/filestore"
	"github.com/croft-run/croft/workspace"
)

// Files in a database and a bucket, here of a directory, without a place to run commands.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p, err := filestore.New(&filestore.Config{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	ws, err := workspace.NewMux(p).Open(ctx, workspace.Spec{Kind: filestore.Kind, ID: workspace.NewID()}, nil)
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
