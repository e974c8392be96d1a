package web_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/web"
	"github.com/croft-run/croft/workspace"
)

// The tool that fetches a page for an agent.
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
	config := tool.Config{Tools: tool.Coding(), Sources: []tool.Source{web.Source}}
	for _, t := range config.Sources[0](ws).Tools() {
		fmt.Println(t.Name)
	}
	// Output: web_fetch
}
