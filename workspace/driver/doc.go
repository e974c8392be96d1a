// Package driver is the contract between Croft and those who implement
// workspaces. People who use workspaces hold package workspace instead, which
// does everything that must be the same everywhere, once, above this one.
//
// # The life of a workspace
//
// The registry owns identity. It makes an id, stores the wish (a [Spec]) and
// only then calls [Provider.Open], which makes the workspace and names all that
// it makes from the id. Open is idempotent on that id: repeated after a crash it
// completes or returns what is there. What Open returns has a [Ref]; the
// registry stores it before anyone is told, and from then on, in this process or
// in another one, [Provider.Resolve] attaches to the same workspace from the Ref
// alone. [Life.Close] lets go of what a process holds and leaves the workspace;
// [Life.Destroy] ends it. Whatever a crash leaves between these steps,
// [Provider.Sweep] removes, because every trace of a workspace carries its id.
//
// # Names that mean one thing
//
//   - id: 20 characters of [a-z0-9], made by the registry ([NewID], [ValidID]).
//   - ref: always a resolvable reference; spec: always a wish.
//   - name: a slash path relative to the workspace that satisfies [ValidName]:
//     "." is the workspace itself, and there is no "..", no leading slash and no
//     NUL. Package workspace has cleaned it; a driver need not.
//   - argv never passes through a shell; script always does.
//   - opts is never nil, and a driver may rely on that.
//   - digest: what [NewDigest] yields, "b3:" and 64 hex digits.
//
// # Modules
//
// A [Workspace] is a struct of modules, nil where absent. A module is a struct
// too: a small required interface, embedded, plus function fields that are nil
// where the provider has nothing better than what package workspace does with
// the required part. So a capability is what is set, a provider can't claim what
// it lacks, and a decorator that copies the struct can't lose what it does not
// know.
//
// # Errors
//
// Open and Resolve fail with fault.Failed, which is permanent, or with the same
// under fault.Transient, where repeating may help; the provider decides, per
// return. Files that are gone are Failed with the cause fault.CauseGone. A module
// answers fault.Evicted when the live thing behind it vanished and the call had
// no effect: the registry resolves once and repeats the call once. Any other
// error is the call's own and leaves the workspace good. A path or command that
// would leave the fence is fault.SandboxViolation, always.
//
// # Promises
//
// Package workspacetest checks what this page says, and attacks what [Traits]
// claim. A provider that passes it can be trusted by everything above.
package driver
