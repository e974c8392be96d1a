// Package container has the API of trpc-agent-go's package codeexecutor/container that its
// tests with a real engine use, over package codeexecutor/local, whose place trpcagent takes.
package container

import (
	"context"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor/local"
)

// CodeExecutor is an executor that can be closed.
type CodeExecutor struct{ *local.CodeExecutor }

// Option is an option that the provider has instead: the image and the engine.
type Option struct{}

// WithContainerConfig is ignored.
func WithContainerConfig(any) Option { return Option{} }

// WithHost is ignored.
func WithHost(string) Option { return Option{} }

// New returns an executor.
func New(...Option) (*CodeExecutor, error) {
	return &CodeExecutor{local.New(local.WithTimeout(time.Minute))}, nil
}

// Close ends the workspaces.
func (c *CodeExecutor) Close() error {
	closer, ok := any(c.CodeExecutor).(interface {
		Close(ctx context.Context) error
	})
	if !ok {
		return nil
	}
	return closer.Close(context.Background()) //nolint:forbidigo // trpc-agent-go's Close has no context
}

// dockerHost is asked for by the tests, which skip where there is no engine.
func dockerHost() (string, error) { return "", nil } //nolint:unused // upstream's tests call it
