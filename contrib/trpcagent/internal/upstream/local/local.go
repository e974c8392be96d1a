// Package local has the API of trpc-agent-go's package codeexecutor/local over trpcagent.
// The program in the directory above puts it in that package's place, so that
// trpc-agent-go's own tests run over Croft.
package local

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/contrib/trpcagent"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

// Environment variables of the tests.
const (
	EnvProvider = "CROFT_TRPC_PROVIDER" // local, in-place or sandbox
	EnvRoot     = "CROFT_TRPC_ROOT"     // a directory for workspaces
)

var provider = sync.OnceValues(func() (driver.Provider, error) {
	root, err := os.MkdirTemp(os.Getenv(EnvRoot), "ws-")
	if err != nil {
		return nil, err
	}
	const lease = 5 * time.Second
	if os.Getenv(EnvProvider) == local.Kind {
		return local.New(&local.Config{Root: root, Lease: lease})
	}
	return sandbox.New(&sandbox.Config{Root: root, Lease: lease})
})

// WorkspaceMode is the mode of workspaces.
type WorkspaceMode int

// Modes of workspaces.
const (
	WorkspaceModeIsolated WorkspaceMode = iota
	WorkspaceModeTrustedLocal
)

// Runtime is an executor that is made on first use, when its fields are set.
type Runtime struct {
	WorkRoot            string
	ReadOnlyStagedSkill bool
	InputsHostBase      string
	AutoInputs          bool
	Mode                WorkspaceMode

	timeout time.Duration
	delim   codeexecutor.CodeBlockDelimiter
	once    sync.Once
	e       *trpcagent.Executor
	err     error
}

// RuntimeOption sets a field.
type RuntimeOption func(*Runtime)

// Options of a Runtime.
func WithRuntimeWorkspaceMode(m WorkspaceMode) RuntimeOption {
	return func(r *Runtime) { r.Mode = m }
}
func WithReadOnlyStagedSkill(on bool) RuntimeOption {
	return func(r *Runtime) { r.ReadOnlyStagedSkill = on }
}
func WithInputsHostBase(dir string) RuntimeOption {
	return func(r *Runtime) { r.InputsHostBase = dir }
}
func WithAutoInputs(on bool) RuntimeOption { return func(r *Runtime) { r.AutoInputs = on } }

// NewRuntime returns a Runtime.
func NewRuntime(root string) *Runtime { return NewRuntimeWithOptions(root) }

// NewRuntimeWithOptions returns a Runtime.
func NewRuntimeWithOptions(root string, opts ...RuntimeOption) *Runtime {
	r := &Runtime{WorkRoot: root, AutoInputs: true}
	for _, o := range opts {
		o(r)
	}
	return r
}

// executor returns the executor.
func (r *Runtime) executor(ctx context.Context) (*trpcagent.Executor, error) {
	r.once.Do(func() {
		p, err := provider()
		if err != nil {
			r.err = err
			return
		}
		opts := &trpcagent.Options{
			WorkDir: strings.TrimSpace(r.WorkRoot), TrustedLocal: r.Mode == WorkspaceModeTrustedLocal, ReadOnlySkills: r.ReadOnlyStagedSkill,
			HostRoots: []string{"/"}, Timeout: r.timeout, Delimiter: r.delim,
		}
		if r.AutoInputs {
			opts.InputsDir = r.InputsHostBase
		}
		if opts.WorkDir == "" && os.Getenv(EnvProvider) == "in-place" && !opts.TrustedLocal {
			if opts.WorkDir, err = os.MkdirTemp(os.Getenv(EnvRoot), "work-"); err != nil {
				r.err = err
				return
			}
		}
		r.e, r.err = trpcagent.New(context.WithoutCancel(ctx), p, opts)
	})
	return r.e, r.err
}

// PathListSeparator is the executor's.
func (r *Runtime) PathListSeparator() string { return ":" }

