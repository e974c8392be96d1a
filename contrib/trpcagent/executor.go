package trpcagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/wrap/interpreters"
	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/sandbox"
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

	// Persist keeps every workspace, as WorkspacePolicy.Persist does for one: Cleanup and
	// Close leave the files, and CreateWorkspace with the same id finds them again, also
	// in another process. Destroy removes them. Pinned versions of inputs are found again
	// if State is durable, too.
	Persist bool

	// WorkDir is a directory of the host. Each workspace is a new directory in it, used in
	// place, and ExecuteCode runs in WorkDir itself. It is created if it does not exist.
	// "" leaves the files to the provider.
	WorkDir string

	// TrustedLocal makes WorkDir itself every workspace. Cleanup leaves it as it is.
	TrustedLocal bool

	// InputsDir is a directory of the host, of which each workspace has a copy at
	// work/inputs; "" copies nothing.
	InputsDir string

	// Delimiter starts and ends code blocks; the zero value is three backticks.
	Delimiter codeexecutor.CodeBlockDelimiter

	// ReadOnlySkills makes every directory that StageDirectory stages read-only.
	ReadOnlySkills bool

	// Kernels runs the Python of ExecuteCode in a Jupyter kernel inside the workspace. Code of
	// the same execution id finds the state of earlier code, until the workspace was closed for
	// CodeIdle and its guest ended. It needs a kernel where programs run (ipykernel).
	Kernels bool

	// CodeIdle is how long the workspace of an execution id stays open after its last
	// code; 0 is 5 minutes. Its guest ends after the provider's lease. The files stay, and
	// the next code of that id opens the workspace again.
	CodeIdle time.Duration
}

// An Executor runs the programs and keeps the files of trpc-agent-go's agents in
// Croft's workspaces. It is safe for concurrent use.
type Executor struct {
	p      driver.Provider
	mux    *workspace.Mux
	kind   string
	traits workspace.Traits
	opts   Options
	onEnd  func() error // ends what NewSandbox made; may be nil

	making sync.Mutex // serialises making workspaces of code and persistent ones, so that one id has one workspace

	mu       sync.Mutex
	open     map[string]*openWorkspace // guarded by mu; by the id of the handle
	code     map[string]*codeSession   // guarded by mu; by execution id
	reopened map[string]int            // guarded by mu; how often a persistent workspace was opened, by execution id
}

// An openWorkspace is a workspace that is open.
type openWorkspace struct {
	*stage.Stage
	ws      *workspace.Workspace
	handle  codeexecutor.Workspace
	persist bool
	ownDir  string // in WorkDir, removed with the workspace

	// softDisk bounds what the files hold where nothing enforces MaxDiskBytes: staging beyond
	// it is refused, and a run that ends beyond it says so. 0 is no limit.
	softDisk int64

	ended bool // guarded by Executor.mu; Cleanup or Close has ended it

	renewals sync.Mutex
	stale    []*driver.Workspace // guarded by renewals; evicted ones, closed at the end
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

// New returns an executor on a provider, after probing it. A provider without commands is
// refused: if it lacks croft-guest, the error names it.
func New(ctx context.Context, p driver.Provider, opts *Options) (*Executor, error) {
	e := &Executor{
		p: p, mux: workspace.NewMux(p), kind: p.Kind(), open: map[string]*openWorkspace{}, code: map[string]*codeSession{}, reopened: map[string]int{},
	}
	if opts != nil {
		e.opts = *opts
	}
	if e.opts.Kernels {
		p = interpreters.Wrap(p, interpreters.Config{Engine: new(isolate.Engine)})
		e.p, e.mux = p, workspace.NewMux(p)
	}
	if err := e.opts.setDefaults(); err != nil {
		return nil, err
	}
	var err error
	if e.traits, err = p.Probe(ctx); err != nil {
		return nil, fmt.Errorf("trpcagent: %s: %w", e.kind, err)
	}
	if (e.opts.WorkDir != "") && !e.traits.InPlace {
		return nil, fmt.Errorf("trpcagent: work directory: %w: provider %s uses no directory in place", fault.Unsupported, e.kind)
	}
	return e, e.checkShell(ctx)
}

func (o *Options) setDefaults() error {
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Minute
	}
	if o.MaxOutput == 0 {
		o.MaxOutput = 8 << 20
	}
	if o.CodeIdle == 0 {
		o.CodeIdle = 5 * time.Minute
	}
	if o.State == nil {
		o.State = stage.NewMemoryState()
	}
	if o.Delimiter == (codeexecutor.CodeBlockDelimiter{}) {
		o.Delimiter = codeexecutor.CodeBlockDelimiter{Start: "```", End: "```"}
	}
	if o.TrustedLocal && o.WorkDir == "" {
		return fmt.Errorf("trpcagent: %w: TrustedLocal needs a WorkDir", fault.InvalidArgument)
	}
	for _, dir := range []*string{&o.WorkDir, &o.InputsDir} {
		if *dir == "" {
			continue
		}
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("trpcagent: directory %q: %w: %w", *dir, fault.InvalidArgument, err)
		}
		*dir = abs
	}
	return nil
}

