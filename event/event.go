// Package event is the audit and lifecycle stream: one line for each thing that
// happened in a workspace, with who did it and how it ended.
//
// An [Event] is an envelope (kind, sequence, time, workspace, session) around
// fields whose names are constants of this package. Whoever has something to
// tell calls [Sink.Emit]; a [Stream] numbers the events and hands them to its
// sinks. Emitting never blocks on a slow reader and never fails the operation
// that it tells of.
//
// There are three sinks. A [Ring] keeps the latest events in memory, and gives
// them again from a sequence on. A [Subscription] hands them out through a
// channel, after those of a ring if it resumes. A [File] appends them to a file
// of JSON lines and rotates it; [ReadFiles] reads it back. What any of them loses
// it counts, and tells by a [Dropped] event in the place of the lost ones.
package event

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A Kind says what happened. Kinds are part of the public contract: dots
// separate the area, the noun and what became of it.
type Kind string

// Kinds of events.
const (
	WorkspaceProfile Kind = "lifecycle.workspace.profile" // a project was recognised
	WorkspaceSandbox Kind = "lifecycle.workspace.sandbox" // the fence of a workspace was put up
	SandboxViolation Kind = "lifecycle.sandbox.violation" // something tried to leave the fence
	WorkspaceState   Kind = "lifecycle.workspace.state"   // the registry moved a workspace to another state
	Operation        Kind = "workspace.operation"         // one operation on a workspace ended
	Progress         Kind = "workspace.progress"          // an operation on a workspace goes on, and has come so far
	EgressRequest    Kind = "egress.request"              // one request to the outside ended, or was refused
	ToolCall         Kind = "tool.call"                   // an agent's call of a tool ended
	ToolApproval     Kind = "tool.approval"               // a rule, or the user, decided on a call
	SecretRead       Kind = "secret.read"                 // a secret was handed out
)

// Names of fields. No other name is used in Event.Fields.
const (
	FieldVerb     = "verb"
	FieldTool     = "tool"
	FieldPath     = "path"
	FieldCommand  = "command"
	FieldCode     = "code"
	FieldKind     = "kind"
	FieldMessage  = "message"
	FieldFrom     = "from"
	FieldTo       = "to"
	FieldDuration = "duration_ms"
	FieldProvider = "provider"

	// Of an operation that goes on.
	FieldFiles = "files"
	FieldBytes = "bytes"

	// Of a request to the outside.
	FieldHost       = "host"
	FieldPort       = "port"
	FieldProtocol   = "protocol" // http, https, connect, socks5: how it came, and https where it was seen inside TLS
	FieldMethod     = "method"   // CONNECT for a tunnel
	FieldVerdict    = "verdict"  // VerdictAllow or VerdictDeny
	FieldReason     = "reason"   // why it was refused or ended badly
	FieldRule       = "rule"     // the host of the rule that decided
	FieldAddress    = "address"  // what the name stood for
	FieldCredential = "credential"
	FieldStatus     = "status"
	FieldBytesIn    = "bytes_in"  // to the workspace
	FieldBytesOut   = "bytes_out" // from it
)

// Values of FieldVerdict.
const (
	VerdictAllow = "allow"
	VerdictDeny  = "deny"
)

// An Event is one line of the stream.
type Event struct {
	Kind      Kind           `json:"event"`
	Sequence  uint64         `json:"sequence"` // from 1, without gaps within one stream
	Time      time.Time      `json:"ts"`
	Workspace string         `json:"workspace,omitempty"` // id
	Session   string         `json:"session,omitempty"`
	Fields    map[string]any `json:"fields,omitempty"`
}

// A Sink takes events. Emit must not block for long and must not keep Fields
// for writing; it is called from many goroutines at once.
type Sink interface {
	Emit(Event)
}

// Discard is a sink that keeps nothing.
var Discard Sink = discard{}

type discard struct{}

func (discard) Emit(Event) {}

// A Stream numbers events, stamps their time and hands each to its sinks in
// order. The zero value is ready to use and keeps nothing.
type Stream struct {
	mu    sync.Mutex
	next  uint64
	sinks []Sink
}

// NewStream returns a stream that feeds the given sinks.
func NewStream(sinks ...Sink) *Stream { return &Stream{sinks: sinks} }

// Attach adds a sink, which sees the events from now on, and returns a
// function that takes it off again.
func (s *Stream) Attach(sink Sink) (detach func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attachLocked(sink)
}

func (s *Stream) attachLocked(sink Sink) (detach func()) {
	box := &attached{sink}
	s.sinks = append(s.sinks, box)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, x := range s.sinks {
			if x == Sink(box) {
				s.sinks = append(s.sinks[:i:i], s.sinks[i+1:]...)
				return
			}
		}
	}
}

type attached struct{ Sink }

// Continue has the numbers go on after last, the latest sequence of an earlier
// stream whose readers resume at this one. It must come before the first Emit;
// a number that the stream has passed already is left as it is.
func (s *Stream) Continue(last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = max(s.next, last)
}

// Emit numbers e, stamps it unless it has a time, and passes it on.
func (s *Stream) Emit(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	e.Sequence = s.next
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	for _, sink := range s.sinks {
		sink.Emit(e)
	}
}

// A Ring keeps the latest events in memory.
type Ring struct {
	mu   sync.Mutex
	buf  []Event
	next int
	full bool
}

// NewRing returns a ring of the last n events; n must be positive.
func NewRing(n int) *Ring { return &Ring{buf: make([]Event, n)} }

// Emit keeps e, dropping the oldest event when the ring is full.
func (r *Ring) Emit(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf[r.next] = e
	r.next++
	if r.next == len(r.buf) {
		r.next, r.full = 0, true
	}
}

// Events returns what the ring holds, oldest first.
func (r *Ring) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.full {
		return append([]Event(nil), r.buf[:r.next]...)
	}
	return append(append([]Event(nil), r.buf[r.next:]...), r.buf[:r.next]...)
}

// Since returns the events after the sequence seq, oldest first, and how many of
// them the ring no longer holds. A seq that lies beyond the latest event is not
// of this stream, and all that the ring holds is returned.
func (r *Ring) Since(seq uint64) (events []Event, missing uint64) {
	all := r.Events()
	if len(all) == 0 {
		return nil, 0
	}
	first, last := all[0].Sequence, all[len(all)-1].Sequence
	switch {
	case seq > last:
		return all, 0
	case seq+1 < first:
		return all, first - seq - 1
	}
	i, _ := slices.BinarySearchFunc(all, seq+1, func(e Event, seq uint64) int { return cmp.Compare(e.Sequence, seq) })
	return all[i:], 0
}
