package e2b_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/provider/e2b"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A command in a sandbox of E2B, or of any server with its protocol. The key is a secret of the caller.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	secrets, err := secret.New(nil) // E2B_API_KEY of the environment
	if err != nil {
		log.Fatal(err)
	}
	p, err := e2b.New(&e2b.Config{Root: dir, Options: e2b.Options{Template: "base"}, Secrets: secrets})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	ws, err := workspace.NewMux(p).Open(ctx, workspace.Spec{Kind: e2b.Kind, ID: workspace.NewID()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Destroy(ctx)
	res, err := ws.Run(ctx, driver.Command{Script: "echo hello | tr a-z A-Z"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", res.Stdout)
}
