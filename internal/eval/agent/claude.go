package agent

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/eval/session"
)

// claude is Claude Code.
type claude struct{ program }

func (claude) Type() string { return "claude-code" }

const claudeHome = "claude-home"

// Prepare sets the home of Claude Code by CLAUDE_CONFIG_DIR, with the user's credentials,
// settings and memory, but without sessions and skills.
func (c claude) Prepare(_ context.Context, in Input) (Invocation, error) {
	d, err := in.openHome(".claude", []string{".credentials.json", "settings.json", "CLAUDE.md"}, claudeHome)
	if err != nil {
		return Invocation{}, err
	}
	defer d.Close() //nolint:errcheck // only read from
	args := []string{"-p"}
	if in.Resume != "" {
		args = append(args, "-r", in.Resume)
	} else if err := trustWorkspace(d, in.Dir); err != nil {
		return Invocation{}, err
	}
	tools, err := offerTools(c.Type(), d, in, nil)
	if err != nil {
		return Invocation{}, err
	}
	args = append(args, tools...)
	args = append(args, "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", "--model", c.cfg.Model)
	env := map[string]string{"CLAUDE_CONFIG_DIR": d.path(claudeHome)}
	if in.Sandboxed {
		env["IS_SANDBOX"] = "1" // else it refuses to skip permissions as root, even of a user namespace
		maps.Copy(env, quietClaude)
	}
	return Invocation{Argv: c.buildArgv("claude", in.Prompt, args...), Env: c.envUnder(env), Dir: in.Dir, user: d.user,
		Hosts: c.modelHosts("ANTHROPIC_BASE_URL", "api.anthropic.com")}, nil
}

// trustWorkspace marks the workspace as trusted in the settings of Claude Code. In a
// workspace that is not trusted it ignores MCP servers and hooks of the project.
func trustWorkspace(d *agentDir, workspace string) error {
	state := map[string]any{"hasCompletedOnboarding": true, "projects": map[string]any{workspace: map[string]any{"hasTrustDialogAccepted": true}}}
	return d.write(filepath.Join(claudeHome, ".claude.json"), encodeJSON(state), 0o600)
}

// quietClaude disables requests to hosts that Claude Code does not need.
var quietClaude = map[string]string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}

// Steps counts messages of the assistant.
func (claude) Steps() func([]byte) int {
	seen := map[string]bool{}
	return func(line []byte) int {
		if r := parseRecord(line); r.kind() == "assistant" {
			if id, ok := r.obj("message").text("id"); ok {
				seen[id] = true
			}
		}
		return len(seen)
	}
}

// synthetic is the model name of messages that Claude Code writes itself.
const synthetic = "<synthetic>"

// Rejected looks for a result with status 404, in a session without an answer of a model.
func (claude) Rejected(_ context.Context, _ Runner, _ Input, out Output) bool {
	refused := false
	for _, r := range readRecords(out.Stdout) {
		switch r.kind() {
		case "assistant":
			if r.obj("message").str("model") != synthetic {
				return false
			}
		case "result":
			status := r.num("api_error_status")
			refused = r.isTrue("is_error") && status != nil && *status == 404
		}
	}
	return refused
}

// Collect keeps the stream.
func (claude) Collect(_ context.Context, _ Runner, in Input, out Output) (Raw, error) {
	return saveStream(in, out, func(r record) (string, bool) {
		id, ok := r.text("session_id")
		return id, ok && (r.kind() == "system" || r.kind() == "result")
	})
}

// saveStream writes the standard output as session.stream.jsonl, the session of agents
// that write no better one. The session id is the first that sessionID finds in a record.
func saveStream(in Input, out Output, sessionID func(record) (string, bool)) (Raw, error) {
	const name = "session.stream.jsonl"
	d, err := openDir(in.Artifacts)
	if err != nil {
		return Raw{}, err
	}
	defer d.Close() //nolint:errcheck // only read from
	if !d.linkLog(out.log, name) {
		if err := d.write(name, out.Stdout, 0o600); err != nil {
			return Raw{}, err
		}
	}
	raw := Raw{Output: out, Session: out.Stdout, ExportPath: d.path(name)}
	for _, r := range readRecords(out.Stdout) {
		if id, ok := sessionID(r); ok {
			raw.SessionID = id
			break
		}
	}
	return raw, nil
}

