package trpcagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/interp/codeblock"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Options say how workspaces are made. The zero value is the provider's defaults.
type Options struct {
	Policy    workspace.Policy // of every workspace
	Config    []byte           // the provider's own, as JSON
	State     stage.State      // staging state; nil is in memory
	HostRoots []string         // directories that host:// inputs may read; empty is none
	Timeout   time.Duration    // of a program that names none; 0 is 5 minutes
	MaxOutput int64            // bytes of each stream of a run; 0 is 8 MiB
	Log       *slog.Logger     // nil is silent
}

// An Executor runs the programs and keeps the files of trpc-agent-go's agents in
// Croft's workspaces. It is safe for concurrent use.
type Executor struct {
	mux    *workspace.Mux
	kind   string
	traits workspace.Traits
	opts   Options

	making sync.Mutex // serialises making workspaces of code, so that one id has one workspace

	mu   sync.Mutex
	open map[string]*openWorkspace // guarded by mu
}

// An openWorkspace is a workspace that is open.
type openWorkspace struct {
	*stage.Stage
	ws      *workspace.Workspace
	persist bool
	code    chan struct{} // a token while code blocks run, because their files have the same names
}

var (
	_ codeexecutor.CodeExecutor             = (*Executor)(nil)
	_ codeexecutor.EngineProvider           = (*Executor)(nil)
	_ codeexecutor.Engine                   = (*Executor)(nil)
	_ codeexecutor.WorkspaceManager         = (*Executor)(nil)
	_ codeexecutor.WorkspaceFS              = (*Executor)(nil)
	_ codeexecutor.ProgramRunner            = (*Executor)(nil)
	_ codeexecutor.InteractiveProgramRunner = (*Executor)(nil)
)

// New returns an executor on a provider, after probing it.
func New(ctx context.Context, p driver.Provider, opts *Options) (*Executor, error) {
	e := &Executor{mux: workspace.NewMux(p), kind: p.Kind(), open: map[string]*openWorkspace{}}
	if opts != nil {
		e.opts = *opts
	}
	if e.opts.Timeout == 0 {
		e.opts.Timeout = 5 * time.Minute
	}
	if e.opts.MaxOutput == 0 {
		e.opts.MaxOutput = 8 << 20
	}
	if e.opts.State == nil {
		e.opts.State = stage.NewMemoryState()
	}
	var err error
	if e.traits, err = p.Probe(ctx); err != nil {
		return nil, fmt.Errorf("trpcagent: %s: %w", e.kind, err)
	}
	return e, nil
}

// Engine returns the executor itself: it is its own engine.
func (e *Executor) Engine() codeexecutor.Engine { return e }

// Manager returns the executor itself.
func (e *Executor) Manager() codeexecutor.WorkspaceManager { return e }

// FS returns the executor itself.
func (e *Executor) FS() codeexecutor.WorkspaceFS { return e }

// Runner returns the executor itself.
func (e *Executor) Runner() codeexecutor.ProgramRunner { return e }

// Describe says what the provider enforces on this host.
func (e *Executor) Describe() codeexecutor.Capabilities {
	return codeexecutor.Capabilities{
		Isolation: string(e.traits.Isolation), NetworkAllowed: e.opts.Policy.Network.Open || e.traits.Network == driver.NetworkOpen,
		ReadOnlyMount: e.traits.ReadOnly.Enforced(), Streaming: e.traits.Streaming, MaxDiskBytes: e.traits.MaxDisk, SupportsCleanEnv: true,
	}
}

