package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// cursor is Cursor's CLI agent.
type cursor struct{ program }

func (cursor) Type() string { return "cursor-agent" }

// Prepare starts the agent with the user's own home, which can't be changed.
func (c cursor) Prepare(_ context.Context, in Input) (Invocation, error) {
	if _, err := offerTools(c.Type(), nil, in, nil); err != nil {
		return Invocation{}, err
	}
	args := []string{"-p", "--output-format", "stream-json", "--trust", "--force", "--workspace", in.Dir}
	if in.Resume != "" {
		args = append(args, "--resume", in.Resume)
	}
	args = append(args, "--model", c.cfg.Model)
	return Invocation{Argv: c.buildArgv("agent", in.Prompt, args...), Env: c.envOver(nil), Dir: in.Dir,
		Hosts: []string{"api2.cursor.sh", "*.cursor.sh"}}, nil
}

// Steps counts model calls that started tools, and messages.
func (cursor) Steps() func([]byte) int {
	seen, steps := map[string]bool{}, 0
	return func(line []byte) int {
		r := parseRecord(line)
		switch r.kind() {
		case "tool_call":
			if id, ok := r.text("model_call_id"); ok && r.str("subtype") == "started" && !seen[id] {
				seen[id] = true
				steps++
			}
		case "assistant":
			steps++
		}
		return steps
	}
}

// Rejected looks for an error about the model on standard error, in a session without an
// answer of a model.
func (cursor) Rejected(_ context.Context, _ Runner, _ Input, out Output) bool {
	for _, r := range readRecords(out.Stdout) {
		if k := r.kind(); k == "assistant" || k == "tool_call" {
			return false
		}
	}
	return bytes.Contains(out.Stderr, []byte("Cannot use this model:"))
}

// Collect keeps the stream.
func (cursor) Collect(_ context.Context, _ Runner, in Input, out Output) (Raw, error) {
	return saveStream(in, out, func(r record) (string, bool) { return r.text("session_id") })
}

// Normalize reads the stream.
func (cursor) Normalize(in Input, raw Raw) (*session.Report, error) {
	n := cursorReader{dir: in.Dir, seen: map[string]bool{}, dirs: map[string]string{}, commands: map[string]int{}}
	n.b.Fallback, n.b.Tokens.Partial = raw.Stdout, true
	for _, r := range readRecords(raw.Session) {
		at := r.timeText("timestamp_ms")
		switch kind := r.kind(); kind {
		case "system":
			if dir, ok := r.text("cwd"); ok && r.str("subtype") == "init" {
				n.dir = dir
			}
		case "user", "assistant":
			if text := partsText(r.obj("message").list("content")); text != "" {
				e := session.Event{Type: session.Message, Role: session.Role(kind), Text: text, At: at}
				if kind == "assistant" {
					e.Phase = session.Final
				}
				n.b.Add(e)
			}
		case "tool_call":
			n.readCall(r, at)
		case "result":
			n.readResult(r)
		}
	}
	n.b.Reads = unique(n.b.Reads)
	return n.b.Report(in.Runner, in.Prompt), nil
}

type cursorReader struct {
	b        session.Builder
	dir      string
	seen     map[string]bool   // parts of calls that were added
	dirs     map[string]string // directory of a call, by its id
	commands map[string]int    // index in b.Commands + 1, by the call's id
}

// firstTime reports whether a part of a call is seen for the first time. Calls without an
// id are all different.
func (n *cursorReader) firstTime(id, kind, what string) bool {
	key := kind + "\x00" + id + "\x00" + what
	if id == "" || !n.seen[key] {
		n.seen[key] = true
		return true
	}
	return false
}

