package isolate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A script in an isolate, which sees the files of a workspace and nothing else.
func Example() {
	ctx := context.Background()
	ws, err := new(memory.Provider).Open(ctx, driver.Spec{Kind: memory.Kind, ID: workspace.NewID()})
	if err != nil {
		log.Fatal(err)
	}
	var engine isolate.Engine
	defer engine.Close(ctx)
	code := driver.Code{Language: "javascript", Source: "console.log([1, 2, 3].reduce((a, b) => a + b))"}
	res, err := engine.Module(ws.FS, nil).RunCode(ctx, code)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(res.Outputs[0].Text)
	// Output: 6
}
