package driver

import (
	"context"
	"encoding/json"
)

// A Workspace is what a provider has to offer: its modules, nil where absent.
// What it can do is what is set.
type Workspace struct {
	Ref    Ref
	Traits Traits // of this workspace, which may be less than Probe's
	Life   Life
	FS     *FS
	Shell  *Shell
	Code   *Interpreter // stateful contexts
	Script *Interpreter // a throw-away isolate

	// Extra holds capabilities that the core does not know, by name. One that
	// is a ToolSource brings its own tools.
	Extra map[string]any
}

// Life is how a workspace is held and ended. Close and Destroy are required.
type Life struct {
	// Close lets go of what this process holds; the workspace lives on. It ends
	// the watchers of this Workspace and its sessions that are not detached. No
	// call follows it on the same Workspace. Closing twice is closing once.
	Close func(ctx context.Context) error

	// Destroy ends the workspace and removes all that Open made; a directory
	// that was given in place stays. Destroying twice is destroying once, and
	// one that was cut short can be repeated or swept.
	Destroy func(ctx context.Context) error

	// Pause stops the processes and frees what they hold; Resume goes on.
	Pause  func(ctx context.Context) error
	Resume func(ctx context.Context) error

	// NoPause is why there is no Pause, where there is a reason beside the
	// provider's kind.
	NoPause string

	// Update changes the policy in place. The ref that it returns has a higher
	// revision; from then on an older one is refused by Resolve, and the handle
	// itself obeys the new policy.
	Update func(ctx context.Context, policy Policy) (Ref, error)

	// Snapshot is the module that remembers states of the workspace.
	Snapshot *Snapshots
}

// A ToolSource is an extra capability that brings its own tools. Names must be
// unique and must not start with the reserved prefix "workspace_".
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
	Output      json.RawMessage // JSON Schema of ToolResult.Structured; nil for none
	ReadOnly    bool            // changes nothing
	Destructive bool            // may lose what can't be got back
	OpenWorld   bool            // reaches beyond the workspace

	// Arguments says what arguments are to rules of approval and to the audit, by
	// name. Where it is nil each string in the arguments is held against the rules as
	// if it were a path, and the audit names none.
	Arguments map[string]ArgumentKind

	// Call runs the tool. args satisfies Input. An error is the call's own.
	Call func(ctx context.Context, args json.RawMessage) (ToolResult, error)
}

// An ArgumentKind says what an argument of a tool, a string or a list of strings, is
// to rules of approval and to the audit.
type ArgumentKind string

// Kinds of arguments.
const (
	ArgPath    ArgumentKind = "path"    // a path of the workspace, which may begin with workspace://
	ArgPatch   ArgumentKind = "patch"   // a patch: the files in it are paths
	ArgCommand ArgumentKind = "command" // a command line
	ArgWord    ArgumentKind = "word"    // a further word of the command line
	ArgName    ArgumentKind = "name"    // what else a call is about: a name, a URL, a pattern
)

// ArgumentKinds lists the kinds.
func ArgumentKinds() []ArgumentKind {
	return []ArgumentKind{ArgPath, ArgPatch, ArgCommand, ArgWord, ArgName}
}

// A ToolResult is what a tool answers: text for the model, and the same as data.
type ToolResult struct {
	Text       string
	Structured json.RawMessage
}
