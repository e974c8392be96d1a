// Package guest is both ends of the protocol between a Croft process and the
// small program that it starts inside a workspace's boundary: the guest.
//
// The guest (cmd/croft-guest) puts up what is left of the fence from the inside
// (a root of its own, the loopback interface), then runs the processes of one
// workspace until it is told to end, its owner is gone for too long, or, if the
// workspace is a throw-away one, its stream breaks. It is the same program at
// every level of isolation and in every engine; only its [guestproto.Config] differs.
//
// The host starts one with [Launch] or attaches to a running one with [Dial],
// and gets a [Client], whose Shell and Files are modules of the driver's
// contract. The two speak ttrpc (package guestpb) over one connection: a socket at
// which the guest listens, a stream that it was started with, or its standard input
// and output where the engine that runs it is on another host. A short command is
// one call.
//
// # Trust
//
// The host believes no guest. What it answers is data about its own workspace:
// bounded in size, checked, and never a path, a descriptor number or a command
// that the host acts on. The guest believes its host, and nothing of its own
// children: they run as another user, or at least without any capability, from
// one OS thread that is confined for good; the guest's memory and descriptors
// are out of their reach, and its limits are not theirs.
package guest
