package local_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A command of a directory of this host, without isolation.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p, err := local.New(&local.Config{Root: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	ws, err := workspace.NewMux(p).Open(ctx, workspace.Spec{Kind: local.Kind, ID: workspace.NewID()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Destroy(ctx)
	res, err := ws.Run(ctx, driver.Command{Script: "echo hello | tr a-z A-Z"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", res.Stdout)
	// Output: HELLO
}
