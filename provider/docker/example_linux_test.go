package docker_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/provider/docker"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A command in a container of an image. It needs an engine.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p, err := docker.New(&docker.Config{Root: dir, Image: "debian:stable-slim"})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	ws, err := workspace.NewMux(p).Open(ctx, workspace.Spec{Kind: docker.Kind, ID: workspace.NewID()}, nil)
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
