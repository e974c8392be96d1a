// Package croft is the root of the module; it holds no code but the tests that
// keep the house in order. ARCHITECTURE.md is the map.
//
// These packages are for programs that import Croft; everything else is below
// internal, or in a nested module, and may change at any time:
//
//   - workspace is the API, and registry the identity of workspaces.
//   - fault has the codes of errors, event the stream of what happened, auth keys
//     and tenants, secret sources of secrets and the scrubber.
//   - workspace/driver is the contract of a provider, workspace/workspacetest its
//     conformance suite. The providers are provider/memory, provider/local,
//     provider/sandbox, provider/docker, provider/ssh, provider/e2b and
//     provider/filestore; provider/all has them all.
//   - client speaks to a server, and daemon is one, with the command line.
//   - tool has tools for agents; tool/git, tool/web, tool/skill and tool/all
//     are sets of them.
//   - snapshot, snapshot/bucket and snapshot/template keep trees of files.
//   - prepare/stage and prepare/bootstrap put things into a workspace and take them out.
//   - interp/isolate, interp/jupyter and interp/codeblock run code.
//   - eval, eval/suite, eval/session and eval/evaltest evaluate agents.
//
// Before version 1 a minor version may change their API, and the changelog says how to
// follow. From version 1 on the rules of semantic versions hold for them.
package croft
