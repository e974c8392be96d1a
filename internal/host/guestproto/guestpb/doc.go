// Package guestpb is the wire form of the guest protocol, generated from
// guest.proto. Packages guest, guestd and guestproto use it.
package guestpb

//go:generate protoc --proto_path=. --go_out=. --go_opt=paths=source_relative --go-ttrpc_out=. --go-ttrpc_opt=paths=source_relative guest.proto
