package agent

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/eval/session"
)

// copilot is GitHub Copilot CLI.
type copilot struct{ program }

func (copilot) Type() string { return "copilot" }

const (
	copilotHome = "copilot-home"
	copilotOTel = "copilot-otel.jsonl"
)

// Prepare sets the home of Copilot by COPILOT_HOME. Token counts come from a telemetry
// file.
func (c copilot) Prepare(_ context.Context, in Input) (Invocation, error) {
	d, err := in.openHome("", nil, copilotHome)
	if err != nil {
		return Invocation{}, err
	}
	defer d.Close() //nolint:errcheck // only read from
	if _, err := offerTools(c.Type(), d, in, nil); err != nil {
		return Invocation{}, err
	}
	argv := append([]string{c.commandName("copilot")}, c.cfg.CommandArgs...)
	argv = append(argv, "-p", in.Prompt)
	if in.Resume != "" {
		argv = append(argv, "--resume="+in.Resume)
	}
	argv = append(argv, "--model", c.cfg.Model, "--output-format", "json", "--stream", "on", "--no-auto-update", "--no-custom-instructions",
		"--disable-builtin-mcps", "--no-remote", "--allow-all-tools", "--disallow-temp-dir", "-C", in.Dir)
	env := map[string]string{"COPILOT_HOME": d.path(copilotHome), "COPILOT_AUTO_UPDATE": "false", "NO_COLOR": "1",
		"COPILOT_OTEL_FILE_EXPORTER_PATH": filepath.Join(in.Artifacts, copilotOTel)}
	if in.Sandboxed && c.cfg.Env["COPILOT_PROVIDER_BASE_URL"] != "" {
		env["COPILOT_OFFLINE"] = "true" // a custom model needs no request to GitHub
	}
	return Invocation{Argv: argv, Env: c.envUnder(env), Dir: in.Dir,
		Hosts: c.modelHosts("COPILOT_PROVIDER_BASE_URL", "api.githubcopilot.com", "*.githubcopilot.com", "api.github.com")}, nil
}

// Steps counts messages of the assistant.
func (copilot) Steps() func([]byte) int {
	seen := map[string]bool{}
	return func(line []byte) int {
		if r := parseRecord(line); r.kind() == "assistant.message" {
			if id, ok := r.obj("data").text("messageId"); ok {
				seen[id] = true
			}
		}
		return len(seen)
	}
}

// Rejected looks for an error about the model, in a session without an answer of a model.
func (copilot) Rejected(_ context.Context, _ Runner, _ Input, out Output) bool {
	refused := false
	for _, r := range readRecords(out.Stdout) {
		switch r.kind() {
		case "assistant.message", "tool.execution_start":
			return false
		case "session.error":
			refused = refused || isCopilotModelError(r.obj("data").str("message"))
		}
	}
	return refused || isCopilotModelError(string(out.Stderr))
}

func isCopilotModelError(message string) bool {
	return isModelError(message) || (strings.Contains(message, "Model ") && strings.Contains(message, " is not available")) ||
		(strings.Contains(message, "--model") && strings.Contains(message, "is not available"))
}

// Collect keeps the stream and finds the telemetry.
func (copilot) Collect(_ context.Context, _ Runner, in Input, out Output) (Raw, error) {
	raw, err := saveStream(in, out, noSessionID)
	if err != nil {
		return Raw{}, err
	}
	for _, r := range readRecords(out.Stdout) { // the last one counts
		if id, ok := r.text("sessionId"); ok {
			raw.SessionID = id
		} else if id, ok := r.obj("data").text("sessionId"); ok {
			raw.SessionID = id
		}
	}
	d, err := openDir(in.Artifacts)
	if err != nil {
		return Raw{}, err
	}
	defer d.Close() //nolint:errcheck // only read from
	switch text, err := d.read(copilotOTel); {
	case err == nil:
		raw.Telemetry, raw.TelemetryPath = text, d.path(copilotOTel)
	case !errors.Is(err, fs.ErrNotExist):
		return raw, err
	}
	return raw, nil
}

// Normalize reads the stream and the telemetry.
func (copilot) Normalize(in Input, raw Raw) (*session.Report, error) {
	n := copilotReader{dir: in.Dir, calls: map[string]toolCall{}}
	n.b.Fallback = raw.Stdout
	for _, r := range readRecords(raw.Session) {
		n.readRecord(r.kind(), r.obj("data"), r.str("timestamp"))
	}
	n.b.Tokens = copilotTokens(allRecords(raw.Telemetry))
	n.b.Reads = unique(n.b.Reads)
	return n.b.Report(in.Runner, in.Prompt), nil
}

