package workcmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/internal/suggest"
)

// works lists the works of a project, or all if key is "".
func works(ctx context.Context, c console.Workspaces, key string) ([]client.Workspace, error) {
	list, err := c.List(ctx, client.Filter{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(ws client.Workspace) bool {
		of := ws.Labels[work.ProjectLabel]
		return of == "" || key != "" && of != key
	}), nil
}

// A of is a work that a command is about.
type of struct {
	client.Workspace
	project string // directory, "" if it is not known any more
}

// findWork returns the work that the first argument names, or the only one of the project,
// and the other arguments.
func (a *command) findWork(ctx context.Context, c console.Workspaces, e *env, args []string) (*of, []string, error) {
	all, err := works(ctx, c, "")
	if err != nil {
		return nil, nil, err
	}
	found := func(ws client.Workspace) *of {
		return &of{ws, work.ProjectOf(e.data, ws.Labels[work.ProjectLabel])}
	}
	var names []string
	var own []client.Workspace
	for _, ws := range all {
		if len(args) > 0 && (ws.Name == args[0] || ws.ID == args[0]) {
			return found(ws), args[1:], nil
		}
		names = append(names, ws.Name)
		if ws.Labels[work.ProjectLabel] == e.project.Key() {
			own = append(own, ws)
		}
	}
	switch {
	case len(own) == 1:
		return found(own[0]), args, nil
	case len(args) > 0 && len(own) == 0:
		return nil, nil, noWork(args[0], names)
	case e.project.Dir == "":
		return nil, nil, console.Usagef("this directory is no project: name a work; croft work list --all lists them")
	case len(own) == 0:
		return nil, nil, noWorks(e)
	}
	names = nil
	for _, ws := range own {
		names = append(names, ws.Name)
	}
	hint := ""
	if len(args) > 0 {
		hint = suggest.Hint(args[0], names)
	}
	return nil, nil, console.Usagef("%s has several works: name one of %s%s", console.Printable(e.project.Dir), strings.Join(names, ", "),
		hint)
}

// noWorks is the error for a project without works.
func noWorks(e *env) error {
	return fault.Advise(fmt.Errorf("work: %w: the project %s has no work", fault.NotFound, console.Printable(e.project.Dir)),
		"croft work list --all lists those of other projects")
}

// withWork runs f with the work that the arguments name.
func (a *command) withWork(ctx context.Context, args []string, f func(c console.Workspaces, w *of, rest []string) error) error {
	e, err := a.env(false)
	if err != nil {
		return err
	}
	return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		w, rest, err := a.findWork(ctx, c, e, args)
		if err != nil {
			return err
		}
		return f(c, w, rest)
	})
}

// dir returns the directory of the work's project.
func (w *of) dir() (string, error) {
	if w.project == "" {
		return "", fault.Advise(fmt.Errorf("work %s: %w: its project is not known any more", w.Name, fault.NotFound),
			"name a directory with --into")
	}
	if info, err := os.Stat(w.project); err != nil || !info.IsDir() {
		return "", fault.Advise(fmt.Errorf("work %s: %w: its project %s was removed; the work is unchanged", w.Name, fault.NotFound, console.Printable(w.project)), "name a directory with --into")
	}
	return w.project, nil
}

// pathsIn returns paths, which are relative to the current directory, relative to dir.
func pathsIn(dir string, paths []string) ([]string, error) {
	var list []string
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err == nil {
			if real, rerr := filepath.EvalSymlinks(filepath.Dir(abs)); rerr == nil {
				abs = filepath.Join(real, filepath.Base(abs))
			}
		}
		rel, rerr := filepath.Rel(dir, abs)
		if err != nil || rerr != nil || !filepath.IsLocal(rel) {
			return nil, console.Usagef("%s is no work, and as a path it is not in %s", p, dir)
		}
		list = append(list, filepath.ToSlash(rel))
	}
	return list, nil
}

// noWork is the error for a name that no work has.
func noWork(name string, names []string) error {
	return console.Say(fmt.Errorf("work %q: %w%s", name, fault.NotFound, suggest.Hint(name, names)), "croft work list --all lists the works")
}
