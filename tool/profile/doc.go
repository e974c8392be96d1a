// Package profile finds out what the projects in a workspace are and which
// commands they are worked on with: install, build, format, lint, typecheck,
// test, and a test narrowed to some files.
//
// It reads manifests and configuration through an [io/fs.FS] and never runs
// anything. Each [Command] names the file that proves it, so that whoever is
// offered a command can see why. A manifest that can't be understood yields a
// [Warning] that names it, and no command that would have depended on it.
//
//	p, err := profile.Detect(os.DirFS(dir), nil)
//	if project, ok := p.For("web/src/app.ts"); ok {
//		argv, ok := project.Lint.Expand([]string{"web/src/app.ts"})
//		// ok is false where lint has nothing to say about that file
//	}
//
// A workspace often holds several projects: a Go server with a web page, or a
// monorepo. [Detect] returns all of them, those in the root first, and then those
// found by a bounded walk and by following what workspaces declare as members.
//
// All paths, in and out, are slash paths relative to the root of the file
// system; only the arguments of an expanded command are relative to the
// directory it runs in, [Command.Dir].
//
// Long-lived programs keep a [Cache], which detects again when, and only when,
// something that was looked at has changed.
package profile
