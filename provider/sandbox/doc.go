// Package sandbox provides workspaces of kind "sandbox", whose processes are isolated
// by Linux namespaces, gVisor, bubblewrap or Landlock, with seccomp and cgroups.
//
// # Where things are
//
// The files of a workspace are in a directory of this host: see package wsdir. The
// directory of a workspace, <root>/<id>, contains:
//
//	state-sandbox.json      the state, see package wsdir; its sections are guest (package
//	                        supervise), autorun, git, imports and seal
//	state.lock              flock of the state and of commits, see package wsdir
//	in-use, in-use.suspect  presence marker, see package wsdir
//	guest.lock              flock while the guest is found, started or ended, see package supervise
//	freeze                  flock, shared, while a process keeps the cgroup frozen
//	files                   the files, unless they are in place or in disk.img
//	layer                   with a template: the directories upper and work of overlayfs
//	caches                  upper layers of caches of the host, see the option "caches"
//	disk.img                with a disk limit: a file system that contains the files
//	git                     private copies of Git directories, see package gitdir
//	imports                 upper layers of directories that were imported by mount
//	rollback-stage          new files of a rollback, with its journal
//	rollback                journal of a rollback through a mount, see snapshot.BeginRollback
//	sock                    socket of the guest; with gVisor a symlink into ctl
//	ctl                     with gVisor: directory of the socket of the guest
//	log                     logs and exit statuses of sessions
//	tmp                     temporary files, at isolation process, which has no mounts
//	egress                  directory of the socket of the egress proxy
//	authority.pem           keys of the workspace's certificate authorities, see package proxies
//	roots                   certificates that programs inside trust
//
// # The files
//
// Package files, in this process, reads and writes all files, below one root
// directory. The guest is not involved, so files can be written before there is a
// guest, and while the workspace is paused. The root is the directory of the files,
// unless mounts make the processes see something else: a template or a sealed layer
// below (overlayfs), a disk image, imported directories, or a directory in place whose
// autorun files are read-only mounts and whose repositories are private copies. Then the root is the workspace as the guest's
// mounts show it. The guest sends a descriptor of that root when it starts, before it
// starts any process of the workload. Another process opens the root through /proc, and
// compares the id of the mount with the one in the state. Through the mount, files are
// created as the user of the workload, and mount points are neither replaced nor renamed
// nor removed: see files.Options.KeepMounts. The guest's mount namespace stays open
// meanwhile, so that autorun files stay protected when the guest dies.
//
// Snapshots read the directory of the files, or the upper layer, on the host.
//
// Workspaces that start from a snapshot share lower layers, in Config.Layers: a layer with
// all its files or, if an earlier snapshot of the same directory has one, that layer and one
// with the differences over it.
//
// # The guest
//
// The first call of the Shell starts one croft-guest (see package guest) inside the
// sandbox, once per workspace. The guest runs every command. It outlives this process:
// the next process that opens the workspace adopts the guest with its sessions, their
// logs and exit statuses. The guest ends by itself when no process has held its lease
// for Config.Lease. After the death of a guest the next call returns Evicted, and
// nothing was sent; a command that died with the guest has a result with the cause lost.
// The guest of a workspace opened with {"throwaway": true} ends with the process that
// started it.
//
// A change of policy that a running guest can't apply, such as a change of the
// environment, ends the guest and what runs in it.
//
// # What is prevented
//
// The guest enters a rootfs of its own by pivot_root. The rootfs has the host's
// programs, read-only, and the workspace at /workspace, or at its own path where it is
// in place. Processes see only processes of their workspace, a loopback interface and
// harmless devices. They have no capability, no set-user-id and no system call beyond a
// seccomp allow-list. They connect to no Unix socket of the host: the guest connects for
// them, see package guestd. Home directories, /var, /run, /sys and other workspaces are not in
// the rootfs.
//
// # Proofs
//
// A level of isolation is used after a test: a guest is started at the level, and a script
// in it tries what the level prevents. A process records a level that passed in Config.Cache,
// with a digest of all that the result depends on: the boot of the host, the programs (croft,
// croft-guest, bwrap, runsc), and the user, groups, capabilities, namespaces, security label and
// sysctls of the process. A later process with the same digest does not test the level again.
// A level that failed is not recorded, a damaged file counts as empty, and a guest that can't be
// started removes the file. croft doctor always tests.
//
// A stale proof does not weaken isolation. A proof only lets a level be tried; it
// configures nothing. Each guest is started by the same steps as in the test, every step is
// required, and one that fails ends the start: where the host has come to refuse a
// namespace, a mount or seccomp, no command runs. A level is
// chosen from those that the policy accepts, whatever was recorded. The file is not visible in any
// workspace, and is read only where it belongs to this user and no other user may write to it; what runs
// as this user outside a workspace can replace croft itself.
//
// # What is not prevented
//
// The kernel is shared, except with gVisor: an exploit of the kernel escapes. Timing is
// shared: a workspace can measure how busy the machine is. What is in the host's /usr
// and in the shown part of /etc can be read.
package sandbox
