// Package e2b provides workspaces of kind "e2b": sandboxes of E2B's cloud, or of another
// server that speaks its API, such as "croft up".
//
// # Where things are
//
// On this host a workspace has a directory, see package wsdir, with its state and no files.
// The directory, <root>/<id>, contains:
//
//	state-e2b.json          the state, see package wsdir; its sections are guest (package
//	                        supervise) and made (package remote)
//	state.lock              flock of the state and of commits, see package wsdir
//	in-use, in-use.suspect  presence marker, see package wsdir
//	guest.lock              flock while the guest is found, started or ended, see package
//	                        supervise
//	files                   empty: the files are in the sandbox
//	sandbox.json            the server, and the name of the secret that is its API key
//	rollback                journal of a rollback, see snapshot.BeginRollback
//
// The server names its sandboxes itself, so each has the id of its workspace as metadata, by
// which it is found. In the sandbox, ~/.croft contains:
//
//	bin/croft-guest-DIGEST  the guest's program, uploaded when the sandbox is created
//	ws/files                the files of the workspace
//	ws/log                  logs and exit statuses of sessions
//	ws/sock, ws/lock        socket and flock of the guest
//
// # The guest
//
// E2B's protocol has neither atomic writes nor conditional ones, no digests, no sessions
// with logs, and no search. So the provider uses envd, E2B's daemon inside a sandbox, only to
// upload croft-guest and to run it (see package guest): "croft-guest serve" is a process of
// envd that outlives the connection, and each connection is a process "croft-guest tunnel",
// whose standard input and output envd carries. envd does not end a process whose client is
// gone; the tunnel does so by itself when nothing was sent to it for half a minute.
//
// # Life of a sandbox
//
// A sandbox has a time-out, which is moved while a process has the workspace open, and after
// which the server pauses it. The next process that opens the workspace resumes it.
//
// # What is prevented
//
// That is the server's part, and can't be verified from here. So the traits claim no
// isolation, unless the option "isolation" says what the server's operator promises.
package e2b