// checkShell returns the provider's reason for having no commands.
func (e *Executor) checkShell(ctx context.Context) error {
	if caps := e.p.Features().Capabilities; caps == nil || caps.Has(driver.CapShell) {
		return nil
	}
	spec := workspace.Spec{ID: workspace.NewID(), Kind: e.kind, Want: e.wanted(), Config: e.opts.Config}
	d, err := e.p.Open(ctx, spec)
	if err != nil {
		return fmt.Errorf("trpcagent: %w", err)
	}
	return d.Life.Destroy(ctx)
}

// wanted is what a workspace must have.
func (e *Executor) wanted() driver.Capabilities {
	caps := driver.NewCapabilities(driver.CapFS, driver.CapShell)
	if e.opts.Kernels {
		caps[driver.CapCode] = true
	}
	return caps
}

// Engine returns the executor itself: it is its own engine.
func (e *Executor) Engine() codeexecutor.Engine { return e }

// Manager returns the executor itself.
func (e *Executor) Manager() codeexecutor.WorkspaceManager { return e }

// FS returns the executor itself.
func (e *Executor) FS() codeexecutor.WorkspaceFS { return e }

// Runner returns the executor itself.
func (e *Executor) Runner() codeexecutor.ProgramRunner { return e }

// PathListSeparator separates the directories of PATH in a workspace.
func (e *Executor) PathListSeparator() string { return ":" }

// Describe says what the provider enforces on this host with the executor's policy.
func (e *Executor) Describe() codeexecutor.Capabilities {
	disk, limit := e.traits.MaxDisk, e.opts.Policy.Limits[driver.ResourceDisk].Max
	if limit > 0 {
		disk = limit
	}
	// As root the sandbox mounts directories into what it keeps itself and without a quota.
	mounts := e.kind == sandbox.Kind && e.traits.Isolation == driver.IsolationNamespaces && os.Geteuid() == 0 && e.opts.WorkDir == "" && limit == 0
	return codeexecutor.Capabilities{
		Isolation: string(e.traits.Isolation), NetworkAllowed: !e.opts.Policy.Network.None() || e.traits.Network == driver.NetworkOpen,
		ReadOnlyMount: mounts, Streaming: e.traits.Streaming, MaxDiskBytes: disk, SupportsCleanEnv: true,
	}
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

// findWorkspace returns the workspace of a handle. A handle from before a Cleanup is stale,
// also if a new workspace has its id: their paths differ.
func (e *Executor) findWorkspace(ws codeexecutor.Workspace) (*openWorkspace, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, ok := e.open[ws.ID]
	if !ok || ws.Path != "" && ws.Path != p.handle.Path {
		return nil, staleError(ws)
	}
	return p, nil
}

func staleError(ws codeexecutor.Workspace) error {
	return fmt.Errorf("trpcagent: workspace %q was cleaned up: %w: %w", ws.ID, fault.NotFound, codeexecutor.ErrWorkspaceStale)
}

// markStale adds ErrWorkspaceStale of trpc-agent-go to an error that says that the
// workspace is gone.
func (e *Executor) markStale(p *openWorkspace, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fault.Evicted) || fault.CauseOf(err) == fault.CauseGone {
		return errors.Join(err, codeexecutor.ErrWorkspaceStale)
	}
	if e.cleanedUp(p) {
		return errors.Join(staleError(p.handle), err)
	}
	return err
}

// cleanedUp reports whether Cleanup or Close has ended a workspace.
func (e *Executor) cleanedUp(p *openWorkspace) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.ended
}

// CodeBlockDelimiter returns Options.Delimiter.
func (e *Executor) CodeBlockDelimiter() codeexecutor.CodeBlockDelimiter { return e.opts.Delimiter }
