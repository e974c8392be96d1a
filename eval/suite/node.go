package suite

import (
	"context"
	"fmt"
	"os/exec"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tail"
)

// FindNode returns the path of the user's Node.
func FindNode() (string, error) {
	path, err := exec.LookPath("node")
	if err != nil {
		return "", fmt.Errorf("suite: %w: the program node is not on the PATH: suites, configurations and reporters in TypeScript "+
			"or JavaScript run in it. "+
			"Install Node 20 or newer (https://nodejs.org), or write them in YAML without JavaScript", fault.NotFound)
	}
	return path, nil
}

// StartNode starts the user's Node as a child of this process, without a sandbox.
func StartNode(_ context.Context, s NodeStart) (*NodeProcess, error) {
	path, err := FindNode()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, s.Args...) //nolint:noctx // Close ends it: it outlives the call that starts it
	var stderr tail.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("suite: %w: %w", fault.Of(err), err)
	}
	return &NodeProcess{Stdin: stdin, Stdout: stdout, Stderr: stderr.String, Close: sync.OnceValue(func() error {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
		return nil
	})}, nil
}
