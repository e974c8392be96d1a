package workspace

import "github.com/croft-run/croft/workspace/driver"

// The types of the contract, for programs that use workspaces and implement no
// provider. Package driver documents each type.

type (
	// Ref is what Resolve needs to attach to a workspace again.
	Ref = driver.Ref
	// Spec is a request for a workspace.
	Spec = driver.Spec
	// SessionRef names the session, agent and user that use a workspace.
	SessionRef = driver.SessionRef
	// Source is what a workspace starts from.
	Source = driver.Source
	// Policy is what a caller requests: isolation, network, limits and lifetime.
	Policy = driver.Policy
	// Limits is what a workspace may use.
	Limits = driver.Limits
	// Limit is one of Limits.
	Limit = driver.Limit
	// Network is what the workspace may reach.
	Network = driver.Network
	// NetRule is one rule of Network.
	NetRule = driver.NetRule
	// Isolation is a level of separation from the host.
	Isolation = driver.Isolation
	// Traits is what is enforced, and by which mechanism.
	Traits = driver.Traits
	// Capability is the name of a module.
	Capability = driver.Capability
	// Capabilities is a set of modules.
	Capabilities = driver.Capabilities

	// Info is the description of a directory entry.
	Info = driver.Info
	// StatOptions is the options of Stat.
	StatOptions = driver.StatOptions
	// ReadOptions is the options of Read.
	ReadOptions = driver.ReadOptions
	// WriteOptions is the options of Write and WriteFile.
	WriteOptions = driver.WriteOptions
	// WriteResult is what Write did.
	WriteResult = driver.WriteResult
	// MkdirOptions is the options of Mkdir.
	MkdirOptions = driver.MkdirOptions
	// RemoveOptions is the options of Remove.
	RemoveOptions = driver.RemoveOptions
	// RenameOptions is the options of Rename.
	RenameOptions = driver.RenameOptions
	// CopyOptions is the options of Copy.
	CopyOptions = driver.CopyOptions
	// ListOptions is the options of List.
	ListOptions = driver.ListOptions
	// Listing is one page of List.
	Listing = driver.Listing
	// Edit is the replacement of one text by another.
	Edit = driver.Edit
	// EditOptions is the options of Edit.
	EditOptions = driver.EditOptions
	// EditResult is what Edit did.
	EditResult = driver.EditResult
	// GlobOptions is the options of Glob.
	GlobOptions = driver.GlobOptions
	// GlobResult is what Glob found.
	GlobResult = driver.GlobResult
	// GrepOptions is the options of Grep.
	GrepOptions = driver.GrepOptions
	// GrepResult is what Grep found and what Grep did not search.
	GrepResult = driver.GrepResult
	// Match is one match of Grep.
	Match = driver.Match
	// Skip is a file that Grep did not search.
	Skip = driver.Skip
	// WatchOptions is the options of Watch.
	WatchOptions = driver.WatchOptions
	// Watcher is what Watch returns.
	Watcher = driver.Watcher
	// Changes is a batch of a Watcher.
	Changes = driver.Changes
	// Change is one path that changed.
	Change = driver.Change

	// Result is how a command ended.
	Result = driver.Result
	// SessionInfo is the state of a session.
	SessionInfo = driver.SessionInfo
	// Size is the size of a terminal.
	Size = driver.Size
	// Poll is what Session.Poll returns.
	Poll = driver.Poll
	// LogChunk is a part of a session's log.
	LogChunk = driver.LogChunk
	// Code is a piece of code to run.
	Code = driver.Code
	// CodeResult is how code ran.
	CodeResult = driver.CodeResult
	// CodeContext is a context that keeps state between runs.
	CodeContext = driver.CodeContext
	// ContextOptions is the options of CreateContext.
	ContextOptions = driver.ContextOptions

	// SnapshotInfo is the description of a snapshot.
	SnapshotInfo = driver.SnapshotInfo
	// SnapshotOptions is the options of Snapshot, Seal and Checkpoint.
	SnapshotOptions = driver.SnapshotOptions
	// SnapshotAccess is which snapshots may be used.
	SnapshotAccess = driver.SnapshotAccess
	// ListSnapshotsOptions is the options of Snapshots.
	ListSnapshotsOptions = driver.ListSnapshotsOptions
)

// NewID returns a random workspace id.
func NewID() string { return driver.NewID() }