// CreateWorkspace opens a workspace. A second workspace with the same id gets an id of
// its own in the result. The directories of the layout are made by the first call that
// runs a program or stages inputs.
func (e *Executor) CreateWorkspace(ctx context.Context, execID string, pol codeexecutor.WorkspacePolicy) (codeexecutor.Workspace, error) {
	spec := workspace.Spec{ID: workspace.NewID(), Kind: e.kind, Policy: e.opts.Policy, Config: e.opts.Config, Session: workspace.SessionRef{ID: execID}}
	if pol.Isolated && spec.Policy.Isolation.Rank() == 0 {
		spec.Policy.Isolation = driver.IsolationProcess // at least
		if e.traits.Isolation.Rank() > 0 {
			spec.Policy.Isolation = e.traits.Isolation // what the provider gives without being asked
		}
	}
	if pol.MaxDiskBytes > 0 {
		spec.Policy.Limits = spec.Policy.Limits.With(driver.Limits{driver.ResourceDisk: {Max: pol.MaxDiskBytes}})
	}
	ws, err := e.mux.Open(ctx, spec, &workspace.Options{Session: spec.Session, Log: e.opts.Log})
	if err != nil {
		return codeexecutor.Workspace{}, fmt.Errorf("trpcagent: create workspace: %w", err)
	}
	// metadata.json belongs to trpc-agent-go's tools.
	st, err := stage.New(ws, &stage.Options{State: e.opts.State, HostRoots: e.opts.HostRoots, NoCopy: true, Log: e.opts.Log})
	if err != nil {
		return codeexecutor.Workspace{}, errors.Join(err, ws.Destroy(context.WithoutCancel(ctx)))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	id := execID
	if _, taken := e.open[id]; taken || id == "" {
		id += "~" + ws.ID()
	}
	e.open[id] = &openWorkspace{st, ws, pol.Persist, make(chan struct{}, 1)}
	return codeexecutor.Workspace{ID: id, Path: path.Join("/", ws.Traits().Root)}, nil
}

// Cleanup destroys a workspace or, if its policy persists it, closes it. An unknown
// workspace is not an error.
func (e *Executor) Cleanup(ctx context.Context, ws codeexecutor.Workspace) error {
	e.mu.Lock()
	p := e.open[ws.ID]
	delete(e.open, ws.ID)
	e.mu.Unlock()
	if p == nil {
		return nil
	}
	return e.endWorkspace(ctx, p)
}

func (e *Executor) endWorkspace(ctx context.Context, p *openWorkspace) error {
	if p.persist {
		return p.ws.Close(ctx)
	}
	return errors.Join(p.ws.Destroy(ctx), e.opts.State.Delete(ctx, p.ws.ID()))
}

// Close closes or destroys all open workspaces.
func (e *Executor) Close(ctx context.Context) error {
	e.mu.Lock()
	all := e.open
	e.open = map[string]*openWorkspace{}
	e.mu.Unlock()
	var errs []error
	for _, p := range all {
		errs = append(errs, e.endWorkspace(ctx, p))
	}
	return errors.Join(errs...)
}

// Workspace returns Croft's handle on a workspace, for features that trpc-agent-go's
// interfaces lack.
func (e *Executor) Workspace(ws codeexecutor.Workspace) (*workspace.Workspace, error) {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return nil, err
	}
	return p.ws, nil
}

func (e *Executor) findWorkspace(ws codeexecutor.Workspace) (*openWorkspace, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, ok := e.open[ws.ID]
	if !ok {
		return nil, fmt.Errorf("trpcagent: workspace %q: %w: %w", ws.ID, fault.NotFound, codeexecutor.ErrWorkspaceStale)
	}
	return p, nil
}

// markStale adds ErrWorkspaceStale of trpc-agent-go to an error that says that the
// workspace is gone.
func markStale(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fault.Evicted), fault.CauseOf(err) == fault.CauseGone:
		return errors.Join(err, codeexecutor.ErrWorkspaceStale)
	}
	return err
}

// CodeBlockDelimiter returns three backticks.
func (e *Executor) CodeBlockDelimiter() codeexecutor.CodeBlockDelimiter {
	return codeexecutor.CodeBlockDelimiter{Start: "```", End: "```"}
}

