// Package guest is the host's end of the protocol with croft-guest, the program that runs
// the processes of one workspace inside its boundary (package internal/host/guestd).
//
// A host starts a guest with [Launch] or connects to a running one with [Dial], and gets
// a [Client], whose Shell and Files are modules of the driver's contract. Both ends speak
// ttrpc (package internal/host/guestproto) over one connection: a Unix socket at which the guest
// listens, a stream that the guest was started with, or its standard input and output
// where the engine is on another host. A short command is one call. Package supervise
// keeps the one guest of a workspace directory across Croft processes.
//
// # Trust
//
// The host trusts no guest. An answer is data about the guest's own workspace: bounded in
// size, checked, and never a path, a descriptor number or a command that the host acts on.
// The guest trusts its host, and none of its children: they run as another user, or at
// least without any capability, from one OS thread that is confined for good. They can't
// reach the guest's memory and descriptors, and its limits are not theirs.
//
// # How to debug a guest
//
// In a directory $WS = DATA/ws/ID of provider sandbox, as root:
//
//	jq .sections.guest $WS/state-sandbox.json   # its process id, token and cgroups
//	cat $WS/log/sessions.jsonl                  # commands, with exit codes and causes
//	cat $WS/log/SESSION.stdout                  # output of one, also after a crash
//	cat /proc/PID/mountinfo                     # the rootfs, mount by mount
//	nsenter -t PID -m -p -r -w ls -l /          # a command in its namespaces, unconfined
//	strace -f -p PID                            # system calls of the guest itself
//
// A guest has no log of its own: errors of its start are returned by Launch.Start, later
// ones by the call. Its configuration goes over a pipe; a guest in a container of Docker
// has it as a file "config". In the root of the repository, after "make guests":
//
//	pb="-I internal/host/guestproto/guestpb guest.proto"
//	protoc --decode=croft.guest.v1.Config $pb <config
//	echo 'protocol: 8 version: "x" workspace: "w" level: "none" root: "/tmp" uid: -1
//	    lease_nano: 60000000000 paths { key: "listen" value: "/tmp/guest.sock" }' |
//	    protoc --encode=croft.guest.v1.Config $pb >config
//	bin/croft-guest-amd64 3<config 4>report     # descriptor 3 is the configuration
//
// The report is "ok" or the error. This guest ignores signals but SIGKILL, and ends by its
// lease after a minute without a client. Dial connects to /tmp/guest.sock.
package guest
