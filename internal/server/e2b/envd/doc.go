// Package envd serves one sandbox to E2B's SDKs as envd does, E2B's daemon inside a
// sandbox: the Connect services process.Process and filesystem.Filesystem, files over
// HTTP, and the code interpreter. It works over any [workspace.Workspace] with a shell.
//
// The package knows no API keys, no registry and no routing: its caller finds the sandbox
// of a request and passes it as a [Sandbox].
//
// # Files
//
// The root of the workspace is the home of the sandbox's user. Paths below the root go
// through the workspace's files. Other absolute paths, such as /tmp/x, belong to the
// sandbox's own file system: commands inside the sandbox read and write them, so the host
// is never touched.
//
// # Processes
//
// A process is a detached session of the workspace with labels. It outlives the connection
// and, where the provider's sessions do, this server. All commands run as the workload's
// user, whatever user the client names.
package envd
