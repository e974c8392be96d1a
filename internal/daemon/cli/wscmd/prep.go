package wscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/prepare/bootstrap"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace"
)

type prepOptions struct {
	file, workspace string
	dryRun          bool
}

func prepCommand(a *command) *cobra.Command {
	var opts prepOptions
	cmd := &cobra.Command{
		Use:   "prep FILE --workspace NAME",
		Short: "Bring a workspace to the state that a file describes",
		Long: `Bring a workspace to the state that FILE, in YAML, describes: a template, files, inputs, skills
and commands. Steps that are done are skipped; changed or removed results are repaired. FILE may be -
for standard input. Inputs, templates and skills of the host must be below a hostRoots directory of the
configuration, if it names any; a template and a skill may also be beside FILE, and a skill in the skills
directories of the configuration.

The steps that were done are printed even if one fails.`,
		Example: "  croft prep prep.yaml --workspace demo --dry-run\n  croft prep prep.yaml --workspace demo",
		Args:    cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.file = args[0]
			return a.runPrep(ctx, opts)
		}),
	}
	cmd.Flags().StringVar(&opts.workspace, "workspace", "", "workspace by name or id")
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "print the steps without doing them")
	return cmd
}

func (a *command) runPrep(ctx context.Context, opts prepOptions) error {
	if opts.workspace == "" {
		return console.Usagef("--workspace is required: give the name of a workspace, such as: croft prep %s --workspace demo", opts.file)
	}
	text, dir, err := a.readSpec(opts.file)
	if err != nil {
		return err
	}
	settings, err := a.Settings()
	if err != nil {
		return err
	}
	skills := &bootstrap.Skills{Roots: settings.Skills}
	spec, err := bootstrap.ParseSpec(text, dir, func(name string) (bootstrap.SkillInfo, error) { return skills.Find(ctx, name) })
	if err != nil {
		return err
	}
	if err := checkHostRoots(spec, settings.HostRoots, slices.Concat(settings.Skills, []string{dir})); err != nil {
		return err
	}
	return a.withStage(ctx, opts.workspace, func(ctx context.Context, st *stage.Stage) error {
		r := bootstrap.New(st, nil)
		do := r.Apply
		if opts.dryRun {
			do = r.Plan
		}
		_, stop := a.StartProgress("preparing")
		report, err := do(ctx, spec)
		stop()
		for _, w := range report.Warnings {
			a.Note("warning: %s", w)
		}
		if err != nil && len(report.Steps) == 0 {
			return err
		}
		return errors.Join(err, a.PrintAnswer(report, func(w io.Writer) error {
			var rows [][]string
			for _, s := range report.Steps {
				rows = append(rows, []string{string(s.Action), s.Kind, console.Printable(s.Key), console.Printable(s.Reason)})
			}
			return console.WriteTable(w, rows)
		}))
	})
}

// checkHostRoots refuses directories of the host outside allowed and others. If
// allowed is empty, every directory is allowed.
func checkHostRoots(spec bootstrap.Spec, allowed, others []string) error {
	if len(allowed) == 0 {
		return nil
	}
	dirs := map[string]string{}
	if spec.Template != "" {
		dirs["template"] = spec.Template
	}
	for _, k := range spec.Skills {
		if k.Dir != "" {
			dirs["skill "+k.Name] = k.Dir
		}
	}
	for what, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue // it is missing; reading it reports that
		}
		if !slices.ContainsFunc(slices.Concat(allowed, others), func(root string) bool { return inDir(real, root) }) {
			return fault.Advise(fmt.Errorf("%s: %s: %w", what, dir, fault.PermissionDenied),
				"give a directory below %s, or beside the file", strings.Join(allowed, ", "))
		}
	}
	return nil
}

// inDir reports whether a path without symlinks is the directory or below it.
func inDir(name, dir string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return paths.Inside(dir, name)
}

// readSpec reads a file and returns the directory that its paths are relative to.
func (a *command) readSpec(file string) (text []byte, dir string, err error) {
	const most = 2 << 20
	if file == "-" {
		if text, err = io.ReadAll(io.LimitReader(a.In, most)); err == nil {
			dir, err = os.Getwd()
		}
		return text, dir, err
	}
	if text, err = os.ReadFile(file); err != nil {
		return nil, "", console.HostError("read", file, err)
	}
	dir, err = filepath.Abs(filepath.Dir(file))
	return text, dir, err
}

// withStage runs f with the stage of a workspace and a context with its artifacts.
// Staging metadata and artifacts are where the workspace is.
func (a *command) withStage(ctx context.Context, name string, f func(ctx context.Context, st *stage.Stage) error) error {
	settings, err := a.Settings()
	if err != nil {
		return err
	}
	return a.WithAttached(ctx, name, func(c console.Workspaces, ws *workspace.Workspace) error {
		all, err := c.API(ctx)
		if err != nil {
			return err
		}
		opts := &stage.Options{State: remoteStaging{all}, HostRoots: settings.HostRoots}
		if len(opts.HostRoots) == 0 {
			opts.HostRoots = []string{"/"} // all that the user of this command can read
		}
		st, err := stage.New(ws, opts)
		if err != nil {
			return err
		}
		return f(stage.WithArtifacts(ctx, remoteArtifacts{all, ws.ID()}), st)
	})
}
