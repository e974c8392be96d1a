package eval

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// assertEnv gives assertions access to the workspace after the agent has ended.
type assertEnv struct {
	info        suite.EnvInfo
	preparedEnv *preparedEnv
	changes     *changes // nil if they are not known; changesErr says why
	changesErr  error
	report      *session.Report
	judge       JudgeFunc
}

var _ suite.AssertEnv = (*assertEnv)(nil)

// A JudgeFunc asks a model about what an agent did.
type JudgeFunc func(ctx context.Context, q suite.Judge) (suite.Judgement, error)

// maxRead bounds the size of a file that assertions can read.
const maxRead = 64 << 20

// Info describes the execution.
func (e *assertEnv) Info() suite.EnvInfo { return e.info }

// ReadFile returns a file of the workspace.
func (e *assertEnv) ReadFile(ctx context.Context, name string) ([]byte, error) {
	body, info, err := e.preparedEnv.env.Workspace.Read(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close() // only read
	if info.Size > maxRead {
		return nil, fmt.Errorf("eval: read %s: %w: it has %d bytes, and assertions get %d", name, fault.ResourceExhausted, info.Size, maxRead)
	}
	return io.ReadAll(io.LimitReader(body, maxRead))
}

// Stat describes a file of the workspace.
func (e *assertEnv) Stat(ctx context.Context, name string) (suite.FileInfo, error) {
	info, err := e.preparedEnv.env.Workspace.Stat(ctx, name, nil)
	if err != nil {
		return suite.FileInfo{}, err
	}
	return suite.FileInfo{Size: info.Size, Mode: uint32(info.Mode.Perm()), Dir: info.Type == driver.TypeDir}, nil
}

// Changes lists what the agent changed.
func (e *assertEnv) Changes(context.Context) ([]suite.Change, error) {
	if e.changes == nil {
		return nil, e.changesErr
	}
	list := []suite.Change{}
	for _, c := range e.changes.list {
		kind := suite.Modified
		switch c.Kind {
		case session.Added:
			kind = suite.Added
		case session.Removed:
			kind = suite.Deleted
		}
		list = append(list, suite.Change{Path: c.Path, Kind: kind})
	}
	return list, nil
}

// Diff returns what the agent changed, as text.
func (e *assertEnv) Diff(_ context.Context, paths []string) (string, error) {
	if e.changes == nil {
		return "", e.changesErr
	}
	return e.changes.unifiedDiff(paths), nil
}

// commandTime bounds a command of an assertion that sets no time of its own.
const commandTime = 5 * time.Minute

// Run runs a command in the workspace, as an assertion asks.
func (e *assertEnv) Run(ctx context.Context, cmd suite.Command) (suite.CommandResult, error) {
	d := driver.Command{Argv: cmd.Argv, Script: cmd.Script, Dir: cmd.Dir, Timeout: cmd.Timeout, Env: map[string]string{}}
	if d.Timeout == 0 {
		d.Timeout = commandTime
	}
	if cmd.Stdin != "" {
		d.Stdin = strings.NewReader(cmd.Stdin)
	}
	maps.Copy(d.Env, e.preparedEnv.env.env)
	maps.Copy(d.Env, cmd.Env)
	res, err := e.preparedEnv.env.Workspace.Run(ctx, d)
	if err != nil {
		return suite.CommandResult{}, err
	}
	return suite.CommandResult{ExitCode: res.ExitCode, Stdout: driver.OutputText(res.Stdout, res.StdoutDropped, ""), Stderr: driver.OutputText(res.Stderr, res.StderrDropped, ""),
		DurationMs: res.Duration.Milliseconds(), TimedOut: res.Cause == driver.CauseTimeout}, nil
}

// Judge asks a model.
func (e *assertEnv) Judge(ctx context.Context, q suite.Judge) (suite.Judgement, error) {
	if e.judge == nil {
		return suite.Judgement{}, fmt.Errorf("eval: judge: %w: no judge is configured; set croft.judge", fault.Unsupported)
	}
	return e.judge(ctx, q)
}

// usageOf returns what an execution used, for budgets. Without a sandbox the number of
// requests is unknown, because no egress proxy counts them.
func usageOf(r *session.Report, took time.Duration, requests int, sandboxed bool) suite.Usage {
	u := suite.Usage{
		DurationMs: new(float64(took.Milliseconds())), InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens, TotalTokens: r.Usage.TotalTokens,
		Steps: new(float64(r.Steps)),
	}
	calls, commands := 0.0, 0.0
	for _, e := range r.Events {
		switch e.Type {
		case session.ToolCall:
			calls++
		case session.CommandRun:
			commands++
		}
	}
	u.ToolCalls, u.Commands = &calls, &commands
	if r.Cost != nil {
		u.CostUSD = &r.Cost.USD
	}
	if r.PeakMemoryBytes > 0 {
		u.PeakMemory = new(float64(r.PeakMemoryBytes))
	}
	if sandboxed {
		u.Requests = new(float64(requests))
	}
	return u
}
