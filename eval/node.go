package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tail"
)

// NodeIn returns a function that starts the user's Node in an environment of its own, for
// [suite.Loader]. Node sees tmp, which it may write, and the directories of the suite
// and of itself. It has no network.
func NodeIn(envs EnvFactory, tmp, suitePath string) func(ctx context.Context, args []string) (*suite.NodeProcess, error) {
	return func(ctx context.Context, args []string) (*suite.NodeProcess, error) {
		node := lookPathIn("node", os.Getenv("PATH"))
		if node == "" {
			return nil, fmt.Errorf("eval: engine node: %w: there is no program node on the PATH", fault.NotFound)
		}
		abs, err := filepath.Abs(suitePath)
		if err != nil {
			return nil, fmt.Errorf("eval: engine node: %w: %w", fault.Of(err), err)
		}
		programs := programDirs(node, os.Getenv("PATH"))
		read := slices.Concat(realDirs([]string{filepath.Dir(abs)}), programs)
		env, err := envs.Open(ctx, EnvSpec{Dir: tmp, InPlace: true, Read: read, Programs: installations(programs)})
		if err != nil {
			return nil, err
		}
		p, err := env.startNode(ctx, append([]string{node}, args...))
		if err != nil {
			return nil, fmt.Errorf("eval: engine node: %w", errors.Join(err, env.close(ctx)))
		}
		return p, nil
	}
}

// startNode starts Node in the environment. It runs until it is closed.
func (p *Env) startNode(ctx context.Context, argv []string) (*suite.NodeProcess, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cmd := p.Workspace.Command(ctx, argv[0], argv[1:]...)
	for name, value := range p.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stderr tail.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	end := sync.OnceValue(func() error {
		cancel()
		_ = stdout.Close() // so that Wait does not wait for a reader
		_ = cmd.Wait()     // it was killed
		return p.close(ctx)
	})
	return &suite.NodeProcess{Stdin: stdin, Stdout: stdout, Stderr: stderr.String, Close: end}, nil
}