// ExecuteCode runs code blocks in order, each a file below src, and returns their output
// and the files below out. Blocks with an execution id share a workspace with earlier
// blocks of the same id until Close, and run one call at a time; others have one of their
// own. A failed block is output, and later blocks do not run.
func (e *Executor) ExecuteCode(ctx context.Context, in codeexecutor.CodeExecutionInput) (codeexecutor.CodeExecutionResult, error) {
	ws, done, err := e.codeWorkspace(ctx, in.ExecutionID)
	if err != nil {
		return codeexecutor.CodeExecutionResult{}, err
	}
	defer done()
	p, err := e.findWorkspace(ws)
	if err != nil {
		return codeexecutor.CodeExecutionResult{}, err
	}
	select {
	case p.code <- struct{}{}:
		defer func() { <-p.code }()
	case <-ctx.Done():
		return codeexecutor.CodeExecutionResult{}, fmt.Errorf("trpcagent: wait for code of the same id: %w", ctx.Err())
	}
	out, err := e.runBlocks(ctx, p, in.CodeBlocks)
	if err != nil {
		return codeexecutor.CodeExecutionResult{Output: out}, markStale(err)
	}
	files, leftOut, err := e.collect(ctx, ws, []string{stage.DirOut + "/**"})
	if leftOut != "" {
		out += "\n[output files that are not returned: " + leftOut + "]\n"
	}
	return codeexecutor.CodeExecutionResult{Output: out, OutputFiles: files}, err
}

// codeWorkspace returns the workspace of an execution id.
func (e *Executor) codeWorkspace(ctx context.Context, id string) (codeexecutor.Workspace, func(), error) {
	if id != "" {
		id = "code:" + id // distinct from ids of sessions
		e.making.Lock()
		defer e.making.Unlock()
		e.mu.Lock()
		p := e.open[id]
		e.mu.Unlock()
		if p != nil {
			return codeexecutor.Workspace{ID: id, Path: path.Join("/", p.ws.Traits().Root)}, func() {}, nil
		}
		ws, err := e.CreateWorkspace(ctx, id, codeexecutor.WorkspacePolicy{})
		return ws, func() {}, err
	}
	ws, err := e.CreateWorkspace(ctx, "", codeexecutor.WorkspacePolicy{})
	return ws, func() {
		if err := e.Cleanup(context.WithoutCancel(ctx), ws); err != nil && e.opts.Log != nil {
			e.opts.Log.Warn("trpcagent: end the workspace of code", "error", err)
		}
	}, err
}

// runBlocks runs blocks and returns their output.
func (e *Executor) runBlocks(ctx context.Context, p *openWorkspace, list []codeexecutor.CodeBlock) (string, error) {
	blocks := make([]codeblock.Block, len(list))
	for i, b := range list {
		blocks[i] = codeblock.NewBlock(b.Language, b.Code)
	}
	run, err := p.NewRun(ctx)
	if err != nil {
		return "", err
	}
	res, err := codeblock.Run(ctx, p.ws, blocks, &codeblock.RunOptions{
		Language: "python", Dir: codeblock.SourceDir, Env: p.Env(run), Timeout: e.opts.Timeout, MaxOutput: e.opts.MaxOutput,
	})
	if res == nil {
		return "", err
	}
	var out strings.Builder
	for _, b := range res.Blocks {
		out.WriteString(driver.OutputText(b.Result.Stdout, b.Result.StdoutDropped, ""))
		out.WriteString(driver.OutputText(b.Result.Stderr, b.Result.StderrDropped, ""))
		switch {
		case b.Result.Cause == driver.CauseTimeout:
			fmt.Fprintf(&out, "\n[timed out after %s]\n", b.Result.Duration.Round(time.Millisecond))
		case b.Result.ExitCode != 0:
			fmt.Fprintf(&out, "\n[exit status %d]\n", b.Result.ExitCode)
		}
	}
	return out.String(), err
}
