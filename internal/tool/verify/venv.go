package verify

import (
	"context"
	"path"
	"slices"

	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// withVenv returns a project whose commands use the programs of an existing .venv, if the
// package manager that would start them is not installed in the workspace.
func withVenv(ctx context.Context, ws *workspace.Workspace, p profile.Project) profile.Project {
	if p.Ecosystem != profile.Python {
		return p
	}
	missing := map[string]bool{} // by package manager
	for _, c := range []*profile.Command{&p.Format, &p.Lint, &p.Typecheck, &p.Test, &p.ScopedTest} {
		c.Argv, c.Whole = venvArgv(ctx, ws, c.Dir, c.Argv, missing), venvArgv(ctx, ws, c.Dir, c.Whole, missing)
	}
	return p
}

// venvArgv replaces "uv run --no-sync NAME" by ".venv/bin/NAME".
func venvArgv(ctx context.Context, ws *workspace.Workspace, dir string, argv []string, missing map[string]bool) []string {
	if len(argv) < 3 || argv[1] != "run" || !slices.Contains([]string{"uv", "poetry", "pipenv", "pdm"}, argv[0]) {
		return argv
	}
	rest := argv[2:]
	if rest[0] == "--no-sync" {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return argv
	}
	name := ".venv/bin/" + rest[0]
	// python is a symlink to a file outside the workspace.
	if _, err := ws.Stat(ctx, path.Join(dir, name), &driver.StatOptions{NoFollow: true}); err != nil {
		return argv
	}
	gone, asked := missing[argv[0]]
	if !asked {
		res, err := ws.Run(ctx, driver.Command{Script: "command -v " + argv[0]})
		gone = err == nil && res.ExitCode != 0
		missing[argv[0]] = gone
	}
	if !gone {
		return argv
	}
	return append([]string{name}, rest[1:]...)
}
