package bootstrap_test

import (
	"context"
	"fmt"
	"log"

	"github.com/croft-run/croft/prepare/bootstrap"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
)

// Bring a workspace to a state; what is there already is left alone.
func Example() {
	ctx := context.Background()
	ws, err := workspace.NewMux(new(memory.Provider)).Open(ctx, workspace.Spec{Kind: memory.Kind, ID: workspace.NewID()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Destroy(ctx)
	st, err := stage.New(ws, nil)
	if err != nil {
		log.Fatal(err)
	}
	spec := bootstrap.Spec{Files: []bootstrap.File{{Target: "work/settings.json", Content: []byte("{}\n")}}}
	for range 2 {
		report, err := bootstrap.New(st, nil).Apply(ctx, spec)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(report.Changed())
	}
	// Output:
	// true
	// false
}
