// Package ssh provides workspaces of kind "ssh": directories on another Linux machine, which
// the program ssh reaches, with commands that run there as the user of the login.
//
// # Where things are
//
// On this host a workspace has a directory, see package wsdir, with its state and no files.
// The directory, <root>/<id>, contains:
//
//	state-ssh.json          the state, see package wsdir; its sections are guest (package
//	                        supervise) and made (package remote)
//	state.lock              flock of the state and of commits, see package wsdir
//	in-use, in-use.suspect  presence marker, see package wsdir
//	guest.lock              flock while the guest is found, started or ended, see package
//	                        supervise
//	files                   empty: the files are on the other machine
//	machine.json            the machine, and the directory of the workspace there
//	rollback                journal of a rollback, see snapshot.BeginRollback
//
// On the machine, the directory Config.Dir contains:
//
//	bin/croft-guest-DIGEST  the guest's program, uploaded on first use
//	ws/<id>/files           the files of a workspace
//	ws/<id>/log             logs and exit statuses of sessions
//	ws/<id>/sock            socket of the guest
//	ws/<id>/lock            flock of the guest while it lives
//
// # The guest
//
// "ssh HOST croft-guest daemon DIR" starts the guest of a workspace (see package guest),
// which serves files and commands. The guest outlives the connection: the next process, or
// the next connection of this one, runs "croft-guest connect DIR" and reaches the same guest
// with its sessions, their logs and exit statuses. The guest ends by itself when no
// connection has held its lease for Config.Lease. After the loss of a connection the next
// call returns Evicted, and nothing was sent; a command that was under way has a result with
// the cause lost, and the guest has killed it.
//
// machine.json is on stable storage before anything exists on the machine, and is removed
// after the directory there. So Destroy or Sweep finds what a crash has left.
//
// # Connections
//
// ssh is the program on PATH with the configuration, agent and known hosts of the user. Its
// Options are BatchMode=yes, so that it never asks, and StrictHostKeyChecking=yes: a host
// whose key is not in known_hosts is refused. Each open workspace has one ssh process; users
// who set ControlMaster in their ssh configuration share one connection among them.
//
// # What is prevented
//
// The guest confines file operations to the directory of the workspace. Package cmdpolicy
// refuses commands by the programs and variables that it denies, before they are sent. In a
// read-only workspace no command runs.
//
// # What is not prevented
//
// There is no isolation: commands can read and change all that the user of the login can,
// other workspaces on that machine included, and its network is theirs. Use a machine or a
// user for nothing else, or run "croft up" there and the provider "sandbox".
package ssh
