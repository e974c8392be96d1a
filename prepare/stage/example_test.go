package stage_test

import (
	"context"
	"fmt"
	"log"

	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
)

// Bring inputs in, and take outputs out by patterns and within limits.
func Example() {
	ctx := context.Background()
	ws, err := workspace.NewMux(new(memory.Provider)).Open(ctx, workspace.Spec{Kind: "memory", ID: workspace.NewID()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Destroy(ctx)
	st, err := stage.New(ws, nil)
	if err != nil {
		log.Fatal(err)
	}

	// All files or none.
	if err := st.PutFiles(ctx, []stage.File{{Path: "work/data.csv", Content: []byte("a,b\n")}}); err != nil {
		log.Fatal(err)
	}
	// A program in the workspace would write this.
	if _, err := ws.WriteFile(ctx, "out/report.txt", []byte("1 row\n"), &workspace.WriteOptions{Parents: true}); err != nil {
		log.Fatal(err)
	}
	found, err := st.CollectOutputs(ctx, stage.OutputSpec{Globs: []string{"$OUTPUT_DIR/**"}, MaxFiles: 10, Inline: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range found.Files {
		fmt.Printf("%s (%s): %s", f.Name, f.MIMEType, f.Content)
	}
	// Output: out/report.txt (text/plain; charset=utf-8): 1 row
}