type copilotReader struct {
	b     session.Builder
	dir   string
	calls map[string]toolCall
}

func (n *copilotReader) readRecord(kind string, data record, at string) {
	text := data.str("content")
	switch kind {
	case "user.message":
		if text != "" {
			n.b.Add(session.Event{Type: session.Message, Role: session.User, Text: text, At: at})
		}
	case "assistant.message":
		if text != "" {
			n.b.Say(copilotPhase(data.str("phase")), text, at)
		}
	case "assistant.reasoning":
		if text != "" {
			n.b.Say(session.Thinking, text, at)
		}
	case "tool.execution_start":
		n.startCall(data, at)
	case "tool.execution_complete":
		n.completeCall(data, at)
	}
}

func copilotPhase(phase string) session.Phase {
	switch p := session.Phase(phase); p {
	case session.Thinking, session.Commentary:
		return p
	}
	return session.Final
}

func (n *copilotReader) startCall(data record, at string) {
	tool, named := data.text("toolName")
	args := data.obj("arguments")
	if named {
		n.b.Add(session.Event{Type: session.ToolCall, Tool: tool, Args: data.raw("arguments"), At: at})
	}
	if skill, ok := args.firstText("skill", "name"); ok && tool == "skill" {
		n.b.Skill(skill, "Loaded via skill tool", at)
	}
	call := toolCall{tool: tool}
	if command, ok := copilotCommand(tool, args, data); ok {
		n.b.Run(command, n.dir, at)
		call.command = len(n.b.Commands)
	}
	if tool == "view" {
		n.b.Read(args.str("path"), n.dir, at)
	}
	if id, ok := data.text("toolCallId"); ok {
		n.calls[id] = call
	}
}

// completeCall reads the end of a call. The command in its telemetry is used only if the
// start named none.
func (n *copilotReader) completeCall(data record, at string) {
	call := n.calls[data.str("toolCallId")]
	tool := cmp.Or(data.str("toolName"), call.tool)
	if output := copilotOutput(data); output != "" {
		n.b.Add(session.Event{Type: session.ToolResult, Tool: tool, Output: output, At: at})
	}
	if call.command > 0 {
		cmd := &n.b.Commands[call.command-1]
		cmd.ExitCode, cmd.DurationMs = copilotExit(data), millisBetween(cmd.At, at)
	} else if command, ok := copilotCommand(tool, nil, data); ok {
		n.b.Run(command, n.dir, at).ExitCode = copilotExit(data)
	}
}

// copilotExit returns the exit code of a command, nil if it is not known.
func copilotExit(data record) *int {
	for _, code := range []*float64{data.obj("shellExecution").num("exitCode"), data.obj("toolTelemetry").obj("metrics").num("exitCode")} {
		if code != nil {
			return new(int(*code))
		}
	}
	if code, ok := exitCodeIn(data.obj("result").str("content"), "<exited with exit code "); ok {
		return &code
	}
	return nil
}

func copilotCommand(tool string, args, data record) (string, bool) {
	switch tool {
	case "bash", "write_bash", "read_bash", "stop_bash", "list_bash":
	default:
		return "", false
	}
	if command, ok := args.text("command"); ok {
		return command, true
	}
	return data.obj("toolTelemetry").obj("properties").text("command")
}

func copilotOutput(data record) string {
	if e := data.obj("error"); e != nil {
		if message, ok := e.text("message"); ok {
			return message
		}
		return data.textOrJSON("error")
	}
	if text, ok := data.obj("result").firstText("detailedContent", "content"); ok {
		return text
	}
	return data.textOrJSON("result")
}

// copilotTokens reads the span of the whole session, or of the first model call.
func copilotTokens(spans []record) session.Tokens {
	const prefix = "gen_ai.usage."
	var found record
	for _, s := range spans {
		attrs, name := s.obj("attributes"), s.str("name")
		if s.kind() != "span" || attrs.num(prefix+"input_tokens") == nil {
			continue
		}
		if name == "invoke_agent" {
			found = attrs
			break
		}
		if found == nil && strings.HasPrefix(name, "chat ") {
			found = attrs
		}
	}
	return session.Tokens{Partial: true, Input: found.num(prefix + "input_tokens"), Output: found.num(prefix + "output_tokens"),
		Reasoning: found.num(prefix + "reasoning_output_tokens"), Cache: found.num(prefix + "cache_read_input_tokens")}
}
