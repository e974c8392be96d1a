// Package workspace is what people hold: a bounded place with files, a shell,
// code and snapshots, wherever it really is.
//
// A [Workspace] wraps what a provider returned (package driver) and does, once,
// everything that must be the same everywhere: it judges paths, applies limits,
// makes up for what a provider does not have, repeats a call that found the
// workspace evicted, and tells of each operation in spans and events. It feels
// like the standard library: [Workspace.FS] is an fs.FS that also writes, and
// [Workspace.Command] mirrors os/exec.
//
// Most programs get a Workspace from a registry, which owns identity and
// remembers. A program that wants neither can open one itself:
//
//	mux := workspace.NewMux(new(memory.Provider))
//	ws, err := mux.Open(ctx, workspace.Spec{Kind: "memory", ID: workspace.NewID()}, nil)
//
// # Closing
//
// [Workspace.Close] lets go: commands and watches that are under way are ended,
// other calls are waited for, and later ones answer fault.WrongState. So a driver
// never sees a call beside or after the last one. A call that is made within
// another (by a callback, or by the body of a write) is refused meanwhile and
// never waits.
//
// # Repeating
//
// A call that finds the workspace evicted is repeated once after
// Options.Renew. A command or code that may have begun is never run again: where
// it was lost, its result says so (driver.CauseLost).
//
// # Paths
//
// A path is relative to the workspace and uses slashes. "", "." and "/" are the
// workspace itself; where the provider has a root inside (Traits.Root, such as
// /workspace), absolute paths below it are understood, too. ".." is resolved on
// the words of the path, before any symlink is looked at. A path that would
// leave is a fault.SandboxViolation, whether or not anything is there.
package workspace
