package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/plaintext"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of workspace_run and workspace_exec.
const (
	defaultRunTime  = 2 * time.Minute
	maxRunTime      = time.Hour
	defaultExecTime = 5 * time.Minute
	maxExecOutput   = 100 << 10
)

var shellOnly = []workspace.Capability{driver.CapShell}

type wsRunInput struct {
	Cmd       string            `json:"cmd" jsonschema:"program to run, without a shell" croft:"command"`
	Args      []string          `json:"args,omitempty" jsonschema:"its arguments" croft:"word"`
	Cwd       string            `json:"cwd,omitempty" jsonschema:"working directory; default the workspace" croft:"path"`
	Env       map[string]string `json:"env,omitempty" jsonschema:"additional environment variables"`
	Stdin     string            `json:"stdin,omitempty" jsonschema:"standard input"`
	TimeoutMS int64             `json:"timeout_ms,omitempty" jsonschema:"time limit in milliseconds; default 120000"`
}

type wsRunOutput struct {
	ExitCode   int    `json:"exit_code"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	Cause      string `json:"cause,omitempty" jsonschema:"why it was ended, if it did not exit by itself: timeout, oom, ..."`
	DurationMS int64  `json:"duration_ms"`
	Dropped    int64  `json:"dropped,omitempty" jsonschema:"bytes of output that were dropped"`
	SessionID  string `json:"session_id,omitempty" jsonschema:"session whose log has the whole output"`
}

func (o wsRunOutput) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "exit_code=%d\nduration_ms=%d\n", o.ExitCode, o.DurationMS)
	if o.Cause != "" {
		fmt.Fprintf(&b, "cause=%s\n", o.Cause)
	}
	if o.Dropped > 0 {
		fmt.Fprintf(&b, "dropped=%d session_id=%s\n", o.Dropped, o.SessionID)
	}
	fmt.Fprintf(&b, "\nstdout:\n%s\n\nstderr:\n%s\n", strings.TrimSuffix(o.Stdout, "\n"), strings.TrimSuffix(o.Stderr, "\n"))
	return b.String()
}

func wsRunTool() *Tool {
	return New(Spec{
		Name: "workspace_run", Family: Shell, Needs: shellOnly, Destructive: true, OpenWorld: true,
		Description: "Run a program with arguments in the workspace, with its isolation, and wait for it.",
	}, wsRun)
}

func wsRun(ctx context.Context, c *Call, in wsRunInput) (wsRunOutput, error) {
	if err := requireArgument("cmd", in.Cmd); err != nil {
		return wsRunOutput{}, err
	}
	limit := defaultRunTime
	if in.TimeoutMS != 0 {
		if in.TimeoutMS < 0 || int64(in.TimeoutMS) > maxRunTime.Milliseconds() {
			return wsRunOutput{}, Errorf(fault.InvalidArgument, "timeout_ms must be between 1 and %d", maxRunTime.Milliseconds())
		}
		limit = time.Duration(in.TimeoutMS) * time.Millisecond
	}
	if err := checkArguments(in.Args, in.Env); err != nil {
		return wsRunOutput{}, err
	}
	res, err := c.Workspace.Run(ctx, driver.Command{
		Argv: append([]string{in.Cmd}, in.Args...), Dir: in.Cwd, Env: in.Env, Stdin: strings.NewReader(in.Stdin),
		Timeout: limit, MaxOutput: maxExecOutput,
	})
	switch {
	case err != nil:
		return wsRunOutput{}, commandError(err)
	case res.Cause == driver.CauseCanceled:
		return wsRunOutput{}, fmt.Errorf("workspace_run: %w", fault.Canceled)
	}
	out := wsRunOutput{ExitCode: res.ExitCode, Cause: string(res.Cause), DurationMS: res.Duration.Milliseconds(), Dropped: res.StdoutDropped + res.StderrDropped}
	out.Stdout = plaintext.Clean(driver.OutputText(res.Stdout, res.StdoutDropped, ""))
	out.Stderr = plaintext.Clean(driver.OutputText(res.Stderr, res.StderrDropped, ""))
	if out.Dropped > 0 {
		out.SessionID = res.Session
	}
	return out, nil
}

// maxArguments bounds the bytes of arguments and environment of a command: half of what
// Linux allows.
const maxArguments = 1 << 20

// checkArguments returns an error if arguments and environment are too long for execve.
func checkArguments(args []string, env map[string]string) error {
	size := 0
	for _, a := range args {
		size += len(a) + 1
	}
	for k, v := range env {
		size += len(k) + len(v) + 2
	}
	if size > maxArguments {
		return Errorf(fault.InvalidArgument, "args and env have %d bytes; at most %d are allowed: write a file, or use stdin", size, maxArguments)
	}
	return nil
}

type wsExecInput struct {
	Command    string            `json:"command" jsonschema:"bash script to run" croft:"command"`
	Cwd        string            `json:"cwd,omitempty" jsonschema:"working directory; default the workspace" croft:"path"`
	Env        map[string]string `json:"env,omitempty" jsonschema:"additional environment variables"`
	Stdin      string            `json:"stdin,omitempty" jsonschema:"beginning of standard input"`
	TimeoutSec int               `json:"timeout_sec,omitempty" jsonschema:"time limit in seconds; default 300, at most 3600"`
	YieldMS    int               `json:"yield_time_ms,omitempty" jsonschema:"return a session after so many milliseconds if it still runs; default wait for it"`
	Background bool              `json:"background,omitempty" jsonschema:"return a session at once"`
	TTY        bool              `json:"tty,omitempty" jsonschema:"run it on a pseudo-terminal"`
}

type wsExecOutput struct {
	Status     string `json:"status" jsonschema:"running or exited"`
	Output     string `json:"output" jsonschema:"standard output, then standard error"`
	ExitCode   *int   `json:"exit_code,omitempty" jsonschema:"once it has ended"`
	TimedOut   bool   `json:"timed_out,omitempty"`
	Cause      string `json:"cause,omitempty" jsonschema:"why it was ended, if it did not exit by itself"`
	SessionID  string `json:"session_id,omitempty" jsonschema:"set while it runs"`
	Truncated  bool   `json:"truncated,omitempty"`
	Dropped    int64  `json:"dropped,omitempty" jsonschema:"bytes that were dropped"`
	DurationMS int64  `json:"duration_ms,omitempty"`
}

func (o wsExecOutput) Text() string {
	text := o.Output
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	switch {
	case o.ExitCode == nil:
		text += fmt.Sprintf("status: running\nsession_id: %s\n", o.SessionID)
	case *o.ExitCode != 0 || o.Cause != "":
		text += fmt.Sprintf("exit_code: %d\n", *o.ExitCode)
		if o.Cause != "" {
			text += "cause: " + o.Cause + "\n"
		}
	}
	return text
}

func wsExecTool() *Tool {
	return New(Spec{
		Name: "workspace_exec", Family: Shell, Needs: shellOnly, Destructive: true, OpenWorld: true,
		Description: "Run a bash command in the workspace, with its isolation. With yield_time_ms or background it continues as a session, for workspace_write_stdin and workspace_kill_session.",
	}, wsExec)
}

func wsExec(ctx context.Context, c *Call, in wsExecInput) (wsExecOutput, error) {
	if err := requireArgument("command", in.Command); err != nil {
		return wsExecOutput{}, err
	}
	seconds, err := Seconds("timeout_sec", in.TimeoutSec, int(defaultExecTime.Seconds()), 3600)
	if err != nil {
		return wsExecOutput{}, err
	}
	if in.YieldMS < 0 {
		return wsExecOutput{}, Errorf(fault.InvalidArgument, "yield_time_ms must not be negative")
	}
	cmd := driver.Command{Script: in.Command, Dir: in.Cwd, Env: in.Env, Interactive: true, Timeout: time.Duration(seconds) * time.Second, MaxOutput: maxExecOutput}
	if in.TTY {
		cmd.TTY = &workspace.Size{Rows: 24, Cols: 80}
	}
	// A session outlives the call; a command that is waited for ends with the call.
	life := ctx
	if in.Background || in.YieldMS > 0 {
		life = context.WithoutCancel(ctx)
	}
	s, err := c.Workspace.Start(life, cmd)
	if err != nil {
		return wsExecOutput{}, commandError(err)
	}
	if in.Stdin != "" {
		if err := s.Write(ctx, []byte(in.Stdin)); err != nil {
			return wsExecOutput{}, err
		}
	}
	yield := time.Duration(in.YieldMS) * time.Millisecond
	switch {
	case in.Background:
		return wsExecOutput{Status: "running", SessionID: s.ID()}, nil
	case in.YieldMS == 0:
		if err := s.CloseStdin(ctx); err != nil && !in.TTY {
			return wsExecOutput{}, err
		}
		yield = maxRunTime + time.Minute
	}
	return collectOutput(ctx, c, s, yield)
}

// collectOutput waits for a session, at most for yield, and returns its new output.
func collectOutput(ctx context.Context, c *Call, s *workspace.Session, yield time.Duration) (wsExecOutput, error) {
	p, err := pollOutput(ctx, c, s, yield)
	if err != nil {
		return wsExecOutput{}, err
	}
	out := wsExecOutput{Status: "running", Output: plaintext.Clean(p.Stdout) + plaintext.Clean(p.Stderr), SessionID: s.ID(), Dropped: p.Dropped, Truncated: p.Dropped > 0}
	if p.Running {
		return out, nil
	}
	res, err := s.Wait(ctx)
	if err != nil {
		return wsExecOutput{}, err
	}
	out.Status, out.SessionID = "exited", ""
	if out.Truncated {
		out.SessionID = s.ID()
	}
	out.ExitCode, out.Cause, out.DurationMS = &res.ExitCode, string(res.Cause), res.Duration.Milliseconds()
	out.TimedOut = res.Cause == driver.CauseTimeout
	return out, nil
}

type wsWriteStdinInput struct {
	SessionID string `json:"session_id" jsonschema:"id from workspace_exec"`
	Chars     string `json:"chars,omitempty" jsonschema:"text to write; empty only shows new output"`
	Newline   bool   `json:"append_newline,omitempty" jsonschema:"append a newline"`
	EOF       bool   `json:"eof,omitempty" jsonschema:"close standard input afterwards"`
	YieldMS   int    `json:"yield_time_ms,omitempty" jsonschema:"how long to wait for output; default 200"`
}

func wsWriteStdinTool() *Tool {
	return New(Spec{
		Name: "workspace_write_stdin", Family: Shell, Needs: shellOnly, Destructive: true, OpenWorld: true,
		Description: "Write to the standard input of a session, and show its output since the last call.",
	}, func(ctx context.Context, c *Call, in wsWriteStdinInput) (wsExecOutput, error) {
		s, err := c.attachSession(ctx, in.SessionID)
		if err != nil {
			return wsExecOutput{}, err
		}
		if err := sendInput(ctx, s, in.Chars, in.Newline, in.EOF); err != nil {
			return wsExecOutput{}, err
		}
		yield := defaultYield
		if in.YieldMS > 0 {
			yield = min(time.Duration(in.YieldMS)*time.Millisecond, maxYield)
		}
		return collectOutput(ctx, c, s, yield)
	})
}

type wsSessionInput struct {
	SessionID string `json:"session_id" jsonschema:"id from workspace_exec"`
}

type wsKillOutput struct {
	OK        bool   `json:"ok"`
	SessionID string `json:"session_id"`
	Status    string `json:"status" jsonschema:"killed, or exited if it had already ended"`
}

func wsKillSessionTool() *Tool {
	return New(Spec{
		Name: "workspace_kill_session", Family: Shell, Needs: shellOnly, Destructive: true,
		Description: "Kill a session with all its processes, and remove it.",
	}, func(ctx context.Context, c *Call, in wsSessionInput) (wsKillOutput, error) {
		s, err := c.attachSession(ctx, in.SessionID)
		if err != nil {
			return wsKillOutput{}, err
		}
		info, err := s.State(ctx)
		if err != nil {
			return wsKillOutput{}, err
		}
		status := "exited"
		if info.Running {
			status = "killed"
		}
		return wsKillOutput{OK: true, SessionID: in.SessionID, Status: status}, s.Close(ctx)
	})
}

// attachSession is attachShell with the error texts of this toolset.
func (c *Call) attachSession(ctx context.Context, id string) (*workspace.Session, error) {
	if err := requireArgument("session_id", id); err != nil {
		return nil, err
	}
	s, _, err := c.attachShell(ctx, id)
	if fault.Of(err) == fault.NotFound {
		return nil, Errorf(fault.NotFound, "unknown session_id: %s", id)
	}
	return s, err
}