// The methods of an engine are the executor's.
func (r *Runtime) CreateWorkspace(ctx context.Context, id string, pol codeexecutor.WorkspacePolicy) (codeexecutor.Workspace, error) {
	e, err := r.executor(ctx)
	if err != nil {
		return codeexecutor.Workspace{}, err
	}
	return e.CreateWorkspace(ctx, id, pol)
}
func (r *Runtime) Cleanup(ctx context.Context, ws codeexecutor.Workspace) error {
	e, err := r.executor(ctx)
	if err != nil {
		return err
	}
	return e.Cleanup(ctx, ws)
}
func (r *Runtime) PutFiles(ctx context.Context, ws codeexecutor.Workspace, files []codeexecutor.PutFile) error {
	e, err := r.executor(ctx)
	if err != nil {
		return err
	}
	return e.PutFiles(ctx, ws, files)
}
func (r *Runtime) PutDirectory(ctx context.Context, ws codeexecutor.Workspace, src, to string) error {
	e, err := r.executor(ctx)
	if err != nil {
		return err
	}
	return e.PutDirectory(ctx, ws, src, to)
}
func (r *Runtime) StageDirectory(ctx context.Context, ws codeexecutor.Workspace, src, to string, opt codeexecutor.StageOptions) error {
	e, err := r.executor(ctx)
	if err != nil {
		return err
	}
	return e.StageDirectory(ctx, ws, src, to, opt)
}
func (r *Runtime) Collect(ctx context.Context, ws codeexecutor.Workspace, globs []string) ([]codeexecutor.File, error) {
	e, err := r.executor(ctx)
	if err != nil {
		return nil, err
	}
	return e.Collect(ctx, ws, globs)
}
func (r *Runtime) StageInputs(ctx context.Context, ws codeexecutor.Workspace, specs []codeexecutor.InputSpec) error {
	e, err := r.executor(ctx)
	if err != nil {
		return err
	}
	return e.StageInputs(ctx, ws, specs)
}
func (r *Runtime) CollectOutputs(ctx context.Context, ws codeexecutor.Workspace, spec codeexecutor.OutputSpec) (codeexecutor.OutputManifest, error) {
	e, err := r.executor(ctx)
	if err != nil {
		return codeexecutor.OutputManifest{}, err
	}
	return e.CollectOutputs(ctx, ws, spec)
}
func (r *Runtime) RunProgram(ctx context.Context, ws codeexecutor.Workspace, spec codeexecutor.RunProgramSpec) (codeexecutor.RunResult, error) {
	e, err := r.executor(ctx)
	if err != nil {
		return codeexecutor.RunResult{}, err
	}
	return e.RunProgram(ctx, ws, spec)
}
func (r *Runtime) StartProgram(ctx context.Context, ws codeexecutor.Workspace, spec codeexecutor.InteractiveProgramSpec) (codeexecutor.ProgramSession, error) {
	e, err := r.executor(ctx)
	if err != nil {
		return nil, err
	}
	return e.StartProgram(ctx, ws, spec)
}
func (r *Runtime) ExecuteInline(ctx context.Context, id string, blocks []codeexecutor.CodeBlock, timeout time.Duration) (codeexecutor.RunResult, error) {
	e, err := r.executor(ctx)
	if err != nil {
		return codeexecutor.RunResult{}, err
	}
	return e.ExecuteInline(ctx, id, blocks, timeout)
}

// CodeExecutor is a Runtime with the fields of its like in trpc-agent-go.
type CodeExecutor struct {
	WorkDir        string
	Timeout        time.Duration
	CleanTempFiles bool
	Runtime
}

// CodeExecutorOption sets a field.
type CodeExecutorOption func(*CodeExecutor)

// Options of a CodeExecutor.
func WithWorkDir(dir string) CodeExecutorOption { return func(c *CodeExecutor) { c.WorkDir = dir } }
func WithTimeout(d time.Duration) CodeExecutorOption {
	return func(c *CodeExecutor) { c.Timeout, c.timeout = d, d }
}
func WithCleanTempFiles(on bool) CodeExecutorOption {
	return func(c *CodeExecutor) { c.CleanTempFiles = on }
}
func WithWorkspaceInputsHostBase(dir string) CodeExecutorOption {
	return func(c *CodeExecutor) { c.InputsHostBase = dir }
}
func WithWorkspaceAutoInputs(on bool) CodeExecutorOption {
	return func(c *CodeExecutor) { c.AutoInputs = on }
}
func WithWorkspaceMode(m WorkspaceMode) CodeExecutorOption {
	return func(c *CodeExecutor) { c.Mode = m }
}
func WithCodeBlockDelimiter(d codeexecutor.CodeBlockDelimiter) CodeExecutorOption {
	return func(c *CodeExecutor) { c.delim = d }
}

// New returns a CodeExecutor.
func New(opts ...CodeExecutorOption) *CodeExecutor {
	c := &CodeExecutor{Timeout: time.Second, CleanTempFiles: true, Runtime: Runtime{AutoInputs: true}}
	for _, o := range opts {
		o(c)
	}
	c.WorkRoot = c.WorkDir
	return c
}

// ExecuteCode is the executor's, with the directory that the tests name.
func (c *CodeExecutor) ExecuteCode(ctx context.Context, in codeexecutor.CodeExecutionInput) (codeexecutor.CodeExecutionResult, error) {
	e, err := c.executor(ctx)
	if err != nil {
		return codeexecutor.CodeExecutionResult{}, err
	}
	return e.ExecuteCode(ctx, in)
}

// CodeBlockDelimiter is the executor's.
func (c *CodeExecutor) CodeBlockDelimiter() codeexecutor.CodeBlockDelimiter {
	e, err := c.executor(context.Background()) //nolint:forbidigo // the interface has no context
	if err != nil {
		return codeexecutor.CodeBlockDelimiter{Start: fmt.Sprint(err)}
	}
	return e.CodeBlockDelimiter()
}

// Engine returns the runtime as an engine.
func (c *CodeExecutor) Engine() codeexecutor.Engine {
	e, err := c.executor(context.Background()) //nolint:forbidigo // the interface has no context
	if err != nil {
		return codeexecutor.NewEngine(&c.Runtime, &c.Runtime, &c.Runtime)
	}
	return codeexecutor.NewEngineWithCapabilities(&c.Runtime, &c.Runtime, &c.Runtime, e.Describe())
}
