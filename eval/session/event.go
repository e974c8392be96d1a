package session

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/croft-run/croft/fault"
)

// An Event is one thing that happened in a session. Which fields it has depends on
// its Type; the others are empty.
type Event struct {
	Type EventType

	// Of a message.
	Role  Role
	Phase Phase // "" is not known
	Text  string

	// Of a call of a tool and its result.
	Tool   string          // a result's may be "" where it is not known
	Args   json.RawMessage // of a call; nil is none
	Output string          // of a result

	Command string // of a command
	Path    string // of a file that was read, absolute
	Skill   string // of a sign that a skill is used
	Signal  string // what that sign is

	At string // when, as Time writes it; "" is not known
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

// Role says who speaks.
type Role string

// Roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Phase says what an assistant's message is for.
type Phase string

// Phases of a message.
const (
	Thinking   Phase = "thinking"
	Commentary Phase = "commentary"
	Final      Phase = "final"
)

// The wire form of each type: what is always there, and what may be missing.
type (
	messageJSON struct {
		Type  EventType `json:"type"`
		Role  Role      `json:"role"`
		Phase Phase     `json:"phase,omitempty"`
		Text  string    `json:"text"`
		At    string    `json:"at,omitempty"`
	}
	toolCallJSON struct {
		Type EventType       `json:"type"`
		Tool string          `json:"tool"`
		Args json.RawMessage `json:"args,omitempty"`
		At   string          `json:"at,omitempty"`
	}
	toolResultJSON struct {
		Type   EventType `json:"type"`
		Tool   string    `json:"tool,omitempty"`
		Output string    `json:"output"`
		At     string    `json:"at,omitempty"`
	}
	commandJSON struct {
		Type    EventType `json:"type"`
		Command string    `json:"command"`
		At      string    `json:"at,omitempty"`
	}
	fileReadJSON struct {
		Type EventType `json:"type"`
		Path string    `json:"path"`
		At   string    `json:"at,omitempty"`
	}
	skillSignalJSON struct {
		Type   EventType `json:"type"`
		Skill  string    `json:"skill"`
		Signal string    `json:"signal"`
		At     string    `json:"at,omitempty"`
	}
)

// MarshalJSON writes the fields that the event's type has.
func (e Event) MarshalJSON() ([]byte, error) {
	var wire any
	switch e.Type {
	case Message:
		wire = messageJSON{e.Type, e.Role, e.Phase, e.Text, e.At}
	case ToolCall:
		wire = toolCallJSON{e.Type, e.Tool, e.Args, e.At}
	case ToolResult:
		wire = toolResultJSON{e.Type, e.Tool, e.Output, e.At}
	case CommandRun:
		wire = commandJSON{e.Type, e.Command, e.At}
	case FileRead:
		wire = fileReadJSON{e.Type, e.Path, e.At}
	case SkillSignal:
		wire = skillSignalJSON{e.Type, e.Skill, e.Signal, e.At}
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
	var wire struct {
		Type    EventType       `json:"type"`
		Role    Role            `json:"role"`
		Phase   Phase           `json:"phase"`
		Text    string          `json:"text"`
		Tool    string          `json:"tool"`
		Args    json.RawMessage `json:"args"`
		Output  string          `json:"output"`
		Command string          `json:"command"`
		Path    string          `json:"path"`
		Skill   string          `json:"skill"`
		Signal  string          `json:"signal"`
		At      string          `json:"at"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return fmt.Errorf("session: read an event: %w: %w", fault.InvalidArgument, err)
	}
	switch wire.Type {
	case Message, ToolCall, ToolResult, CommandRun, FileRead, SkillSignal:
	default:
		return fmt.Errorf("session: read an event: %w: type %q, want message, toolCall, toolResult, command, fileRead or skillSignal", fault.InvalidArgument, wire.Type)
	}
	*e = Event(wire)
	return nil
}
