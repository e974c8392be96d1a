// Package envdpb has the messages and Connect stubs of E2B's envd, generated from
// process.proto and filesystem.proto.
package envdpb

//go:generate protoc --proto_path=. --go_out=. --go_opt=module=github.com/croft-run/croft/internal/server/e2b/envd/envdpb --connect-go_out=. --connect-go_opt=module=github.com/croft-run/croft/internal/server/e2b/envd/envdpb,simple,package_suffix= process/process.proto filesystem/filesystem.proto
