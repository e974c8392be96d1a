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
// provider's root or other forbidden ground, or lies in it, is refused, since the
// files of other workspaces would be in it. A directory that takes the path of
// another one later is not the workspace, which is gone then.
//
// # What is prevented, and what is not
//
// Files are reached through package boundary, so no name leaves the directory.
// There is no other isolation: every process of the same user can read and
// change the files.
//
// Commands run as the user that Croft is, on the host itself. What stands before
// them is package guard with its rules for this case: programs that are denied,
// paths that leave the workspace, variables that would change what runs. It looks
// at what a command is called with and not at what it then does; its package doc
// lists what gets by. In a read-only workspace no command is run. Where that is
// not enough, the provider of kind "sandbox" has a fence.
//
// # Commands
//
// The first one starts a croft-guest (see package guest), once per workspace,
// which outlives this process: the next one that holds the workspace finds it
// with its sessions, their logs and exit statuses. It ends by itself when nobody
// has held it for Config.Lease. Without a croft-guest to be found, or where the
// caller declares the files alone, a workspace has no commands.
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
