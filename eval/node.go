package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tail"
)

// NodeIn returns a function that starts the user's Node in an environment of its own, for
// [suite.Loader]. Node sees the temporary directory, which it may write, and the directories of
// the files that it runs and of itself. It has no network.
func NodeIn(envs EnvFactory) func(ctx context.Context, start suite.NodeStart) (*suite.NodeProcess, error) {
	return func(ctx context.Context, start suite.NodeStart) (*suite.NodeProcess, error) {
		node, err := suite.FindNode()
		if err != nil {
			return nil, err
		}
		programs := programDirs(node, os.Getenv("PATH"))
		read := slices.Concat(realDirs(start.Dirs), programs)
		env, err := envs.Open(ctx, EnvSpec{Dir: start.Tmp, InPlace: true, Read: read, Programs: installations(programs)})
		if err != nil {
			return nil, fmt.Errorf("eval: a sandbox for Node: %w: %w", fault.Of(err), err)
		}
		p, err := env.startNode(ctx, append([]string{node}, start.Args...))
		if err != nil {
			return nil, fmt.Errorf("eval: %w", errors.Join(err, env.close(ctx)))
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
