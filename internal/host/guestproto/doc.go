// Package guestproto is what a Croft process on the host (package internal/host/guest) and
// the program croft-guest inside a workspace's boundary (package internal/host/guestd) agree
// on: the [Config] that a guest is started with, names of descriptors, files and
// verbs, and the conversion between types of the driver's contract and protobuf
// messages (package guestpb).
//
// Both ends come from one build: [Protocol] and Config.Version make one refuse the
// other otherwise. There are no compatibility readers.
package guestproto
