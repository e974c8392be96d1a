// Package docker is the provider of workspaces whose processes run in a container
// of Docker, or of an engine that speaks its API: kind "docker".
//
// # Where things are
//
// The files of a workspace are a directory of this host, kept as package plot
// says and mounted at /workspace in its container. File operations go to it
// through package boundary, straight from this process: they need no engine.
// What there is in the directory of a workspace, <root>/<id>:
//
//	state-docker.json   the state, see package plot; its section is guest (package supervise),
//	                    which names the container
//	state.lock          flock of the state and of commits, see package plot
//	held, held.suspect  which processes hold the workspace, see package plot
//	guest.lock          flock while the container is found, started, paused or ended, see
//	                    package supervise
//	files               the files; empty where they are on a volume
//	box                 mounted at /.croft: the guest's socket, its logs, the directory of
//	                    the proxy's socket; see package guest
//	stage               where a rollback makes ready what is new, with its journal
//	rollback            journal of a rollback on a volume, see snapshot.BeginRollback
//	authority.pem       keys of the workspace's authorities, see package outlet
//	roots               certificates that programs inside trust
//
// Besides workspaces, the root has .ground-docker, an id that the labels of containers
// and volumes name, and Config.Cache has what workspaces share: the guest's program,
// accounts, what was proven of an engine, and, while an engine is tried or a volume is
// filled, a directory probe-*. A process holds the flock probe.lock, shared, as long as
// one is its own; what a crash left is removed under the exclusive one.
//
// An engine that does not see that directory, such as one on another host, keeps
// the files itself, on a volume with the name of the container, and nothing of this
// host is mounted: the guest serves the files, its program is in the image (see
// OwnImages), and the container's standard input and output are its connection to
// the process that started it. Another process has a second program in the container
// pass its own on: once, not for each call. See Config.Files for how that is chosen.
//
// # The guest
//
// The first call of the Shell makes a container whose only process is croft-guest
// (see package guest), mounted from this host; it runs every command, so none
// pays for what "docker exec" does. It outlives this process: the next one that
// holds the workspace finds it, with its sessions, their logs and exit statuses.
// When nobody has held it for Config.Lease, it ends by itself. A guest that has
// died, whatever ended it, is Evicted at the next call, to which nothing was sent;
// a command that it took with it is a result with the cause lost, or oom where the
// engine says so. Containers are made anew from what the workspace's ref and meta
// say; no identity of one is kept anywhere but in the state.
//
// # What is prevented
//
// The container has no network but a loopback interface, a root file system that
// can't be written, no capability, no way to new privileges, the engine's default
// filter of system calls and, for the workload, Croft's own on top of it, limits
// of memory (swap included), processes and CPUs, and temporary directories in
// memory. Its user is none that owns anything on this host, where Croft is root
// and the engine does not map users by itself. The engine's socket is never
// inside. What a policy allows is reached through a proxy, package egress.
//
// # What is not
//
// The kernel is shared, unless the runtime is gVisor's. The limit of memory holds
// for the guest, too, which needs some 10 MB. Where Croft is not root and the
// engine is, the workload is the same user as Croft: it can harm its own guest,
// and nothing else. What an image declares as a volume can be written by whom the
// image lets, on the engine's disk, and goes with the container. With files on a
// volume the proxy is reached through a process that holds the workspace, so that
// nothing is reached without one, and it is not known whether the engine's host lost
// its power.
package docker