// noSessionID is for agents whose session ids are found in another way.
func noSessionID(record) (string, bool) { return "", false }

// Normalize reads the stream.
func (claude) Normalize(in Input, raw Raw) (*session.Report, error) {
	n := claudeReader{in: in, calls: map[string]toolCall{}}
	n.b.Fallback, n.b.Tokens.Partial = raw.Stdout, true
	for _, r := range readRecords(raw.Session) {
		switch r.kind() {
		case "assistant":
			n.at = r.str("timestamp")
			for _, block := range r.obj("message").list("content") {
				n.readBlock(block)
			}
		case "user":
			n.at = r.str("timestamp")
			for _, block := range r.obj("message").list("content") {
				if block.kind() == "tool_result" {
					n.readResult(block, r.obj("tool_use_result"))
				}
			}
		case "result":
			n.readEnd(r)
		}
	}
	return n.b.Report(in.Runner, in.Prompt), nil
}

type claudeReader struct {
	in    Input
	at    string // time of the current record; events have no time
	b     session.Builder
	calls map[string]toolCall
}

// readBlock reads one content block of the assistant.
func (n *claudeReader) readBlock(block record) {
	switch block.kind() {
	case "thinking":
		if text := block.str("thinking"); text != "" {
			n.b.Say(session.Thinking, text, "")
		}
	case "text":
		if text := block.str("text"); text != "" {
			n.b.Say(session.Final, text, "")
		}
	case "tool_use":
		n.readCall(block)
	}
}

func (n *claudeReader) readCall(block record) {
	name, input := block.str("name"), block.obj("input")
	if name == "Skill" {
		if skill, ok := input.firstText("skill", "name"); ok {
			n.b.Skill(skill, "Loaded via Skill tool", "")
		}
	}
	if name != "" {
		args := json.RawMessage("{}")
		if input != nil {
			args = block.raw("input")
		}
		n.b.Add(session.Event{Type: session.ToolCall, Tool: name, Args: args})
	}
	call := toolCall{tool: name}
	switch name {
	case "Read", "read":
		n.b.Read(input.str("file_path"), n.in.Dir, "")
	case "Bash":
		if command, ok := input.text("command"); ok {
			n.b.Run(command, n.in.Dir, "").At = n.at
			call.command = len(n.b.Commands)
		}
	}
	if id := block.str("id"); id != "" {
		n.calls[id] = call
	}
}

// readResult reads the result of a tool. more is further data of Claude Code.
func (n *claudeReader) readResult(block, more record) {
	call := n.calls[block.str("tool_use_id")]
	output := contentText(block["content"])
	if output != "" {
		n.b.Add(session.Event{Type: session.ToolResult, Tool: call.tool, Output: output})
	}
	if call.command == 0 {
		return
	}
	cmd := &n.b.Commands[call.command-1]
	cmd.DurationMs = millisBetween(cmd.At, n.at)
	switch code, said := exitCodeIn(output, "Exit code "); {
	case said:
		cmd.ExitCode = &code
	case !block.isTrue("is_error") && !more.isTrue("interrupted") && !more.has("backgroundTaskId"):
		cmd.ExitCode = new(0)
	}
}

// readEnd reads the last record of a session.
func (n *claudeReader) readEnd(r record) {
	if text, ok := r.text("result"); ok {
		n.b.Output = &text
	}
	usage := r.obj("usage")
	in, cache := usage.num("input_tokens"), usage.num("cache_read_input_tokens")
	switch {
	case in != nil && cache != nil:
		in = new(*in + *cache)
	case in == nil:
		in = cache
	}
	t := &n.b.Tokens
	t.Input, t.Output, t.Cache = in, usage.num("output_tokens"), cache
	if usd := r.num("total_cost_usd"); usd != nil {
		n.b.Cost = &session.Cost{USD: *usd}
	}
}

// contentText returns a content, which is a text, a list of parts or other JSON, as one
// text.
func contentText(raw json.RawMessage) string {
	whole := record{"c": raw}
	if text, ok := whole.text("c"); ok {
		return text
	}
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if raw[0] != '[' {
		return string(compactJSON(raw))
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return ""
	}
	var parts []string
	for _, item := range items {
		r := parseRecord(item)
		text, ok := r.text("text")
		if r != nil && !ok {
			text = string(compactJSON(item))
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}
