package git_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/git"
	"github.com/croft-run/croft/workspace"
)

// The tools of git, beside the others of a workspace.
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
	config := tool.Config{Tools: tool.Coding(), Sources: []tool.Source{git.Source}}
	for _, t := range config.Sources[0](ws).Tools() {
		fmt.Println(t.Name)
	}
	// Output:
	// git_status
	// git_diff
	// git_log
	// git_commit
	// git_branch
}
