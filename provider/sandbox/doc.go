// Package sandbox is the provider of workspaces whose processes run behind a
// fence that the kernel holds: kind "sandbox".
//
// # Where things are
//
// The files of a workspace are a directory of this host, kept as package plot
// says. What there is in the directory of a workspace, <root>/<id>:
//
//	state-sandbox.json  the state, see package plot; its sections are guest (package
//	                    supervise), watched, staged and seal
//	state.lock          flock of the state and of commits, see package plot
//	held, held.suspect  which processes hold the workspace, see package plot
//	guest.lock          flock while the guest is found, started or ended, see package supervise
//	still               flock, shared, while a process keeps the workload frozen
//	files               the files, unless they are in place or in disk.img
//	layer               with a template: what was changed (upper), room for overlayfs (work)
//	disk.img            where disk is limited: a file system with the files
//	staged              layers of directories that were imported by a mount
//	stage               where a rollback makes ready what is new, with its journal
//	rollback            journal of a rollback through a mount, see snapshot.BeginWay
//	sock                where the guest listens; in gVisor a symlink into ctl
//	ctl                 directory of the socket of a guest in gVisor
//	log                 logs and exit statuses of sessions
//	tmp                 temporary files, where the fence has no mounts
//	egress              directory of the socket of the proxy
//	authority.pem       keys of the workspace's authorities, see package outlet
//	roots               certificates that programs inside trust
//
// # The files
//
// There is one way to read and one way to write files: package boundary, in this
// process, on one directory. No file goes by the guest, so a workspace is filled
// before it has one, and also while it is paused. The directory is that of the files,
// or, where processes see something else than that, the same place as the guest's
// mounts show it: a template or a sealed layer below, a file system of limited size,
// imported directories, and a directory in place, where mounts keep read-only what
// others run later. The guest hands out a descriptor of it when it starts, before any
// process of the workload; another process gets it from the kernel, by the id of the
// mount that the state has. There, files are made by the user that the workload is,
// and mount points are neither replaced nor renamed nor removed: see
// boundary.Options.KeepMounts. The guest's mount namespace is kept open meanwhile: a
// guest that dies does not lay bare what its mounts kept.
//
// Snapshots read the directory of the files, or the upper layer, on the host.
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
