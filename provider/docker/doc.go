// Package docker provides workspaces of kind "docker", whose processes run in a container
// of Docker or of another engine with Docker's API, such as Podman.
//
// # Where things are
//
// The files of a workspace are a directory of this host (see package wsdir), mounted at
// /workspace in its container. Package files, in this process, reads and writes that
// directory without the engine. The directory of a workspace, <root>/<id>, contains:
//
//	state-docker.json       the state, see package wsdir; its section is guest (package
//	                        supervise), which names the container
//	state.lock              flock of the state and of commits, see package wsdir
//	in-use, in-use.suspect  presence marker, see package wsdir
//	guest.lock              flock while the container is found, started, paused or ended,
//	                        see package supervise
//	files                   the files; empty if they are on a volume
//	box                     mounted at /.croft: the guest's socket, its logs, the directory
//	                        of the proxy's socket; see package guest
//	login.sh                a file of /etc/profile.d, with which login shells keep their PATH
//	freeze                  marker while the container is paused for a snapshot
//	rollback-stage          new files of a rollback, with its journal
//	rollback                journal of a rollback on a volume, see snapshot.BeginRollback
//	authority.pem           keys of the workspace's certificate authorities, see package proxies
//	roots                   certificates that programs inside trust
//
// Besides workspaces, the root contains .rootID-docker, an id that is in the labels of
// containers and volumes. Config.Cache contains what workspaces share: the guest's program,
// account files, proofs of engines, and, while an engine is tested or a volume is filled, a
// directory probe-*. A process holds the flock probe.lock, shared, while it has such a
// directory; leftovers of crashes are removed under the exclusive flock.
//
// An engine that does not see that directory, such as one on another host, keeps the files
// on a volume with the name of the container. Then nothing of this host is mounted: the
// guest serves the files, its program is in the image (see OwnImages), and the process that
// started the container talks to the guest over the container's standard input and output.
// Another process starts a second program in the container, once, which relays its
// connection. Config.Files chooses between directory and volume.
//
// # The guest
//
// The first call of the Shell creates a container whose only process is croft-guest (see
// package guest), mounted from this host. The guest runs every command, which avoids the
// cost of "docker exec". It outlives this process: the next process that opens the
// workspace adopts it with its sessions, their logs and exit statuses. The guest ends by
// itself when no process has held its lease for Config.Lease. After the death of a guest
// the next call returns Evicted, and nothing was sent; a command that died with the guest
// has a result with the cause lost, or oom if the engine reports that. Containers are
// created again from the ref and the state; only the state names a container.
//
// # What is prevented
//
// The container has a loopback interface and no other network, a read-only rootfs, no
// capabilities, no new privileges, the engine's seccomp filter and, for the workload,
// Croft's own seccomp filter, limits of memory (swap included), processes and CPUs, and
// temporary directories in memory. If Croft is root and the engine maps no users, the
// container's uid owns nothing on this host. The engine's socket is never inside. Hosts
// that the policy allows are reached through an egress proxy.
//
// # What is not prevented
//
// The kernel is shared, unless the runtime is gVisor. The memory limit includes the guest,
// which needs some 10 MB. If the engine is root and Croft is not, the workload is the same
// user as Croft: it can harm its own guest, and nothing else. With files on a volume the
// proxy runs in the process that has the workspace open, so that no host is reached without
// one, and a power loss of the engine's host is not detected.
package docker
