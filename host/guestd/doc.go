// Package guestd is croft-guest, the program that runs the processes of one
// workspace inside its boundary. Package host/guest starts it and speaks to it.
//
// It puts up what is left of the fence from the inside (a rootfs of its own, the
// loopback interface), then serves until it is asked to end, its lease runs out, or,
// if the workspace is a throw-away one, its stream breaks. It is the same program at
// every level of isolation and in every engine; only its guestproto.Config differs.
package guestd