// readCall reads a record of a call: one for its start, and one for its end.
func (n *cursorReader) readCall(r record, at string) {
	tool, entry := cursorTool(r["tool_call"])
	if entry == nil {
		return
	}
	id, _ := r.firstText("call_id", "model_call_id")
	args, done := entry.obj("args"), r.str("subtype") == "completed"
	dir := n.dirs[id]
	if d, ok := args.firstText("workingDirectory", "cwd"); ok {
		dir = d
	}
	if id != "" && dir != "" {
		n.dirs[id] = dir
	}
	dir = cmp.Or(dir, n.dir)
	if !done && n.firstTime(id, "call", "") {
		n.b.Add(session.Event{Type: session.ToolCall, Tool: tool, Args: entry.raw("args"), At: at})
	}
	n.addDetails(tool, id, dir, args, at)
	if _, ok := entry["result"]; ok && done {
		n.b.Add(session.Event{Type: session.ToolResult, Tool: tool, Output: entry.textOrJSON("result"), At: at})
		n.setExit(id, entry.obj("result"))
	}
}

// addDetails adds the command, file or skill of a call.
func (n *cursorReader) addDetails(tool, id, dir string, args record, at string) {
	read := func(path string) {
		if p, ok := session.Resolve(path, dir); ok && n.firstTime(id, "read", p) {
			n.b.Read(p, dir, at)
		}
	}
	if command, ok := args.text("command"); ok && strings.Contains(tool, "shell") && n.firstTime(id, "command", command) {
		n.b.Run(command, dir, at)
		n.commands[id] = len(n.b.Commands)
		for _, file := range filesRead(command) {
			read(file)
		}
	}
	if path, ok := args.firstText("filePath", "file_path", "path"); ok && strings.Contains(tool, "read") {
		read(path)
	}
	if skill, ok := args.firstText("name", "skill"); ok && strings.Contains(tool, "skill") && n.firstTime(id, "skill", skill) {
		n.b.Skill(skill, "Loaded via skill tool", at)
	}
}

// setExit sets exit code and time of a command from the result of its call.
func (n *cursorReader) setExit(id string, result record) {
	i := n.commands[id]
	if i == 0 || id == "" {
		return
	}
	for _, o := range []record{result.obj("success"), result.obj("failure"), result} {
		if code := o.num("exitCode"); code != nil {
			n.b.Commands[i-1].ExitCode = new(int(*code))
			n.b.Commands[i-1].DurationMs = cmp.Or(o.num("executionTime"), o.num("localExecutionTimeMs"))
			return
		}
	}
}

func (n *cursorReader) readResult(r record) {
	if text, ok := r.text("result"); ok {
		n.b.Output = &text
	}
	usage, t := r.obj("usage"), &n.b.Tokens
	cache := usage.num("cacheReadTokens")
	if in := usage.num("inputTokens"); in != nil {
		t.Input = new(*in + valueOrZero(cache))
	}
	t.Output = cmp.Or(usage.num("outputTokens"), t.Output)
	t.Cache = cmp.Or(cache, t.Cache)
}

var camel = lazyregexp.New(`([a-z0-9])([A-Z])`)

// cursorTool returns the tool of a call and its data: the first field whose name ends in
// ToolCall.
func cursorTool(raw json.RawMessage) (string, record) {
	fields := parseRecord(raw)
	for _, key := range fieldNames(raw) {
		name, ok := strings.CutSuffix(key, "ToolCall")
		if entry := fields.obj(key); ok && entry != nil {
			return strings.ToLower(camel.ReplaceAllString(name, "$1-$2")), entry
		}
	}
	return "", nil
}

// fieldNames returns the names of an object's fields in their order.
func fieldNames(raw json.RawMessage) []string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var all []string
	for dec.More() {
		t, err := dec.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			break
		}
		var skip json.RawMessage
		if dec.Decode(&skip) != nil {
			break
		}
		all = append(all, key)
	}
	return unique(all)
}

// unique removes duplicates.
func unique(all []string) []string {
	var once []string
	seen := map[string]bool{}
	for _, s := range all {
		if !seen[s] {
			seen[s] = true
			once = append(once, s)
		}
	}
	return once
}
