// Package local is the provider of workspaces that are directories of this host:
// kind "local". It is the plainest place that lasts: what an agent writes is what
// a person finds with ls.
//
// # Where things are
//
// As package plot says: each workspace is a directory named by its id below one
// root, which providers of other kinds may share.
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
