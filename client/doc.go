// Package client is the client of a croft server's HTTP API, and a provider of
// workspaces on that server.
//
// A [Client] has the control calls (Create, List, Show, Destroy, ...) and
// attaches to a workspace by its id or name. A [Provider] puts the same client
// behind the contract of package driver, with the kind "remote": the server
// opens a workspace of another kind under the id that it is given, and each
// operation on files is one request. Bodies are streams in both directions.
//
// # Commands
//
// A foreground command, or a session that is not detached, has a WebSocket connection
// of its own: it ends when the context ends, when the workspace is closed, or when this
// process ends. Callbacks are called here, each stream independently, and their errors
// are added to the result here. If the connection of a foreground command breaks, the
// result has the cause lost. All other operations of a session are single requests, so
// any client can use them.
//
// # Errors
//
// Errors of the server keep their code. A server that does not answer is
// fault.Unavailable, with its URL; Open and Resolve mark it transient. A workspace that
// no longer exists on the server is fault.Evicted from a module, so that a registry
// resolves it again, and Failed with the cause gone from Resolve. A write whose
// connection breaks is Unavailable: it may or may not have happened, so the client never
// repeats it.
//
// # Sweeping
//
// A server has other clients, too, whose workspaces are not in live. Each workspace that
// a Provider opens has the label croft-client=NAME, with Config.Client as the name, and
// Sweep destroys only workspaces with that label whose id is not in live. Without a name
// Sweep does nothing.
package client
