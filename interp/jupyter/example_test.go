package jupyter_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/interp/jupyter"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Code that keeps its state, in a kernel of Python. It needs ipykernel where the commands run.
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
	ws, err := p.Open(ctx, driver.Spec{Kind: local.Kind, ID: workspace.NewID()})
	if err != nil {
		log.Fatal(err)
	}
	kernels := jupyter.New(ws.Shell, nil)
	defer kernels.Close(ctx)
	for _, line := range []string{"x = 20", "print(x + 22)"} {
		res, err := kernels.RunCode(ctx, driver.Code{Source: line})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Outputs)
	}
}
