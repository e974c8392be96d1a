// Package event is the audit and lifecycle stream: one JSON line per operation in a
// workspace, with its session and result.
//
// An [Event] is an envelope (kind, sequence, time, workspace, session) with fields whose
// names are constants of this package. Packages report events by [Sink.Emit]; a [Stream]
// numbers them and passes them to its sinks. Emit never blocks on a slow reader and never
// fails the operation.
//
// There are three sinks. A [Ring] keeps the latest events in memory and replays them from a
// sequence on. A [Subscription] delivers events through a channel, after a replay from a
// ring if it resumes. A [File] appends JSON lines to a file and rotates it; [ReadFiles]
// reads it back. Each sink counts the events that it loses, and puts a [Dropped] event in
// their place.
package event

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A Kind is the kind of an event. Kinds are part of the public contract: dots separate
// area, noun and outcome.
type Kind string

// Kinds of events.
const (
	WorkspaceProfile Kind = "lifecycle.workspace.profile" // a project was detected
	WorkspaceSandbox Kind = "lifecycle.workspace.sandbox" // the sandbox of a workspace was set up
	SandboxViolation Kind = "lifecycle.sandbox.violation" // an operation tried to leave the sandbox
	WorkspaceState   Kind = "lifecycle.workspace.state"   // the registry moved a workspace to another state
	Operation        Kind = "workspace.operation"         // one operation on a workspace ended
	Progress         Kind = "workspace.progress"          // progress of a running operation
	EgressRequest    Kind = "egress.request"              // an outbound request ended, or was refused
	ToolCall         Kind = "tool.call"                   // a tool call ended
	ToolApproval     Kind = "tool.approval"               // a rule or the user decided on a call
	SecretRead       Kind = "secret.read"                 // a secret was handed out
	APICall          Kind = "api.call"                    // a call that may change something ended, or was refused
)

// Kinds lists the kinds of events.
var Kinds = []Kind{
	WorkspaceProfile, WorkspaceSandbox, SandboxViolation, WorkspaceState, Operation, Progress,
	EgressRequest, ToolCall, ToolApproval, SecretRead, APICall, Dropped,
}

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

	// Fields of Progress.
	FieldFiles = "files"
	FieldBytes = "bytes"

	// Fields of EgressRequest.
	FieldHost       = "host"
	FieldPort       = "port"
	FieldProtocol   = "protocol" // http, https, connect, socks5; https for a request inside intercepted TLS
	FieldMethod     = "method"   // CONNECT for a tunnel
	FieldVerdict    = "verdict"  // VerdictAllow or VerdictDeny
	FieldReason     = "reason"   // why it was refused or failed
	FieldRule       = "rule"     // the host of the rule that decided
	FieldAddress    = "address"  // the resolved address
	FieldCredential = "credential"
	FieldStatus     = "status"
	FieldBytesIn    = "bytes_in"  // to the workspace
	FieldBytesOut   = "bytes_out" // from it

	// Fields of APICall, beside FieldMethod, FieldAddress (of the client) and FieldStatus.
	FieldKey    = "key"   // id of the API key
	FieldRoute  = "route" // such as /v1/workspaces/{id}
	FieldTarget = "target"
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
	Tenant    string         `json:"tenant,omitempty"`
	Workspace string         `json:"workspace,omitempty"` // id
	Session   string         `json:"session,omitempty"`
	Fields    map[string]any `json:"fields,omitempty"`
}

// A Sink receives events. Emit must not block for long and must not modify Fields; it is
// called concurrently.
type Sink interface {
	Emit(Event)
}

// Discard is a sink that drops all events.
var Discard Sink = discard{}

type discard struct{}

func (discard) Emit(Event) {}

// A Stream numbers events, sets their time and passes each to its sinks in order. The zero
// value is ready to use and has no sinks.
type Stream struct {
	scrub    func(string) string           // nil changes nothing
	tenantOf func(workspace string) string // nil knows none

	mu    sync.Mutex
	next  uint64
	sinks []Sink
}

// NewStream returns a stream with the given sinks.
func NewStream(sinks ...Sink) *Stream { return &Stream{sinks: sinks} }

// Scrub sets the function that every text of an event passes through, such as one that
// removes secrets. It must be called before the first Emit; f may be called concurrently.
func (s *Stream) Scrub(f func(string) string) { s.scrub = f }

// TenantOf sets the function that returns the tenant of a workspace, for events without a
// tenant. It must be called before the first Emit; f may be called concurrently.
func (s *Stream) TenantOf(f func(workspace string) string) { s.tenantOf = f }

// Attach adds a sink for the following events, and returns a function that removes it.
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

// Continue sets the last sequence of an earlier stream whose readers resume at this one. It
// must be called before the first Emit; a lower number than the present one is ignored.
func (s *Stream) Continue(last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = max(s.next, last)
}

// Emit completes e with its tenant, scrubs and numbers it, sets its time unless it has one, and passes it on. The texts of
// a SandboxViolation and an APICall are truncated after that: a part of a secret would not be
// found.
func (s *Stream) Emit(e Event) {
	if s.tenantOf != nil && e.Tenant == "" && e.Workspace != "" && e.Kind != APICall {
		e.Tenant = s.tenantOf(e.Workspace)
	}
	if s.scrub != nil {
		e.Session, e.Fields = s.scrub(e.Session), mapTexts(e.Fields, s.scrub).(map[string]any)
	}
	if e.Kind == SandboxViolation || e.Kind == APICall {
		e.Fields = mapTexts(e.Fields, Cut).(map[string]any)
	}
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

// Emit stores e; a full ring drops the oldest event.
func (r *Ring) Emit(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf[r.next] = e
	r.next++
	if r.next == len(r.buf) {
		r.next, r.full = 0, true
	}
}

// Events returns the stored events, oldest first.
func (r *Ring) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.full {
		return append([]Event(nil), r.buf[:r.next]...)
	}
	return append(append([]Event(nil), r.buf[r.next:]...), r.buf[:r.next]...)
}

// Since returns the events after the sequence seq, oldest first, and the number of them
// that the ring has dropped. A seq beyond the latest event belongs to another stream, and
// all events are returned.
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
