// Package guestd is croft-guest, the program that runs the processes of one
// workspace inside its sandbox. Package internal/host/guest starts it and speaks to it.
//
// It sets up the parts of the sandbox that must be set up from inside (the rootfs, the
// loopback interface). Then it serves until it is asked to end, its lease runs out or,
// in a throw-away workspace, its stream breaks. It is the same program at every level of
// isolation and in every engine; only its guestproto.Config differs.
package guestd
