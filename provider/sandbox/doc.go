// Package sandbox is the provider of workspaces whose processes run behind a
// fence that the kernel holds: kind "sandbox".
//
// # Where things are
//
// The files of a workspace are a directory of this host, kept as package plot
// says. File operations go to it through package boundary, straight from this
// process. Beside it are, below <root>/<id>:
//
//	sock    where the workspace's guest listens
//	guest   which process that is, under which policy it runs (JSON)
//	log     logs and exit statuses of sessions
//	layer   with a template: what was changed
//	disk.img  where disk is limited: a file system with the files
//
// # The guest
//
// The first call of the Shell starts one croft-guest (see package guest) inside
// the fence, once per workspace; it runs every command. It outlives this
// process: the next one that holds the workspace finds it, with its sessions,
// their logs and exit statuses. When nobody has held it for Config.Lease, it ends
// by itself. A guest that has died is Evicted at the next call, to which nothing
// was sent; a command that it took with it is a result with the cause lost.
// The guest of a workspace opened with {"throwaway": true} ends with the process
// that started it.
//
// A change of policy that the guest can't follow, such as of the environment,
// ends the guest and what runs in it.
//
// # What is prevented
//
// Inside are a root of its own with the host's programs, read only, and the
// workspace at /workspace, or at its own path where it is in place; processes of
// the workspace alone; no network but a loopback interface; no device but the
// harmless ones; no capability, no set-user-id, no system call beyond an
// allow-list. Home directories, /var, /run, /sys and other workspaces do not
// exist there.
//
// # What is not
//
// The kernel is shared: who finds a hole in it is out. So is time: a workspace
// can see how busy the machine is. What the host's /usr and /etc hold, beyond
// what is hidden by name, can be read.
package sandbox
