// Command untrusted runs a file of code that is not trusted, in a sandbox of its own with
// limits and without a network, and says how it ended.
//
//	echo 'print(6 * 7)' > answer.py
//	go run . -memory 128 -timeout 5s python3 answer.py
//
// Its exit status is that of the code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func main() {
	memory := flag.Int64("memory", 256, "memory limit in MiB")
	timeout := flag.Duration("timeout", 10*time.Second, "time limit")
	host := flag.String("allow-net", "", "host that the code may reach")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: untrusted [flags] INTERPRETER FILE")
	}
	policy := workspace.Policy{Limits: workspace.Limits{
		driver.ResourceMemory: {Max: *memory << 20},
		driver.ResourcePIDs:   {Max: 100},
		driver.ResourceWall:   {Max: int64(*timeout)},
	}}
	if *host != "" {
		policy.Network.Allow = []workspace.NetRule{{Host: *host}}
	}
	result, err := runFile(context.Background(), policy, flag.Arg(0), flag.Arg(1))
	if err != nil {
		log.Fatal(err)
	}
	if result.Cause != "" {
		log.Printf("the code was ended: %s", result.Cause)
	}
	for _, r := range result.Refused {
		log.Printf("the network was refused: %s", r.Host)
	}
	os.Exit(result.ExitCode)
}

// runFile runs an interpreter on a copy of the file and passes its output on.
func runFile(ctx context.Context, policy workspace.Policy, interpreter, file string) (*workspace.Result, error) {
	code, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp("", "untrusted")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)
	provider, err := sandbox.New(&sandbox.Config{Root: root})
	if err != nil {
		return nil, err
	}
	ws, err := workspace.NewMux(provider).Open(ctx, workspace.Spec{Kind: "sandbox", ID: workspace.NewID(), Policy: policy}, nil)
	if err != nil {
		return nil, fmt.Errorf("open a sandbox: %w", err)
	}
	defer ws.Destroy(ctx)

	name := filepath.Base(file)
	if _, err := ws.WriteFile(ctx, name, code, nil); err != nil {
		return nil, err
	}
	cmd := ws.Command(ctx, interpreter, name)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	var exit *workspace.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return nil, err // it did not run, such as: the interpreter is not there
	}
	return cmd.Result, nil
}
