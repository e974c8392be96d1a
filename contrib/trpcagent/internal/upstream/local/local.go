// Package local has the API of trpc-agent-go's package codeexecutor/local over trpcagent.
// The program in the directory above puts it in that package's place, so that
// trpc-agent-go's own tests run over Croft.
package local

import (
	"context"
	"os"
	"sync"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/contrib/trpcagent"
	"github.com/croft-run/croft/provider/docker"
	"github.com/croft-run/croft/provider/e2b"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// Environment variables of the tests.
const (
	EnvProvider = "CROFT_TRPC_PROVIDER" // local, in-place, sandbox, docker, e2b or jupyter
	EnvRoot     = "CROFT_TRPC_ROOT"     // a directory for workspaces
	EnvServer   = "CROFT_TRPC_SERVER"   // the URL of the server of e2b
	EnvKey      = "CROFT_TRPC_KEY"      // its API key
)

var provider = sync.OnceValues(func() (driver.Provider, error) {
	root, err := os.MkdirTemp(os.Getenv(EnvRoot), "ws-")
	if err != nil {
		return nil, err
	}
	const lease = 5 * time.Second
	switch os.Getenv(EnvProvider) {
	case local.Kind, kernels:
		return local.New(&local.Config{Root: root, Lease: lease})
	case docker.Kind:
		return docker.New(&docker.Config{Root: root, Lease: lease})
	case e2b.Kind:
		server := os.Getenv(EnvServer)
		return e2b.New(&e2b.Config{Root: root, Lease: lease, Options: e2b.Options{Server: server, Sandboxes: server}, Secrets: apiKey{}})
	}
	return sandbox.New(&sandbox.Config{Root: root, Lease: lease})
})

// apiKey is the only secret.
type apiKey struct{}

// Get returns EnvKey.
func (apiKey) Get(_ context.Context, _, name string) (secret.Value, error) {
	return secret.NewValue(name, os.Getenv(EnvKey)), nil
}

// kernels is the provider local, with kernels for Python.
const kernels = "jupyter"

// WorkspaceMode is the mode of workspaces.
type WorkspaceMode int

// Modes of workspaces.
const (
	WorkspaceModeIsolated WorkspaceMode = iota
	WorkspaceModeTrustedLocal
)

// settings are what the options of both types set.
type settings struct {
	trpcagent.Options
	inputs string
	auto   bool
}

// newRuntime returns the executor of settings. CreateWorkspace returns its error, because
// New of trpc-agent-go's package has none.
func newRuntime(s settings) *Runtime {
	s.HostRoots = []string{"/"}
	s.Kernels = os.Getenv(EnvProvider) == kernels
	if s.auto {
		s.InputsDir = s.inputs
	}
	p, err := provider()
	if kind := os.Getenv(EnvProvider); kind == docker.Kind || kind == e2b.Kind {
		s.WorkDir, s.TrustedLocal = "", false // they use no directory in place
	}
	if err == nil && s.WorkDir == "" && !s.TrustedLocal && os.Getenv(EnvProvider) == "in-place" {
		s.WorkDir, err = os.MkdirTemp(os.Getenv(EnvRoot), "work-")
	}
	r := new(Runtime)
	if err == nil {
		r.Executor, err = trpcagent.New(context.Background(), p, &s.Options) //nolint:forbidigo // trpc-agent-go's New has no context
	}
	r.err = err
	return r
}

// Runtime is an executor.
type Runtime struct {
	*trpcagent.Executor
	err error
}

// CreateWorkspace is the executor's.
func (r *Runtime) CreateWorkspace(ctx context.Context, id string, pol codeexecutor.WorkspacePolicy) (codeexecutor.Workspace, error) {
	if r.err != nil {
		return codeexecutor.Workspace{}, r.err
	}
	return r.Executor.CreateWorkspace(ctx, id, pol)
}

// RuntimeOption is an option of a Runtime.
type RuntimeOption func(*settings)

// WithRuntimeWorkspaceMode sets the mode.
func WithRuntimeWorkspaceMode(m WorkspaceMode) RuntimeOption {
	return func(s *settings) { s.TrustedLocal = m == WorkspaceModeTrustedLocal }
}

// WithReadOnlyStagedSkill makes skills read-only.
func WithReadOnlyStagedSkill(on bool) RuntimeOption {
	return func(s *settings) { s.ReadOnlySkills = on }
}

// WithInputsHostBase sets the directory of inputs.
func WithInputsHostBase(dir string) RuntimeOption { return func(s *settings) { s.inputs = dir } }

// WithAutoInputs says whether workspaces have the inputs.
func WithAutoInputs(on bool) RuntimeOption { return func(s *settings) { s.auto = on } }

// NewRuntime returns a Runtime.
func NewRuntime(root string) *Runtime { return NewRuntimeWithOptions(root) }

// NewRuntimeWithOptions returns a Runtime.
func NewRuntimeWithOptions(root string, opts ...RuntimeOption) *Runtime {
	s := settings{auto: true}
	s.WorkDir = root
	for _, o := range opts {
		o(&s)
	}
	return newRuntime(s)
}

// CodeExecutor is an executor with the fields of its like in trpc-agent-go.
type CodeExecutor struct {
	WorkDir        string
	Timeout        time.Duration
	CleanTempFiles bool
	*Runtime
	settings settings
}

// CodeExecutorOption is an option of a CodeExecutor.
type CodeExecutorOption func(*CodeExecutor)

// WithWorkDir sets the work directory.
func WithWorkDir(dir string) CodeExecutorOption {
	return func(c *CodeExecutor) { c.WorkDir, c.settings.WorkDir = dir, dir }
}

// WithTimeout sets the time-out.
func WithTimeout(d time.Duration) CodeExecutorOption {
	return func(c *CodeExecutor) { c.Timeout, c.settings.Timeout = d, d }
}

// WithCleanTempFiles sets a field.
func WithCleanTempFiles(on bool) CodeExecutorOption {
	return func(c *CodeExecutor) { c.CleanTempFiles = on }
}

// WithWorkspaceInputsHostBase sets the directory of inputs.
func WithWorkspaceInputsHostBase(dir string) CodeExecutorOption {
	return func(c *CodeExecutor) { c.settings.inputs = dir }
}

// WithWorkspaceAutoInputs says whether workspaces have the inputs.
func WithWorkspaceAutoInputs(on bool) CodeExecutorOption {
	return func(c *CodeExecutor) { c.settings.auto = on }
}

// WithWorkspaceMode sets the mode.
func WithWorkspaceMode(m WorkspaceMode) CodeExecutorOption {
	return func(c *CodeExecutor) { c.settings.TrustedLocal = m == WorkspaceModeTrustedLocal }
}

// WithCodeBlockDelimiter sets the delimiter.
func WithCodeBlockDelimiter(d codeexecutor.CodeBlockDelimiter) CodeExecutorOption {
	return func(c *CodeExecutor) { c.settings.Delimiter = d }
}

// New returns a CodeExecutor.
func New(opts ...CodeExecutorOption) *CodeExecutor {
	c := &CodeExecutor{Timeout: time.Second, CleanTempFiles: true, settings: settings{auto: true}}
	for _, o := range opts {
		o(c)
	}
	c.Runtime = newRuntime(c.settings)
	return c
}
