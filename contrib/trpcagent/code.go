package trpcagent

import (
	"context"
	"fmt"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/interp/codeblock"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace"
)

// A codeSession is the workspace of an execution id of ExecuteCode. While no code runs in
// it, it may be closed; its files stay.
type codeSession struct {
	id      string         // of the workspace
	running chan struct{}  // a token while code runs, because the files of blocks have the same names
	p       *openWorkspace // nil while it is closed; guarded by running
	used    bool           // it was opened; guarded by running
	idle    *time.Timer    // closes it; guarded by running

	cancel context.CancelFunc // of the code that runs; guarded by Executor.mu
}

// ExecuteCode runs code blocks in order, each a file below src, and returns their output
// and the files below out. Blocks with an execution id share a workspace with earlier
// blocks of the same id until Close, and run one call at a time; others have one of their
// own. With Options.WorkDir all code runs there, one call at a time. A failed block is
// output, and later blocks do not run.
func (e *Executor) ExecuteCode(ctx context.Context, in codeexecutor.CodeExecutionInput) (codeexecutor.CodeExecutionResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, done, err := e.codeWorkspace(ctx, cancel, in.ExecutionID)
	if err != nil {
		return codeexecutor.CodeExecutionResult{}, err
	}
	defer done()
	res, err := e.runBlocks(ctx, p, in.CodeBlocks, e.opts.Timeout)
	out := ""
	for _, b := range res {
		out += blockText(b)
	}
	if err != nil {
		return codeexecutor.CodeExecutionResult{Output: out}, e.markStale(p, err)
	}
	files, man, err := e.collect(ctx, p, []string{stage.DirOut + "/**"})
	if man.Left+man.Skips > 0 || man.SearchCut {
		out += "\n[output files that are not returned: " + man.LeftOut() + "]\n"
	}
	return codeexecutor.CodeExecutionResult{Output: out, OutputFiles: files}, err
}

// blockText returns the output of a block, and how it ended unless it succeeded.
func blockText(r codeexecutor.RunResult) string {
	out := r.Stdout + r.Stderr
	switch {
	case r.TimedOut:
		out += fmt.Sprintf("\n[timed out after %s]\n", r.Duration.Round(time.Millisecond))
	case r.ExitCode != 0:
		out += fmt.Sprintf("\n[exit status %d]\n", r.ExitCode)
	}
	return out
}

// ExecuteInline runs code blocks in a workspace of their own, each for at most timeout. The
// exit status is that of the last block that ran.
func (e *Executor) ExecuteInline(ctx context.Context, execID string, blocks []codeexecutor.CodeBlock, timeout time.Duration) (codeexecutor.RunResult, error) {
	p, err := e.openWorkspace(ctx, workspace.NewID(), execID, e.opts.TrustedLocal, codeexecutor.WorkspacePolicy{})
	if err != nil {
		return codeexecutor.RunResult{}, err
	}
	defer e.dropWorkspace(ctx, p)
	list, err := e.runBlocks(ctx, p, blocks, timeout)
	var sum codeexecutor.RunResult
	for _, r := range list {
		sum.Stdout += r.Stdout
		sum.Stderr += r.Stderr
		sum.ExitCode, sum.TimedOut = r.ExitCode, r.TimedOut
		sum.Duration += r.Duration
	}
	return sum, e.markStale(p, err)
}

// dropWorkspace ends a workspace that no handle names.
func (e *Executor) dropWorkspace(ctx context.Context, p *openWorkspace) {
	if err := e.endWorkspace(context.WithoutCancel(ctx), p); err != nil && e.opts.Log != nil {
		e.opts.Log.Warn("trpcagent: end the workspace of code", "error", err)
	}
}

// codeWorkspace returns the workspace of an execution id, and a function to call when the
// code has ended. Close calls cancel.
func (e *Executor) codeWorkspace(ctx context.Context, cancel context.CancelFunc, id string) (*openWorkspace, func(), error) {
	if e.opts.WorkDir != "" {
		id = "work directory" // one call at a time, whatever its id
	}
	if id == "" {
		p, err := e.openWorkspace(ctx, workspace.NewID(), "", true, codeexecutor.WorkspacePolicy{})
		return p, func() { e.dropWorkspace(ctx, p) }, err
	}
	id = "code:" + id // distinct from ids of sessions
	e.mu.Lock()
	c := e.code[id]
	if c == nil {
		c = &codeSession{id: workspace.NewID(), running: make(chan struct{}, 1)}
		if e.opts.Persist {
			c.id = persistentID(id)
		}
		e.code[id] = c
	}
	e.mu.Unlock()
	select {
	case c.running <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("trpcagent: wait for code of the same id: %w", ctx.Err())
	}
	if c.idle != nil {
		c.idle.Stop()
	}
	if c.p == nil {
		p, err := e.openWorkspace(ctx, c.id, id, true, codeexecutor.WorkspacePolicy{Persist: true})
		if err != nil {
			<-c.running
			return nil, nil, err
		}
		c.p, c.used = p, true
	}
	e.mu.Lock()
	c.cancel = cancel
	e.mu.Unlock()
	return c.p, func() {
		c.idle = time.AfterFunc(e.opts.CodeIdle, func() { e.closeIdle(c) })
		<-c.running
	}, nil
}

// closeIdle closes the workspace of a code session in which no code runs.
func (e *Executor) closeIdle(c *codeSession) {
	select {
	case c.running <- struct{}{}:
	default:
		return // code runs again
	}
	defer func() { <-c.running }()
	if c.p != nil {
		e.dropWorkspace(context.Background(), c.p) //nolint:forbidigo // no call is under way
		c.p = nil
	}
}

// endCode ends the code that runs, and destroys the workspace of a code session or, with
// Options.Persist, closes it.
func (e *Executor) endCode(ctx context.Context, c *codeSession) error {
	e.mu.Lock()
	if c.cancel != nil {
		c.cancel()
	}
	e.mu.Unlock()
	select {
	case c.running <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("trpcagent: end the workspace of code: %w", ctx.Err())
	}
	defer func() { <-c.running }()
	if c.idle != nil {
		c.idle.Stop()
	}
	if !c.used || e.opts.Persist && c.p == nil {
		return nil
	}
	if c.p == nil {
		p, err := e.openWorkspace(ctx, c.id, "", true, codeexecutor.WorkspacePolicy{Persist: true})
		if err != nil {
			return err
		}
		c.p = p
	}
	c.p.persist = e.opts.Persist
	err := e.endWorkspace(ctx, c.p)
	c.p = nil
	return err
}

// runBlocks runs blocks and returns how each ended.
func (e *Executor) runBlocks(ctx context.Context, p *openWorkspace, list []codeexecutor.CodeBlock, timeout time.Duration) ([]codeexecutor.RunResult, error) {
	blocks := make([]codeblock.Block, len(list))
	for i, b := range list {
		blocks[i] = codeblock.NewBlock(b.Language, b.Code)
	}
	run, err := p.NewRun(ctx)
	if err != nil {
		return nil, err
	}
	opts := &codeblock.RunOptions{Language: "python", Dir: codeblock.SourceDir, Env: p.Env(run), Timeout: timeout, MaxOutput: e.opts.MaxOutput, Kernel: e.opts.Kernels}
	if e.opts.WorkDir != "" {
		opts.Dir = ""
	}
	res, err := codeblock.Run(ctx, p.ws, blocks, opts)
	if res == nil {
		return nil, err
	}
	out := make([]codeexecutor.RunResult, len(res.Blocks))
	for i, b := range res.Blocks {
		out[i] = runResult(b.Result)
	}
	return out, err
}
