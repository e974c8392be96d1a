package sandbox_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A command in a sandbox of the kernel, with limits and one host of the network. It needs user namespaces.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p, err := sandbox.New(&sandbox.Config{Root: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	ws, err := workspace.NewMux(p).Open(ctx, workspace.Spec{Kind: sandbox.Kind, ID: workspace.NewID(), Policy: driver.Policy{
		Limits:  driver.Limits{driver.ResourceMemory: {Max: 512 << 20, BestEffort: true}},
		Network: driver.Network{Allow: []driver.NetRule{{Host: "example.com"}}},
	}}, nil)
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
