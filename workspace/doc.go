// Package workspace is the API of a workspace: an isolated directory with files, a
// shell, interpreters and snapshots, the same for every provider.
//
// A [Workspace] wraps what a provider returned (package driver) and implements once
// what must be the same for every provider: it checks paths, applies limits,
// implements functions that a provider lacks, repeats a call that found the workspace
// evicted, and reports each operation in spans and events. Its API follows the
// standard library: [Workspace.FS] is an fs.FS that also writes, and
// [Workspace.Command] mirrors os/exec.
//
// Most programs get a Workspace from a registry, which owns identity and stores refs.
// A program without a registry opens a workspace itself:
//
//	mux := workspace.NewMux(new(memory.Provider))
//	ws, err := mux.Open(ctx, workspace.Spec{Kind: "memory", ID: workspace.NewID()}, nil)
//
// # Closing
//
// [Workspace.Close] ends commands and watches that are running, waits for other
// calls, and makes later calls fail with fault.WrongState. So a driver never gets a
// call during or after its Close. A call that is made within another call (by a
// callback, or by the body of a write) is refused during closing and never blocks.
//
// # Repeating
//
// A call that finds the workspace evicted is repeated once after Options.Renew. A
// command or code that may have started is never run again: if it was lost, its
// result says so (driver.CauseLost).
//
// # Paths
//
// A path is relative to the workspace and uses slashes. "", "." and "/" are the
// workspace itself. If the provider has a root inside (Traits.Root, such as
// /workspace), absolute paths below that root are accepted, too. ".." is resolved
// lexically, before any symlink is resolved. A path that would leave the workspace is
// a fault.SandboxViolation, whether or not it exists.
package workspace
