// Package client reaches workspaces on a croft server, through its HTTP API: it
// is what croft --server uses, and it lets a registry keep workspaces elsewhere.
//
// A [Client] has the control calls (Create, List, Show, Destroy, ...) and
// attaches to a workspace by its id or name. A [Provider] puts the same client
// behind the contract of package driver, with the kind "remote": the server
// opens a workspace of another kind under the id that it is given, and each
// operation on files is one request. Bodies are streams in both directions.
//
// # Commands
//
// A command that runs in the foreground, or as a session that is not detached,
// hangs on a connection of its own: it ends when the context does, when the
// workspace is closed, or when this process is gone, however that went. Callbacks
// are called here, one stream independent of the other, and what they return is
// added to the result here. A connection that breaks under a foreground command is
// a result with the cause lost. Everything else that is done with a session is
// one request each, so that any client can do it.
//
// # Errors
//
// What the server answers with a code comes back as that code. A server that
// does not answer is fault.Unavailable, naming its URL; Open and Resolve mark it
// transient. A workspace that vanished on the server is fault.Evicted from a
// module, so that a registry looks again, and Failed with the cause gone from
// Resolve. A write whose connection breaks in the middle is Unavailable: it may
// or may not have happened, so it is never repeated by itself.
//
// # Sweeping
//
// A server serves others as well, so Sweep must not take "not in live" for
// "nobody's". Each workspace that a Provider opens bears the label
// croft-client=NAME, with Config.Client as the name, and Sweep destroys only
// workspaces of that label whose id is not in live. Without a name Sweep does
// nothing.
package client
