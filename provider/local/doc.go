// Package local is the provider of workspaces that are directories of this host:
// kind "local". It is the plainest place that lasts: what an agent writes is what
// a person finds with ls.
//
// # Where things are
//
// All workspaces of a provider are below one root, which it may share with
// providers of other kinds. Each has a directory named by its id:
//
//	<root>/<id>/meta    what the workspace is: kind, policy, revision (JSON)
//	<root>/<id>/files   its files, unless it is in place
//	<root>/<id>/held    locked while a process holds the workspace
//
// Open makes it as <root>/.new-local-<id> and renames it when it is complete;
// Destroy renames it to <root>/.dead-local-<id> and then removes it. So a name
// tells in which state a crash left a directory, and Sweep needs no other record.
//
// # In place
//
// A spec with Dir uses a directory that exists: shared mode. Its files are the
// user's. Croft changes what it is asked to change and nothing else, and Destroy
// removes only what Croft made, which is <root>/<id>. A directory that holds the
// provider's root, or lies in it, is refused, since the files of other
// workspaces would be in it.
//
// # What is prevented, and what is not
//
// Files are reached through package boundary, so no name leaves the directory.
// There is no other isolation: every process of the same user can read and
// change the files.
//
// # What survives what
//
// What was acknowledged survives the death of any process. Where the policy says
// durable it survives power loss, too. Where it does not, and the host has been
// started anew since, Traits.Damaged says so.
//
// A handle notices, before each call, that the workspace was destroyed or that
// its policy was changed by another handle, and answers fault.Evicted.
package local
