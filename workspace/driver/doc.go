// Package driver is the contract between Croft and the providers that implement
// workspaces. Programs that use workspaces call package workspace instead, which
// implements once, above this package, what must be the same for every provider.
//
// # The life of a workspace
//
// The registry owns identity. It makes an id, stores the request (a [Spec]) and
// only then calls [Provider.Open]. Open creates the workspace and derives the name
// of everything that it creates from the id. Open is idempotent on that id: repeated
// after a crash, Open completes or returns the existing workspace. The result of Open
// has a [Ref]. The registry stores the Ref before the caller gets the workspace. From
// then on [Provider.Resolve] attaches to the same workspace from the Ref alone, in
// this process or in another one. [Life.Close] releases what a process holds and
// leaves the workspace; [Life.Destroy] removes the workspace. [Provider.Sweep]
// removes whatever a crash leaves between these steps, because every trace of a
// workspace carries its id.
//
// # Names that mean one thing
//
//   - id: 20 characters of [a-z0-9], made by the registry ([NewID], [ValidID]).
//   - ref: always a resolvable reference; spec: always a request.
//   - name: a slash path relative to the workspace that satisfies [ValidName]:
//     "." is the workspace itself, and there is no "..", no leading slash and no
//     NUL. Package workspace has cleaned it; a driver need not.
//   - argv never passes through a shell; script always does.
//   - opts is never nil, and a driver may rely on that.
//   - digest: what [NewDigest] yields, "b3:" and 64 hex digits.
//
// # Modules
//
// A [Workspace] is a struct of modules; a module that is absent is nil. A module is
// also a struct: an embedded, small required interface plus optional function fields.
// Where an optional function is nil, package workspace does the same with the required
// interface. The capabilities of a workspace are the fields that are set. Therefore a
// provider can't claim a capability that it lacks, and a decorator that copies the
// struct keeps fields that the decorator does not know.
//
// # Errors
//
// Open and Resolve fail with fault.Failed, which is permanent, or with Failed
// under fault.Transient, where a retry may help; the provider decides, per
// return. Lost files are Failed with the cause fault.CauseGone. A record of the
// workspace that can't be read is Failed with the cause fault.CauseCorrupt, which the
// registry does not store: the record may be restored. A module returns
// fault.Evicted when the process or container behind it is gone and the call had
// no effect: the registry resolves once and repeats the call once. Any other
// error concerns that call only; the workspace stays usable. A path or command
// that would leave the sandbox is always fault.SandboxViolation.
//
// # Promises
//
// The conformance suite, package workspacetest, checks what this page says and
// attacks what [Traits] claim. All packages above rely on a provider that passes
// the suite.
package driver
