// Package kubernetes provides workspaces of kind "kubernetes": each is a pod with a volume of
// its own, in a cluster that this process reaches by its API server alone.
//
// # Where things are
//
// A workspace is three objects of one namespace, all with the name croft-ID and with labels
// of the instance and of the workspace:
//
//	Secret                  the state (type state): policy, revision, options, the guest's token
//	PersistentVolumeClaim   the files; or none, and they are in an emptyDir of the pod
//	Pod                     the guest and the workload; there is none until the first call that
//	                        needs one, and after an eviction
//
// The Secret owns the other two, so that deleting it deletes them. Nothing of a workspace is
// on this host: any process with the same namespace and the same Config.Instance resolves it.
// Config.Instance keeps several installations in one namespace apart. Config.Cache has results
// of Probe, and the sockets of egress proxies.
//
// # The guest
//
// An init container copies croft-guest from Config.GuestImage to a volume, which the
// workspace's container mounts and runs; so the image of a workspace needs nothing of Croft.
// It has another user, so that the workload can neither read the program, whose processes it
// could trace then, nor list the directory of the guest's logs, which it makes, too.
// This process configures the guest over the container's standard input ("attach") and then
// speaks to it through a second process in the container, "croft-guest connect" ("exec"):
// everything goes through the API server, encrypted and authenticated by it. No port listens in a
// pod, so that its NetworkPolicy denies both directions, and Croft distributes no certificates.
// The price is the load of the API server; see docs/kubernetes.md. What goes over "exec" is in no
// log of the node.
//
// A guest lives on when this process ends, and ends by itself after Config.Lease without a
// connection; then the pod has ended, and the files stay in the claim. A pod that was deleted,
// evicted or lost with its node: the next call returns Evicted, and the one after it makes a
// new pod with the same claim. A restart of the API server ends connections, with the same
// effect, but the guest and its sessions are found again.
//
// # What is prevented
//
// A pod meets the restricted Pod Security Standard: no root, no capabilities, no privilege
// escalation, the runtime's seccomp profile; and it has a read-only rootfs, no token of a
// service account, limits of CPU and memory, and the guest's own seccomp filter around the
// workload. That filter refuses every socket but those of Unix: a workspace has no network
// at all, whether or not the cluster's network plugin enforces a NetworkPolicy. A policy that
// allows hosts has a weaker filter, and needs a cluster that denies the network of pods; see
// egress.go.
//
// # What is not prevented
//
// The nodes' kernels are shared, unless the RuntimeClass is of gVisor or of virtual machines.
// Guest and workload have the same user: a workload can disturb its own guest, and end
// "croft-guest connect", which costs a reconnection. Pods have no limit of processes or of disk
// space of their own; the cluster's administrator sets those (podPidsLimit, storage classes).
// Whoever may read Secrets or run "exec" in the namespace has the workspaces.
package kubernetes
