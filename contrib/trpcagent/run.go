package trpcagent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"strings"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// cleanPath is PATH for a program with a clean environment.
const cleanPath = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// makeCommand converts a spec. Limits are enforced, or the run is refused. Memory is a
// resource limit of each process.
func (e *Executor) makeCommand(p *openWorkspace, spec codeexecutor.RunProgramSpec) driver.Command {
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
		driver.ResourceMemory: {Max: saturatingMul(int64(spec.Limits.MemoryMB), mib), BestEffort: true},
		driver.ResourcePIDs:   {Max: int64(spec.Limits.MaxPIDs)},
	}
	if cmd.Env == nil {
		cmd.Env = map[string]string{}
	}
	if _, set := cmd.Env["PATH"]; spec.CleanEnv && !set {
		cmd.Env["PATH"] = cleanPath
	}
	if list := cmd.Env["PATH"]; list != "" {
		cmd.Env["PATH"] = absoluteList(list, path.Join("/", p.ws.Traits().Root, spec.Cwd))
	}
	return cmd
}

// absoluteList makes the relative directories of a PATH absolute: they are relative to the
// working directory of the program, and an empty one is that directory.
func absoluteList(list, dir string) string {
	dirs := strings.Split(list, ":")
	for i, d := range dirs {
		if !path.IsAbs(d) {
			dirs[i] = path.Join(dir, d)
		}
	}
	return strings.Join(dirs, ":")
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
	cmd := e.makeCommand(p, spec)
	if spec.Stdin != "" {
		cmd.Stdin = strings.NewReader(spec.Stdin)
	}
	if cmd, err = p.Command(ctx, cmd); err != nil {
		return codeexecutor.RunResult{}, e.markStale(p, err)
	}
	res, err := p.ws.Run(ctx, cmd)
	switch {
	case ctx.Err() != nil:
		return runResult(res), fmt.Errorf("trpcagent: run %s: %w", spec.Cmd, ctx.Err())
	case e.cleanedUp(p):
		return runResult(res), errors.Join(staleError(ws), codeexecutor.ErrWorkspaceRetryUnsafe, err)
	case errors.Is(err, fault.NotFound) && fault.CauseOf(err) != fault.CauseGone:
		const notFound = 127 // as shells do
		return codeexecutor.RunResult{ExitCode: notFound, Stderr: err.Error() + "\n"}, nil
	case err != nil:
		return codeexecutor.RunResult{}, e.markStale(p, err)
	}
	out := runResult(res)
	out.Stderr += p.diskNote(ctx)
	return out, nil
}

// exitCauseTexts are exit causes in words.
var exitCauseTexts = map[driver.Cause]string{
	driver.CauseKilled:    "the program was killed",
	driver.CauseCanceled:  "the run was cancelled",
	driver.CauseOOM:       "the program was killed: out of memory",
	driver.CausePIDs:      "the program was killed: too many processes",
	driver.CauseDisk:      "the program was killed: no disk space left",
	driver.CauseLost:      "the program was lost: the guest that ran it died; the files of the workspace are kept",
	driver.CauseDestroyed: "the program was ended: its workspace was destroyed or paused",
}

// runResult converts a result. Where the program did not end by itself, the last line of
// its standard error says why.
func runResult(res driver.Result) codeexecutor.RunResult {
	out := codeexecutor.RunResult{
		Stdout: driver.OutputText(res.Stdout, res.StdoutDropped, ""), Stderr: driver.OutputText(res.Stderr, res.StderrDropped, ""),
		ExitCode: res.ExitCode, Duration: res.Duration, TimedOut: res.Cause == driver.CauseTimeout,
	}
	if why := exitCauseTexts[res.Cause]; why != "" {
		out.Stderr += "\n[" + why + "]\n"
	}
	return out
}
