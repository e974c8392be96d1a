package workspace

import "github.com/croft-run/croft/workspace/driver"

// The words of the contract, for those who hold a workspace and never write a
// provider.
type (
	Ref          = driver.Ref
	Spec         = driver.Spec
	SessionRef   = driver.SessionRef
	Source       = driver.Source
	Policy       = driver.Policy
	Limits       = driver.Limits
	Limit        = driver.Limit
	Network      = driver.Network
	NetRule      = driver.NetRule
	Isolation    = driver.Isolation
	Traits       = driver.Traits
	Capability   = driver.Capability
	Capabilities = driver.Capabilities

	Info         = driver.Info
	StatOptions  = driver.StatOptions
	ReadOptions  = driver.ReadOptions
	WriteOptions = driver.WriteOptions
	WriteResult  = driver.WriteResult

	MkdirOptions  = driver.MkdirOptions
	RemoveOptions = driver.RemoveOptions
	RenameOptions = driver.RenameOptions
	CopyOptions   = driver.CopyOptions
	ListOptions   = driver.ListOptions
	Listing       = driver.Listing

	Edit        = driver.Edit
	EditOptions = driver.EditOptions
	EditResult  = driver.EditResult

	GlobOptions = driver.GlobOptions
	GlobResult  = driver.GlobResult
	GrepOptions = driver.GrepOptions
	GrepResult  = driver.GrepResult

	WatchOptions = driver.WatchOptions
	Watcher      = driver.Watcher
	Changes      = driver.Changes

	Result      = driver.Result
	SessionInfo = driver.SessionInfo
	Size        = driver.Size
)

// NewID returns a fresh workspace id.
func NewID() string { return driver.NewID() }
