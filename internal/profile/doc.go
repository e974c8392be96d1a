// Package profile detects the projects in a workspace and their commands: install, build,
// format, lint, typecheck, test, and a test restricted to some files.
//
// It reads manifests and configuration through an [io/fs.FS] and never runs anything. Each
// [Command] has the file that it was detected by as its proof. A manifest that can't be
// parsed yields a [Warning] with its name, and no command that depends on it.
//
//	p, err := profile.Detect(os.DirFS(dir), nil)
//	if project, ok := p.For("web/src/app.ts"); ok {
//		argv, ok := project.Lint.Expand([]string{"web/src/app.ts"})
//		// ok is false where lint has nothing to say about that file
//	}
//
// A workspace may have several projects: a Go server with a web page, or a monorepo.
// [Detect] returns all of them: those in the root first, then those found by a bounded walk
// and by the members that workspaces declare.
//
// All paths are slash paths relative to the root of the file system; only the arguments of
// an expanded command are relative to [Command.Dir].
//
// Long-lived programs use a [Cache], which detects again when a file of the evidence has
// changed.
package profile
