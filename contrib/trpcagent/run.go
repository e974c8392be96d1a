package trpcagent

import (
	"context"
	"errors"
	"maps"
	"math"
	"strings"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// cleanPath is PATH for a program with a clean environment.
const cleanPath = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// makeCommand converts a spec. Limits are enforced, or the run is refused.
func (e *Executor) makeCommand(spec codeexecutor.RunProgramSpec) driver.Command {
	cmd := driver.Command{
		Argv: append([]string{spec.Cmd}, spec.Args...), Dir: spec.Cwd, Env: maps.Clone(spec.Env), Clean: spec.CleanEnv,
		Timeout: spec.Timeout, MaxOutput: e.opts.MaxOutput,
	}
	if cmd.Timeout <= 0 {
		cmd.Timeout = e.opts.Timeout
	}
	const percent, mib = 10, 1 << 20 // thousandths of a core
	cmd.Limits = driver.Limits{
		driver.ResourceCPU:    {Max: saturatingMul(int64(spec.Limits.CPUPercent), percent)},
		driver.ResourceMemory: {Max: saturatingMul(int64(spec.Limits.MemoryMB), mib)},
		driver.ResourcePIDs:   {Max: int64(spec.Limits.MaxPIDs)},
	}
	if cmd.Env == nil {
		cmd.Env = map[string]string{}
	}
	if _, set := cmd.Env["PATH"]; spec.CleanEnv && !set {
		cmd.Env["PATH"] = cleanPath
	}
	return cmd
}

// saturatingMul multiplies and saturates: an overflow must not turn a limit into none.
func saturatingMul(n, unit int64) int64 {
	if n > math.MaxInt64/unit {
		return math.MaxInt64
	}
	return n * unit
}

// RunProgram runs a program to its end, or to its time-out, with all its children. A
// program that is not found exits with 127 and a message.
func (e *Executor) RunProgram(ctx context.Context, ws codeexecutor.Workspace, spec codeexecutor.RunProgramSpec) (codeexecutor.RunResult, error) {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return codeexecutor.RunResult{}, err
	}
	cmd := e.makeCommand(spec)
	if spec.Stdin != "" {
		cmd.Stdin = strings.NewReader(spec.Stdin)
	}
	if cmd, err = p.Command(ctx, cmd); err != nil {
		return codeexecutor.RunResult{}, markStale(err)
	}
	res, err := p.ws.Run(ctx, cmd)
	if err != nil {
		if errors.Is(err, fault.NotFound) && ctx.Err() == nil {
			const notFound = 127 // as shells do
			return codeexecutor.RunResult{ExitCode: notFound, Stderr: err.Error() + "\n"}, nil
		}
		return codeexecutor.RunResult{}, markStale(err)
	}
	return runResult(res), ctx.Err()
}

func runResult(res driver.Result) codeexecutor.RunResult {
	return codeexecutor.RunResult{
		Stdout: driver.OutputText(res.Stdout, res.StdoutDropped, ""), Stderr: driver.OutputText(res.Stderr, res.StderrDropped, ""),
		ExitCode: res.ExitCode, Duration: res.Duration, TimedOut: res.Cause == driver.CauseTimeout,
	}
}
