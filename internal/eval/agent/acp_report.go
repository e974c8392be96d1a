package agent

import (
	"cmp"
	"strings"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// Normalize reads the updates that the agent sent.
func (acpAgent) Normalize(in Input, raw Raw) (*session.Report, error) {
	n := acpReader{dir: in.Dir, calls: map[string]*acpCall{}}
	n.b.Tokens.Partial = true
	for _, r := range readRecords(raw.Session) {
		if r.str("method") == "session/update" {
			n.readUpdate(r.obj("params").obj("update"))
		}
		n.readUsage(r.obj("result"))
	}
	n.flushText()
	return n.b.Report(in.Runner, in.Prompt), nil
}

type acpReader struct {
	b     session.Builder
	dir   string
	kind  string // of the chunks in text
	text  strings.Builder
	calls map[string]*acpCall
}

// An acpCall is a tool call whose updates are being read.
type acpCall struct {
	tool    string
	event   int // index in b.Events
	command int // index in b.Commands + 1; 0 for none
	read    bool
	skill   bool
	done    bool
}

func (n *acpReader) readUpdate(u record) {
	switch kind := u.str("sessionUpdate"); kind {
	case "agent_message_chunk", "agent_thought_chunk":
		if kind != n.kind {
			n.flushText()
		}
		n.kind = kind
		n.text.WriteString(u.obj("content").str("text"))
	case "tool_call", "tool_call_update":
		n.flushText()
		n.readCall(u)
	case "usage_update":
		if cost := u.obj("cost"); cost.str("currency") == "USD" {
			n.b.Cost = &session.Cost{USD: valueOrZero(cost.num("amount"))}
		}
	}
}

// flushText adds the collected chunks as one message.
func (n *acpReader) flushText() {
	text := n.text.String()
	n.text.Reset()
	switch {
	case strings.TrimSpace(text) == "":
	case n.kind == "agent_thought_chunk":
		n.b.Say(session.Thinking, text, "")
	default:
		n.b.Say(session.Final, text, "")
	}
	n.kind = ""
}

// readCall reads an update of a call: its start, more of its input, or its end.
func (n *acpReader) readCall(u record) {
	id := u.str("toolCallId")
	call, input := n.calls[id], u.obj("rawInput")
	if call == nil {
		call = &acpCall{tool: acpTool(u), event: len(n.b.Events)}
		n.calls[id] = call
		n.b.Add(session.Event{Type: session.ToolCall, Tool: call.tool, Args: u.raw("rawInput")})
	}
	if len(input) > 0 { // it may come later than the call, and in parts
		n.b.Events[call.event].Args = u.raw("rawInput")
	}
	if skill, ok := input.firstText("name", "skill"); ok && !call.skill && (call.tool == "skill" || call.tool == "activate_skill") {
		call.skill = true
		n.b.Skill(skill, "Loaded via skill tool", "")
	}
	if command, ok := acpCommand(u, input); ok && call.command == 0 {
		n.b.Run(command, n.dir, "")
		call.command = len(n.b.Commands)
	}
	if !call.read && u.str("kind") == "read" {
		for _, loc := range u.list("locations") {
			n.b.Read(loc.str("path"), n.dir, "")
			call.read = true
		}
	}
	if status := u.str("status"); (status == "completed" || status == "failed") && !call.done {
		call.done = true
		n.addResult(call, u)
	}
}

// acpTool returns the name of a tool. The protocol has no field for it: some agents put
// it into metadata, others only have kinds and titles.
func acpTool(u record) string {
	meta := u.obj("_meta")
	for _, o := range []record{meta, meta.obj("claudeCode"), meta.obj("gemini")} {
		if name, ok := o.firstText("toolName", "tool_name"); ok {
			return name
		}
	}
	if title := u.str("title"); oneWord.MatchString(title) {
		return title
	}
	return cmp.Or(u.str("kind"), "other")
}

var oneWord = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_-]*$`)

// acpCommand returns the command of a call that executes one.
func acpCommand(u, input record) (string, bool) {
	if command, ok := shellCommand(input); ok {
		return command, true
	}
	if title, ok := u.text("title"); ok && u.str("kind") == "execute" && len(input) == 0 {
		return title, true
	}
	return "", false
}

// addResult adds the result of a call.
func (n *acpReader) addResult(call *acpCall, u record) {
	var parts []string
	for _, c := range u.list("content") {
		switch c.kind() {
		case "content":
			parts = append(parts, c.obj("content").str("text"))
		case "diff":
			parts = append(parts, "changed "+c.str("path"))
		}
	}
	output := strings.Join(parts, "\n")
	raw := u.obj("rawOutput")
	if output == "" && u.has("rawOutput") {
		output = u.textOrJSON("rawOutput")
	}
	n.b.Add(session.Event{Type: session.ToolResult, Tool: call.tool, Output: output})
	if call.command == 0 {
		return
	}
	for _, o := range []record{raw, raw.obj("metadata")} {
		for _, key := range []string{"exitCode", "exit_code", "exit"} {
			if code := o.num(key); code != nil {
				n.b.Commands[call.command-1].ExitCode = new(int(*code))
				return
			}
		}
	}
}

// readUsage reads token counts from the protocol's field or, of Gemini CLI, from
// metadata.
func (n *acpReader) readUsage(result record) {
	t := &n.b.Tokens
	if u := result.obj("usage"); u != nil {
		t.Input, t.Output = u.num("inputTokens"), u.num("outputTokens")
		t.Reasoning, t.Cache = u.num("thoughtTokens"), u.num("cachedReadTokens")
	}
	if u := result.obj("_meta").obj("quota").obj("token_count"); u != nil && t.Input == nil {
		t.Input, t.Output = u.num("input_tokens"), u.num("output_tokens")
	}
}
