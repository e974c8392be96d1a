package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
)

// one is the workspace of a program that has no more of them.
type one struct{ ws *workspace.Workspace }

func (o one) List(context.Context) ([]tool.Entry, error) {
	return []tool.Entry{{Name: "project", ID: o.ws.ID()}}, nil
}

func (o one) Find(context.Context, string) (tool.Entry, error) {
	return tool.Entry{Name: "project", ID: o.ws.ID()}, nil
}

func (o one) Get(context.Context, string) (*workspace.Workspace, error) { return o.ws, nil }

// Offer the tools of coding agents on one workspace, and call one as an agent would.
func Example() {
	ctx := context.Background()
	ws, err := workspace.NewMux(new(memory.Provider)).Open(ctx, workspace.Spec{Kind: memory.Kind, ID: workspace.NewID()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Destroy(ctx)
	env, err := tool.NewEnv(tool.Config{Tools: tool.Coding(), Workspaces: one{ws}})
	if err != nil {
		log.Fatal(err)
	}
	defer env.Close(ctx)
	res, err := env.Run(ctx, tool.Request{Tool: "Write", Args: json.RawMessage(`{"file_path": "a.txt", "content": "one\n"}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text)
	// Output: wrote 4 bytes to a.txt
}
