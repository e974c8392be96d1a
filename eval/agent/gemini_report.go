package agent

import (
	"github.com/croft-run/croft/eval/session"
)

type geminiReader struct {
	b     session.Builder
	dir   string
	text  string // of the message that comes in pieces
	at    string
	calls map[string]geminiCall
	kept  map[string]record // calls in the session that was kept, by id
}

// A geminiCall is a call of a tool whose result is to come.
type geminiCall struct {
	tool    string
	command int // its place in b.Commands + 1; 0 is none
}

func geminiKept(text []byte) map[string]record { return nil }

// message reads a message, or a piece of one.
func (n *geminiReader) message(r record, at string) {
	text := r.str("content")
	switch {
	case r.str("role") == "user" && text != "":
		n.b.Add(session.Event{Type: session.Message, Role: session.User, Text: text, At: at})
	case r.str("role") == "assistant":
		if n.text == "" {
			n.at = at
		}
		n.text += text
		if !r.is("delta") {
			n.flush()
		}
	}
}

// flush tells the message that came in pieces.
func (n *geminiReader) flush() {
	if n.text != "" {
		n.b.Say(session.Final, n.text, n.at)
	}
	n.text = ""
}

func (n *geminiReader) call(r record, at string) {
	n.flush()
	tool, args := r.str("tool_name"), r.obj("parameters")
	if skill, ok := args.text("name"); ok && tool == "activate_skill" {
		n.b.Skill(skill, "Loaded via activate_skill tool", at)
	}
	n.b.Add(session.Event{Type: session.ToolCall, Tool: tool, Args: r.raw("parameters"), At: at})
	call := geminiCall{tool: tool}
	switch tool {
	case "run_shell_command":
		if command, ok := args.text("command"); ok {
			dir := n.dir
			if d, ok := args.first("dir_path", "directory"); ok {
				dir, _ = session.Resolve(d, n.dir)
			}
			n.b.Run(command, dir, at)
			call.command = len(n.b.Commands)
			for _, file := range filesRead(command) {
				n.b.Read(file, dir, at)
			}
		}
	case "read_file":
		if path, ok := args.first("file_path", "absolute_path", "path"); ok {
			n.b.Read(path, n.dir, at)
		}
	}
	if id, ok := r.text("tool_id"); ok {
		n.calls[id] = call
	}
}

func (n *geminiReader) result(r record, at string) {
	n.flush()
}

func (n *geminiReader) end(stats record) {}
