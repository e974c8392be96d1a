package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
)

// Open a workspace, write a file, search it, and see what is refused.
func Example() {
	ctx := context.Background()
	mux := workspace.NewMux(new(memory.Provider)) // or sandbox.New, to run commands, too
	ws, err := mux.Open(ctx, workspace.Spec{Kind: "memory", ID: workspace.NewID()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Destroy(ctx)

	if _, err := ws.WriteFile(ctx, "cmd/main.go", []byte("package main\n"), &workspace.WriteOptions{Parents: true}); err != nil {
		log.Fatal(err)
	}
	found, err := ws.Grep(ctx, `package \w+`, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range found.Matches {
		fmt.Printf("%s:%d:%s\n", m.Path, m.Line, m.Text)
	}
	_, err = ws.ReadFile(ctx, "../etc/passwd")
	fmt.Println(errors.Is(err, fault.SandboxViolation))
	// Output:
	// cmd/main.go:1:package main
	// true
}

// A write can be made conditional on what was read.
func ExampleWorkspace_WriteFile() {
	ctx := context.Background()
	ws, err := workspace.NewMux(new(memory.Provider)).Open(ctx, workspace.Spec{Kind: "memory", ID: workspace.NewID()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Destroy(ctx)

	first, err := ws.WriteFile(ctx, "notes.txt", []byte("one\n"), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := ws.Edit(ctx, "notes.txt", []workspace.Edit{{Old: "one", New: "two"}}, nil); err != nil {
		log.Fatal(err)
	}
	_, err = ws.WriteFile(ctx, "notes.txt", []byte("lost\n"), &workspace.WriteOptions{IfMatch: first.Digest})
	fmt.Println(errors.Is(err, fault.Conflict))
	// Output: true
}
