package agent

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// Normalize reads the session file of Codex, or its stream.
func (codex) Normalize(in Input, raw Raw) (*session.Report, error) {
	n := codexReader{dir: in.Dir, calls: map[string]*codexCall{}}
	n.b.Fallback = raw.Stdout
	for _, r := range readRecords(raw.Session) {
		n.at = r.str("timestamp")
		payload := r.obj("payload")
		n.raw = r.raw("payload")
		switch r.kind() {
		case "session_meta":
			n.sessionDir = cmp.Or(payload.str("cwd"), n.sessionDir)
		case "turn_context":
			n.turnDir = cmp.Or(payload.str("cwd"), n.turnDir)
		case "turn.completed":
			n.turnUsage(r.obj("usage"))
		case "item.completed":
			n.readItem(r.obj("item"))
		case "event_msg":
			n.readEvent(payload)
		case "response_item":
			n.readResponse(payload)
		}
	}
	n.flushCalls()
	return n.b.Report(in.Runner, in.Prompt), nil
}

type codexReader struct {
	b                        session.Builder
	dir, sessionDir, turnDir string
	at                       string
	raw                      json.RawMessage // the payload that is read
	calls                    map[string]*codexCall
	order                    []*codexCall
}

// A codexCall is a tool call that waits for its output.
type codexCall struct {
	tool     string
	dir      string
	command  string // "" for none
	at       string
	reported bool // the command is in the report
	duration *float64
	exit     *int
}

// workingDir returns the directory of a command whose call names none.
func (n *codexReader) workingDir() string { return cmp.Or(n.turnDir, cmp.Or(n.sessionDir, n.dir)) }

func (n *codexReader) turnUsage(usage record) {
	t := &n.b.Tokens
	t.Input = cmp.Or(usage.num("input_tokens"), t.Input)
	t.Output = cmp.Or(usage.num("output_tokens"), t.Output)
	t.Cache = cmp.Or(usage.num("cached_input_tokens"), t.Cache)
}

// readEvent reads an event of a session file.
func (n *codexReader) readEvent(p record) {
	switch p.kind() {
	case "agent_message":
		if text := p.str("message"); text != "" {
			n.b.Say(codexPhase(p.str("phase")), text, n.at)
		}
	case "token_count":
		usage, t := p.obj("info").obj("total_token_usage"), &n.b.Tokens
		n.turnUsage(usage)
		t.Total = cmp.Or(usage.num("total_tokens"), t.Total)
		t.Reasoning = cmp.Or(usage.num("reasoning_output_tokens"), t.Reasoning)
	case "exec_command_end":
		n.setExit(p.str("call_id"), p)
	case "item_completed":
		if it := p.obj("item"); it.kind() == "CommandExecution" {
			n.setExit(it.str("id"), it)
		}
	}
}

// setExit records how the command of a call ended. The recorded duration may cover its
// start only.
func (n *codexReader) setExit(id string, end record) {
	call := n.calls[id]
	if call == nil {
		return
	}
	if code := end.num("exit_code"); code != nil {
		call.exit = new(int(*code))
	}
	if d := end.obj("duration"); d != nil {
		call.setDuration(valueOrZero(d.num("secs"))*1000 + valueOrZero(d.num("nanos"))/1e6)
	}
}

// setDuration records a duration of at least a millisecond.
func (c *codexCall) setDuration(ms float64) {
	if ms >= 1 {
		c.duration = &ms
	}
}

func valueOrZero(n *float64) float64 {
	if n == nil {
		return 0
	}
	return *n
}

func codexPhase(phase string) session.Phase {
	if phase == "commentary" {
		return session.Commentary
	}
	return session.Final
}

// readResponse reads an item of the conversation with the model.
func (n *codexReader) readResponse(p record) {
	switch p.kind() {
	case "message":
		n.addMessage(p)
	case "reasoning":
		if text := p.str("text"); text != "" {
			n.b.Say(session.Thinking, text, n.at)
		} else if text := partsText(p.list("summary")); text != "" {
			n.b.Say(session.Thinking, text, n.at)
		}
	case "function_call", "local_shell_call", "custom_tool_call":
		n.readCall(p)
	case "function_call_output", "custom_tool_call_output":
		n.readOutput(p)
	}
}

func (n *codexReader) addMessage(p record) {
	text, ok := p.text("text")
	if !ok {
		text = partsText(p.list("content"))
	}
	role := session.Role(p.str("role"))
	if text == "" || (role != session.User && role != session.Assistant) {
		return
	}
	e := session.Event{Type: session.Message, Role: role, Text: text, At: n.at}
	switch phase := p.str("phase"); {
	case phase == "commentary":
		e.Phase = session.Commentary
	case phase == "final_answer", role == session.Assistant:
		e.Phase = session.Final
	}
	n.b.Add(e)
}

// partsText joins the texts of parts.
func partsText(parts []record) string {
	var all []string
	for _, p := range parts {
		if text := p.str("text"); text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "\n")
}

func (n *codexReader) readCall(p record) {
	tool, named := p.firstText("name", "tool")
	args := codexArgs(p)
	call := &codexCall{dir: n.workingDir(), at: n.at}
	if o := parseRecord(args); o != nil {
		if dir, ok := o.firstText("workdir", "cwd", "working_directory"); ok && dir != "" {
			call.dir, _ = session.Resolve(dir, n.workingDir())
		}
		if isShell(tool) || p.kind() == "local_shell_call" {
			call.command, _ = shellCommand(o)
		}
	}
	if p.kind() == "local_shell_call" && !named {
		tool, named = "local_shell", true
	}
	call.tool = tool
	if named {
		n.b.Add(session.Event{Type: session.ToolCall, Tool: tool, Args: args, At: n.at})
	}
	if id, ok := p.firstText("call_id", "callId"); ok {
		n.calls[id] = call
		n.order = append(n.order, call)
	}
}

