package session

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/croft-run/croft/fault"
)

// An Event is one event of a session. Its Type decides which fields are set.
type Event struct {
	Type EventType `json:"type"`

	// Of a message.
	Role  Role   `json:"role"`
	Phase Phase  `json:"phase"` // "" is not known
	Text  string `json:"text"`

	// Of a call of a tool and its result.
	Tool   string          `json:"tool"`   // "" if the tool of a result is not known
	Args   json.RawMessage `json:"args"`   // of a call; nil for none
	Output string          `json:"output"` // of a result

	Command string `json:"command"` // of a command
	Path    string `json:"path"`    // of a file that was read, absolute
	Skill   string `json:"skill"`   // skill that is used
	Signal  string `json:"signal"`  // how the use was detected

	At string `json:"at"` // time, as Time writes it; "" is not known
}

// EventType says what happened.
type EventType string

// Types of events.
const (
	Message     EventType = "message"
	ToolCall    EventType = "toolCall"
	ToolResult  EventType = "toolResult"
	CommandRun  EventType = "command"
	FileRead    EventType = "fileRead"
	SkillSignal EventType = "skillSignal"
)

// Role says which side wrote a message.
type Role string

// Roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Phase says what kind of message an assistant wrote.
type Phase string

// Phases of a message.
const (
	Thinking   Phase = "thinking"
	Commentary Phase = "commentary"
	Final      Phase = "final"
)

// wireEvent is an event in JSON: a field that its type always has is not nil.
type wireEvent struct {
	Type    EventType       `json:"type"`
	Role    *Role           `json:"role,omitempty"`
	Phase   Phase           `json:"phase,omitempty"`
	Text    *string         `json:"text,omitempty"`
	Tool    *string         `json:"tool,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	Output  *string         `json:"output,omitempty"`
	Command *string         `json:"command,omitempty"`
	Path    *string         `json:"path,omitempty"`
	Skill   *string         `json:"skill,omitempty"`
	Signal  *string         `json:"signal,omitempty"`
	At      string          `json:"at,omitempty"`
}

// MarshalJSON writes the fields that the event's type has.
func (e Event) MarshalJSON() ([]byte, error) {
	wire := wireEvent{Type: e.Type, At: e.At}
	switch e.Type {
	case Message:
		wire.Role, wire.Phase, wire.Text = &e.Role, e.Phase, &e.Text
	case ToolCall:
		wire.Tool, wire.Args = &e.Tool, e.Args
	case ToolResult:
		if wire.Output = &e.Output; e.Tool != "" {
			wire.Tool = &e.Tool
		}
	case CommandRun:
		wire.Command = &e.Command
	case FileRead:
		wire.Path = &e.Path
	case SkillSignal:
		wire.Skill, wire.Signal = &e.Skill, &e.Signal
	default:
		return nil, fmt.Errorf("session: write an event of type %q: %w", e.Type, fault.InvalidArgument)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(wire); err != nil {
		return nil, fmt.Errorf("session: write a %s: %w: %w", e.Type, fault.InvalidArgument, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON reads an event of any type.
func (e *Event) UnmarshalJSON(data []byte) error {
	type fields Event // without this method
	var read fields
	if err := json.Unmarshal(data, &read); err != nil {
		return fmt.Errorf("session: read an event: %w: %w", fault.InvalidArgument, err)
	}
	switch read.Type {
	case Message, ToolCall, ToolResult, CommandRun, FileRead, SkillSignal:
	default:
		return fmt.Errorf("session: read an event: %w: type %q, want message, toolCall, toolResult, command, fileRead or skillSignal", fault.InvalidArgument, read.Type)
	}
	*e = Event(read)
	return nil
}
