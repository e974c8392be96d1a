// Package wsdir creates, locks, updates and removes the host directories of workspaces, so
// that a crash at any instant leaves a recoverable state.
//
// It is shared by all providers whose workspaces have a directory on this host. A [Handle]
// gives access to the files of a workspace through package files. Starting and isolating
// processes is the provider's part.
//
// # Layout on disk
//
// A root may be shared by providers of several kinds. Each workspace has a directory named
// by its id:
//
//	<root>/<id>/state-KIND.json  the state: policy, revision, sections of the provider
//	<root>/<id>/state.lock       flock of the state: shared while a change of a file
//	                             commits, exclusive while the state changes
//	<root>/<id>/files            the files of the workspace, unless it is in place
//	<root>/<id>/in-use           presence marker: a shared flock of each open handle;
//	                             not empty while a handle is open
//	<root>/<id>/in-use.suspect   a process crashed while it had the workspace open, and
//	                             its temporary files are not removed yet
//
// The state is one JSON file of type State. A state of another version is refused.
// Dir.Update changes it under the exclusive flock, by a temporary file and a rename. A
// provider records its own data in sections of the state: see Section. Files that a
// provider adds besides the state, such as sockets and overlayfs layers, are in the table
// of the provider's package doc.
//
// The name of the state file says which kind of provider owns the directory. A power loss
// can lose the content of the file, but not its name.
//
// A directory is created as <root>/.new-<kind>-<id> and renamed when it is complete. It is
// renamed to <root>/.dead-<kind>-<id> before it is removed. So the name alone says in which
// state a crash left a directory, and Sweep needs no other record.
//
// # What is promised
//
// A change of the policy is on stable storage before it is acknowledged: a permission that
// was revoked does not come back after a power loss. The same holds for every state of a
// workspace whose policy is durable. A workspace that is not durable may lose its state in
// a power loss within moments of a change; it is then gone, and Sweep removes it. A handle
// checks before each call whether the workspace was destroyed or another handle changed its
// policy, and then answers fault.Evicted. A write checks the policy again when it commits
// (see Handle.CommitGuard): after a change to read-only is acknowledged, no write that was
// under way is committed.
//
// A directory in place must stay the directory that it was when its workspace was created.
// Its path is opened without following symlinks. Its inode and device number must be the
// same; after a reboot of the host only the inode is compared, because device numbers may
// change. If the path leads to another directory, handles are evicted and the workspace is
// gone until the directory is back. The root and the directories of Config.Forbidden are
// recognized by inode, not by name: a directory that is one of them, contains one or lies
// in one is refused, also when it is reached through a bind mount. A bind mount of a
// directory two or more levels below a forbidden one is not recognized.
//
// Errors of this package begin with the kind of the provider.
package wsdir