func isShell(tool string) bool {
	switch tool {
	case "shell", "local_shell", "shell_command", "exec_command", "container.exec", "unified_exec":
		return true
	}
	return false
}

// codexArgs returns the arguments of a call, which may be JSON inside a string.
func codexArgs(p record) json.RawMessage {
	for _, key := range []string{"arguments", "input"} {
		if text, ok := p.text(key); ok {
			if raw := compactJSON([]byte(text)); raw != nil && json.Valid(raw) {
				return raw
			}
			return encodeJSON(text)
		}
	}
	for _, key := range []string{"arguments", "args", "action"} {
		if p.has(key) {
			return p.raw(key)
		}
	}
	return nil
}

var outputCommand = lazyregexp.New(`(?m)^Command:\s+.*?\s-lc\s+(.+)$`)

// readOutput reads the output of a tool. The command in the output takes precedence over
// that of the call.
func (n *codexReader) readOutput(p record) {
	text := p.textOrJSON("output")
	if !p.has("output") {
		text = string(n.raw)
	}
	id, _ := p.firstText("call_id", "callId")
	call := n.calls[id]
	if call == nil {
		call = &codexCall{dir: n.workingDir()}
	}
	e := session.Event{Type: session.ToolResult, Tool: call.tool, Output: text, At: n.at}
	command := call.command
	if strings.Contains(text, "Command:") {
		e.Tool = "exec_command"
		if m := outputCommand.FindStringSubmatch(text); m != nil {
			command = trimQuotes(m[1])
		}
	}
	n.b.Add(e)
	if command != "" && !call.reported {
		asked := call.at
		call.command, call.at = command, n.at
		if code, ms := codexExit(text); call.exit == nil {
			call.exit = code
			call.setDuration(ms)
		}
		if call.duration == nil {
			call.duration = millisBetween(asked, n.at)
		}
		n.addCommand(call)
	}
}

// addCommand adds a command and the files that it reads.
func (n *codexReader) addCommand(call *codexCall) {
	call.reported = true
	cmd := n.b.Run(call.command, call.dir, call.at)
	cmd.ExitCode, cmd.DurationMs = call.exit, call.duration
	for _, file := range filesRead(call.command) {
		n.b.Read(file, call.dir, call.at)
	}
}

// flushCalls adds the commands without output.
func (n *codexReader) flushCalls() {
	for _, call := range n.order {
		if call.command != "" && !call.reported {
			n.addCommand(call)
		}
	}
}

var (
	codexStatus = lazyregexp.New(`(?m)^(?:Exit code: |Process exited with code )(-?\d+)$`)
	codexWall   = lazyregexp.New(`(?m)^Wall time: ([0-9.]+) ?(?:s|seconds)$`)
)

// codexExit reads exit code and duration in milliseconds from a tool output: a text with
// a header, or JSON with metadata.
func codexExit(output string) (*int, float64) {
	var code *int
	if meta := parseRecord([]byte(output)).obj("metadata"); meta != nil {
		if c := meta.num("exit_code"); c != nil {
			code = new(int(*c))
		}
		return code, valueOrZero(meta.num("duration_seconds")) * 1000
	}
	head, _, _ := strings.Cut(output, "\nOutput:")
	if m := codexStatus.FindStringSubmatch(head); m != nil {
		if c, err := strconv.Atoi(m[1]); err == nil {
			code = &c
		}
	}
	if m := codexWall.FindStringSubmatch(head); m != nil {
		if s, err := strconv.ParseFloat(m[1], 64); err == nil {
			return code, s * 1000
		}
	}
	return code, 0
}

// readItem reads an item of the stream, which is used without a session file.
func (n *codexReader) readItem(it record) {
	switch it.kind() {
	case "agent_message":
		if text := it.str("text"); text != "" {
			n.b.Say(session.Final, text, n.at)
		}
	case "reasoning":
		if text := it.str("text"); text != "" {
			n.b.Say(session.Thinking, text, n.at)
		}
	case "command_execution":
		n.addExecution(it)
	case "mcp_tool_call":
		tool := it.str("tool")
		n.b.Add(session.Event{Type: session.ToolCall, Tool: tool, Args: it.raw("arguments"), At: n.at})
		if it.has("result") {
			n.b.Add(session.Event{Type: session.ToolResult, Tool: tool, Output: it.textOrJSON("result"), At: n.at})
		}
	case "file_change":
		n.b.Add(session.Event{Type: session.ToolCall, Tool: "apply_patch", Args: it.raw("changes"), At: n.at})
	}
}

func (n *codexReader) addExecution(it record) {
	command := unwrapShell(it.str("command"))
	n.b.Add(session.Event{Type: session.ToolCall, Tool: "exec_command", Args: encodeJSON(map[string]string{"cmd": command}), At: n.at})
	if out := it.str("aggregated_output"); out != "" {
		n.b.Add(session.Event{Type: session.ToolResult, Tool: "exec_command", Output: out, At: n.at})
	}
	call := &codexCall{dir: n.workingDir(), command: command, at: n.at}
	if code := it.num("exit_code"); code != nil {
		call.exit = new(int(*code))
	}
	n.addCommand(call)
}
