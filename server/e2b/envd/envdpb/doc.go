// Package envdpb has the protocol of E2B's envd: its messages and Connect stubs are in the
// packages below it, generated from process.proto and filesystem.proto.
package envdpb

//go:generate protoc --proto_path=. --go_out=. --go_opt=paths=source_relative --connect-go_out=. --connect-go_opt=paths=source_relative,simple process/process.proto filesystem/filesystem.proto
