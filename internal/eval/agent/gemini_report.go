package agent

import (
	"cmp"
	"slices"
	"strings"

	"github.com/croft-run/croft/eval/session"
)

type geminiReader struct {
	b     session.Builder
	dir   string
	text  strings.Builder // of a message that is streamed
	at    string
	calls map[string]toolCall
	saved geminiSession
}

// A geminiSession is the session file of Gemini CLI. Thoughts, their tokens, and the tool
// results that the model got are only there.
type geminiSession struct {
	messages []record          // of the model, each in its last version
	done     int               // number of messages whose thoughts were added
	saying   map[string][]int  // indexes of messages, by content
	calling  map[string][]int  // indexes of messages, by the id of their call
	results  map[string]string // tool results for the model, by the call's id
	thoughts *float64          // tokens
}

// readGemini reads a session file: JSON lines, or one document.
func readGemini(text []byte) geminiSession {
	k := geminiSession{results: map[string]string{}, saying: map[string][]int{}, calling: map[string][]int{}}
	lines := allRecords(text)
	if whole := parseRecord(text); whole != nil {
		lines = whole.list("messages")
	}
	place := map[string]int{}
	for _, r := range lines {
		if r.kind() != "gemini" {
			continue
		}
		if i, ok := place[r.str("id")]; ok {
			k.messages[i] = r
			continue
		}
		place[r.str("id")] = len(k.messages)
		k.messages = append(k.messages, r)
	}
	for i, m := range k.messages {
		k.saying[m.str("content")] = append(k.saying[m.str("content")], i)
		k.thoughts = addCounts(k.thoughts, m.obj("tokens").num("thoughts"))
		for _, call := range m.list("toolCalls") {
			var parts []string
			for _, p := range call.list("result") {
				if said, ok := p.obj("functionResponse").obj("response").firstText("output", "error"); ok {
					parts = append(parts, said)
				}
			}
			id := call.str("id")
			k.calling[id] = append(k.calling[id], i)
			k.results[id] = strings.Join(parts, "\n")
		}
	}
	return k
}

// addThoughts adds the thoughts of all messages up to the first of places that is not
// done. places is sorted.
func (n *geminiReader) addThoughts(places []int) {
	k := &n.saved
	first, _ := slices.BinarySearch(places, k.done)
	if first == len(places) {
		return
	}
	end := places[first] + 1
	for _, m := range k.messages[k.done:end] {
		for _, thought := range m.list("thoughts") {
			text := strings.TrimSpace(thought.str("subject") + "\n" + thought.str("description"))
			if text != "" {
				n.b.Say(session.Thinking, text, thought.str("timestamp"))
			}
		}
	}
	k.done = end
}

// readMessage reads a message, or a piece of one.
func (n *geminiReader) readMessage(r record, at string) {
	text := r.str("content")
	switch {
	case r.str("role") == "user" && text != "":
		n.b.Add(session.Event{Type: session.Message, Role: session.User, Text: text, At: at})
	case r.str("role") == "assistant":
		if n.text.Len() == 0 {
			n.at = at
		}
		n.text.WriteString(text)
		if !r.isTrue("delta") {
			n.flushMessage()
		}
	}
}

// flushMessage adds the streamed message.
func (n *geminiReader) flushMessage() {
	text := n.text.String()
	if text == "" {
		return
	}
	n.addThoughts(n.saved.saying[text])
	n.b.Say(session.Final, text, n.at)
	n.text.Reset()
}

func (n *geminiReader) readCall(r record, at string) {
	n.flushMessage()
	id := r.str("tool_id")
	n.addThoughts(n.saved.calling[id])
	tool, args := r.str("tool_name"), r.obj("parameters")
	if skill, ok := args.text("name"); ok && tool == "activate_skill" {
		n.b.Skill(skill, "Loaded via activate_skill tool", at)
	}
	n.b.Add(session.Event{Type: session.ToolCall, Tool: tool, Args: r.raw("parameters"), At: at})
	call := toolCall{tool: tool}
	switch tool {
	case "run_shell_command":
		if command, ok := args.text("command"); ok {
			call.command = n.addCommand(command, args, at)
		}
	case "read_file":
		if path, ok := args.firstText("file_path", "absolute_path", "path"); ok {
			n.b.Read(path, n.dir, at)
		}
	}
	n.calls[id] = call
}

// addCommand adds a command and the files that it reads, and returns its index + 1.
func (n *geminiReader) addCommand(command string, args record, at string) int {
	dir := n.dir
	if d, ok := args.firstText("dir_path", "directory"); ok {
		dir, _ = session.Resolve(cmp.Or(d, "."), n.dir)
	}
	n.b.Run(command, dir, at)
	for _, file := range filesRead(command) {
		n.b.Read(file, dir, at)
	}
	return len(n.b.Commands)
}

func (n *geminiReader) readResult(r record, at string) {
	n.flushMessage()
	id := r.str("tool_id")
	call := n.calls[id]
	told, kept := n.saved.results[id]
	output := cmp.Or(told, cmp.Or(r.str("output"), r.obj("error").str("message")))
	if output != "" {
		n.b.Add(session.Event{Type: session.ToolResult, Tool: call.tool, Output: output, At: at})
	}
	if call.command == 0 {
		return
	}
	cmd := &n.b.Commands[call.command-1]
	cmd.DurationMs = millisBetween(cmd.At, at)
	if code, ok := exitCodeIn(told, "Exit Code: "); ok {
		cmd.ExitCode = &code
	} else if kept && r.str("status") == "success" && !strings.Contains(told, "\nSignal: ") {
		cmd.ExitCode = new(0) // only other codes are reported
	}
}

// readStats reads the statistics of a session.
func (n *geminiReader) readStats(stats record) {
	n.b.Tokens = session.Tokens{Partial: true, Input: stats.num("input_tokens"), Output: stats.num("output_tokens"),
		Reasoning: n.saved.thoughts, Cache: stats.num("cached")}
}
