// Package local provides workspaces of kind "local": plain directories of this host, with
// commands that run unconfined as Croft's own user.
//
// # Where things are
//
// Each workspace is a directory named by its id below one root, which providers of other
// kinds may share: see package wsdir. It contains:
//
//	state-local.json  the state, see package wsdir; its section guest is that of package supervise
//	files             the files, unless they are in place
//	log               logs and exit statuses of sessions
//	guest.lock, sock  of the guest, see package supervise
//	tmp               on macOS: temporary files of commands with isolation process
//	profile-*.sb      on macOS: profile of commands with isolation process, while they can run
//	rollback-stage    new files of a rollback, with its journal
//
// # In place
//
// A spec with Dir uses an existing directory of the user. Croft changes only what it is
// asked to change, and Destroy removes only <root>/<id>. A directory that contains the
// provider's root or another forbidden directory, or lies in one, is refused, because it
// would contain files of other workspaces. If another directory takes the path later, the
// workspace is gone.
//
// # What is prevented
//
// Package files confines file operations to the directory. Package cmdpolicy refuses
// commands by rules before they are spawned: denied programs, paths outside the workspace,
// variables that would change what runs. In a read-only workspace no command runs.
//
// On macOS a policy can ask for isolation process: commands then run under sandbox-exec
// (Seatbelt). It prevents writes outside of the workspace, its temporary directory and the
// paths of the option writable; reading credential files of the user's home and Croft's data,
// with the other workspaces; signals to processes outside; and, unless the policy opens the
// network, connections. Rules by host are refused. Other files can be read, and no resource
// is limited. Before the first use a test tries each of these under sandbox-exec; if one is
// not prevented, such a workspace is not opened, and the error names what failed.
//
// # What is not prevented
//
// By default there is no isolation: every process of the same user can read and change the files.
// Commands run on the host as Croft's user. The command policy checks how a command is
// called, not what it does; its package doc lists what it misses. Use the provider of kind
// "sandbox" for isolation on Linux.
//
// # Commands
//
// The first command starts a croft-guest (see package guest), once per workspace, which
// outlives this process: the next process that opens the workspace adopts the guest with its
// sessions, their logs and exit statuses. The guest ends by itself when no process has held
// its lease for Config.Lease. Without croft-guest, or if the caller wants only files, a
// workspace has no commands.
//
// Where there are no guests, which is everywhere but on Linux, commands are children of the
// process that has the workspace open (package process). They end with the last handle of
// the workspace in that process: Traits.SessionsEnd. Their logs stay. Another process can run
// commands at the same time, with their output in memory only, but neither lists nor ends
// those of the first one, also not by Destroy: those end with their own process. A process
// tree is a process group there: a command that leaves its group is not found. If croft
// itself is killed, such commands go on without it. There is no Dial.
//
// # Durability
//
// An acknowledged change survives the death of any process. If the policy says durable, it
// survives power loss, too. If not, Traits.Damaged reports that the host was restarted since.
//
// A handle checks before each call whether the workspace was destroyed or its policy was
// changed by another handle, and then returns fault.Evicted.
package local
