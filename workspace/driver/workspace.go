package driver

import (
	"context"
	"encoding/json"
	"time"
)

// A Workspace is the set of modules that a provider returns; a module that is absent
// is nil. Its capabilities are the modules that are set.
type Workspace struct {
	Ref    Ref
	Traits Traits // of this workspace; may be weaker than the traits of Probe
	Life   Life
	FS     *FS
	Shell  *Shell
	Code   *Interpreter // stateful contexts
	Script *Interpreter // an isolate, discarded after each run

	// Extra holds capabilities that the core does not know, by name. An extra that is
	// a ToolSource adds its own tools.
	Extra map[string]any
}

// Life has the functions that close, destroy, pause and update a workspace. Close and
// Destroy are required.
type Life struct {
	// Close releases what this process holds; the workspace continues to exist. It
	// ends the watchers of this Workspace and its sessions that are not detached. No
	// call follows it on the same Workspace. Close is idempotent.
	Close func(ctx context.Context) error

	// Destroy removes the workspace and everything that Open created; a directory in
	// place stays. Destroy is idempotent; after an interrupted Destroy, Destroy can
	// be repeated or Sweep removes the rest.
	Destroy func(ctx context.Context) error

	// Pause freezes the processes, which keep their memory; Resume continues them.
	Pause  func(ctx context.Context) error
	Resume func(ctx context.Context) error

	// NoPause says why Pause is nil, if the reason is not the kind of the provider.
	NoPause string

	// Update changes the policy in place. The returned ref has a higher revision.
	// From then on Resolve refuses an older ref, and this handle enforces the new
	// policy.
	Update func(ctx context.Context, policy Policy) (Ref, error)

	// Metrics measures what the workspace uses. It starts no guest, and takes milliseconds.
	Metrics func(ctx context.Context) (Metrics, error)

	// Snapshot is the module that stores states of the workspace.
	Snapshot *Snapshots
}

// Metrics is what a workspace uses at a time. A field that was not measured is nil.
type Metrics struct {
	Time    time.Time `json:"time"`
	CPUTime *float64  `json:"cpuTime,omitempty"` // seconds of CPU time; may fall when processes end
	Memory  *int64    `json:"memory,omitempty"`  // bytes
	PIDs    *int64    `json:"pids,omitempty"`    // processes
	Disk    *int64    `json:"disk,omitempty"`    // bytes of the workspace's own files, measured within the last minute
}

// A ToolSource is an extra that adds its own tools. Their names must be unique and
// must not start with the reserved prefix "workspace_".
type ToolSource interface {
	Tools() []Tool
}

// ReservedToolPrefix starts the names of Croft's own tools.
const ReservedToolPrefix = "workspace_"

// A Tool is one typed operation that an agent may call.
type Tool struct {
	Name        string
	Description string
	Input       json.RawMessage // JSON Schema of the arguments, an object
	Output      json.RawMessage // JSON Schema of ToolResult.Structured; may be nil
	ReadOnly    bool            // changes nothing
	Destructive bool            // may lose data that can't be recovered
	OpenWorld   bool            // reaches beyond the workspace

	// Arguments says, by name, what arguments mean for approval rules and the audit
	// log. If it is nil, each string in the arguments is matched against the rules as
	// if it were a path, and the audit log names no argument.
	Arguments map[string]ArgumentKind

	// Call runs the tool. args satisfies Input. An error concerns this call only.
	Call func(ctx context.Context, args json.RawMessage) (ToolResult, error)
}

// An ArgumentKind says what an argument of a tool, a string or a list of strings,
// means for approval rules and the audit log.
type ArgumentKind string

// Kinds of arguments.
const (
	ArgPath    ArgumentKind = "path"    // a path of the workspace, which may begin with workspace://
	ArgPatch   ArgumentKind = "patch"   // a patch: the files in it are paths
	ArgCommand ArgumentKind = "command" // a command line
	ArgWord    ArgumentKind = "word"    // a further word of the command line
	ArgName    ArgumentKind = "name"    // another subject of the call: a name, a URL, a pattern
)

// ArgumentKinds lists the kinds.
func ArgumentKinds() []ArgumentKind {
	return []ArgumentKind{ArgPath, ArgPatch, ArgCommand, ArgWord, ArgName}
}

// A ToolResult is the result of a tool: text for the model, and the same as data.
type ToolResult struct {
	Text       string
	Structured json.RawMessage
}
