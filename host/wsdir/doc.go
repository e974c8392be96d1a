// Package wsdir keeps workspaces that have a directory of their own below one
// root of this host. It is what providers of such workspaces share: where things
// are, how a workspace is made, changed and ended so that a crash at any instant
// leaves something that can be told, and a handle whose files go through package
// boundary. What runs in a workspace, and behind which fence, is its provider's.
//
// # Where things are
//
// A root may be shared by providers of several kinds. Each workspace has a
// directory named by its id:
//
//	<root>/<id>/state-KIND.json  the state: policy, revision, what the provider notes
//	<root>/<id>/state.lock       flock of the state: shared by commits of changes of
//	                             files, exclusive by changes of the state
//	<root>/<id>/files            its files, unless it is in place
//	<root>/<id>/held             flock, shared, while a process holds the workspace
//	<root>/<id>/held.suspect     a process died while it held the workspace, and its
//	                             temporary files were not removed yet
//
// The state is one JSON file of type Meta. A state of another version is refused.
// Dir.Update changes it under its lock, by a temporary file and a rename. What a
// provider notes while the workspace lives is in sections of it, each of a type of
// its own: see Section. Other names that a provider adds, for what is no state, such
// as sockets and layers, are in the table of its package doc.
//
// The name of the state says whose the directory is. That is never torn, while
// what is in the file may be lost with the power.
//
// It is made as <root>/.new-<kind>-<id> and renamed when it is complete, and
// renamed to <root>/.dead-<kind>-<id> before it is removed. So a name tells in
// which state a crash left a directory, and sweeping needs no other record.
//
// # What is promised
//
// A policy is on stable storage before a change of it is acknowledged: a permission
// that was revoked does not come back with the power. So is every state of a
// workspace whose policy says durable; one that is not may lose its state when the
// power goes within moments of a change. It is gone then, and swept as any other. A handle
// notices, before each call, that the workspace was destroyed or that its policy
// was changed by another handle, and answers fault.Evicted. A write looks again
// when it commits, and obeys the policy that holds then: after a change to
// read-only is acknowledged, no write that was under way is committed.
//
// A directory in place is the one that it was when its workspace was made. Its
// path is followed through no symlink, and what is there must have the same
// inode, and device, as long as the host is up; after that the numbers of devices
// may have changed, and the inode alone counts. Where something else has taken
// the path, handles are evicted and the workspace is gone until the directory is
// back. The root, and other ground that is forbidden, is told by what it is, not
// by its name: a directory that is forbidden ground, holds it or lies in it, also
// by a bind mount, is refused. What is mounted from two or more levels below
// forbidden ground is not recognized.
//
// Errors of this package begin with the kind that the caller gave, since they
// are its provider's.
package wsdir
