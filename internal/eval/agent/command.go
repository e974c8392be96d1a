package agent

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/fault"
)

// command is any program. Its output format is described in docs/eval-runners.md.
type command struct{ program }

func (command) Type() string { return "command" }

// Prepare passes the prompt as the last argument and in the environment.
func (c command) Prepare(_ context.Context, in Input) (Invocation, error) {
	if c.cfg.Command == "" {
		return Invocation{}, fmt.Errorf("agent: start a command: %w: no command", fault.InvalidArgument)
	}
	d, err := in.openHome("", nil, "home")
	if err != nil {
		return Invocation{}, err
	}
	defer d.Close() //nolint:errcheck // only read from
	env := map[string]string{
		"CROFT_EVAL_PROMPT": in.Prompt, "CROFT_EVAL_MODEL": c.cfg.Model, "CROFT_EVAL_WORKSPACE": in.Dir,
		"CROFT_EVAL_HOME": filepath.Join(in.homeDir(), "home"), "CROFT_EVAL_RUNNER": in.Runner.ID,
	}
	if in.Resume != "" {
		env["CROFT_EVAL_SESSION"] = in.Resume
	}
	if _, err := offerTools(c.Type(), d, in, env); err != nil {
		return Invocation{}, err
	}
	argv := slices.Concat([]string{c.cfg.Command}, c.cfg.CommandArgs, []string{in.Prompt})
	return Invocation{Argv: argv, Env: c.envUnder(env), Dir: in.Dir}, nil
}

// Steps counts the step records of the program.
func (command) Steps() func([]byte) int {
	steps := 0
	return func(line []byte) int {
		if parseRecord(line).kind() == "step" {
			steps++
		}
		return steps
	}
}

// Rejected looks for an error with the code model-rejected.
func (command) Rejected(_ context.Context, _ Runner, _ Input, out Output) bool {
	for _, r := range readRecords(out.Stdout) {
		if r.kind() == "error" && r.str("code") == string(OriginModelRejected) {
			return true
		}
	}
	return false
}

// A reportedError is a failure that the program itself reports.
type reportedError struct{ message string }

func (e *reportedError) Error() string { return "The agent says: " + e.message }

func (e *reportedError) Unwrap() error { return fault.Failed }

// Collect keeps the stream. An error record fails the session.
func (command) Collect(_ context.Context, _ Runner, in Input, out Output) (Raw, error) {
	raw, err := saveStream(in, out, noSessionID)
	if err != nil {
		return Raw{}, err
	}
	for _, r := range readRecords(out.Stdout) {
		switch r.kind() {
		case "session":
			raw.SessionID = cmp.Or(r.str("id"), raw.SessionID)
		case "error":
			return raw, &reportedError{r.str("message")}
		}
	}
	return raw, nil
}

// Normalize reads the stream.
func (command) Normalize(in Input, raw Raw) (*session.Report, error) {
	n := commandReader{dir: in.Dir}
	n.b.Fallback, n.b.Tokens.Partial = bytes.TrimSpace(raw.Stdout), true
	for _, r := range readRecords(raw.Session) {
		n.readRecord(r)
	}
	t := &n.b.Tokens
	if t.Input != nil {
		t.Input = new(*t.Input + valueOrZero(t.Cache))
	}
	return n.b.Report(in.Runner, in.Prompt), nil
}

type commandReader struct {
	b   session.Builder
	dir string
}

func (n *commandReader) readRecord(r record) {
	at := r.str("at")
	switch session.EventType(r.kind()) {
	case session.Message:
		n.addMessage(r, at)
	case session.ToolCall:
		if tool, ok := r.text("tool"); ok {
			n.b.Add(session.Event{Type: session.ToolCall, Tool: tool, Args: r.raw("args"), At: at})
		}
	case session.ToolResult:
		n.b.Add(session.Event{Type: session.ToolResult, Tool: r.str("tool"), Output: r.textOrJSON("output"), At: at})
	case session.CommandRun:
		n.addCommand(r, at)
	case session.FileRead:
		n.b.Read(r.str("path"), n.dir, at)
	case session.SkillSignal:
		if skill, ok := r.text("skill"); ok {
			n.b.Skill(skill, "Loaded via skill tool", at)
		}
	case "usage":
		n.addUsage(r)
	case "error":
		n.b.Fallback = nil // the stream of a failed session is not its output
	case "output":
		if text, ok := r.text("text"); ok {
			n.b.Output = &text
		}
	}
}

func (n *commandReader) addMessage(r record, at string) {
	text, ok := r.text("text")
	if !ok {
		return
	}
	e := session.Event{Type: session.Message, Role: session.Role(cmp.Or(r.str("role"), string(session.Assistant))), Text: text, At: at}
	switch p := session.Phase(r.str("phase")); p {
	case session.Thinking, session.Commentary, session.Final:
		e.Phase = p
	default:
		if e.Role == session.Assistant {
			e.Phase = session.Final
		}
	}
	if e.Role == session.Assistant || e.Role == session.User {
		n.b.Add(e)
	}
}

func (n *commandReader) addCommand(r record, at string) {
	text, ok := r.text("command")
	if !ok {
		return
	}
	dir := n.dir
	if d, ok := session.Resolve(r.str("dir"), n.dir); ok {
		dir = d
	}
	cmd := n.b.Run(text, dir, at)
	if code := r.num("exitCode"); code != nil {
		cmd.ExitCode = new(int(*code))
	}
	cmd.DurationMs = r.num("durationMs")
}

// addUsage adds the token counts of one record.
func (n *commandReader) addUsage(r record) {
	t := &n.b.Tokens
	t.Input = addCounts(t.Input, r.num("inputTokens"))
	t.Output = addCounts(t.Output, r.num("outputTokens"))
	t.Reasoning = addCounts(t.Reasoning, r.num("reasoningTokens"))
	t.Cache = addCounts(t.Cache, r.num("cacheTokens"))
	if usd := r.num("costUsd"); usd != nil {
		if n.b.Cost == nil {
			n.b.Cost = &session.Cost{}
		}
		n.b.Cost.USD += *usd
	}
}
