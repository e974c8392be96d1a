package command

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/bootstrap"
	"github.com/croft-run/croft/provider/remote"
	"github.com/croft-run/croft/stage"
	"github.com/croft-run/croft/workspace"
)

type prepOptions struct {
	file, workspace string
	dryRun          bool
}

func (a *app) prepCommand() *cobra.Command {
	var opts prepOptions
	cmd := &cobra.Command{
		Use:   "prep FILE --workspace NAME",
		Short: "Bring a workspace to the state that a file describes",
		Long: `Bring a workspace to the state that FILE, in YAML, describes: a template, files, inputs,
skills and commands. What is there already is not done again; what was changed or removed
since is repaired. FILE may be - for standard input. Inputs of the host are those below the
hostRoots of the configuration, or any where it names none.`,
		Example: "  croft prep prep.yaml --workspace demo --dry-run\n  croft prep prep.yaml --workspace demo",
		Args:    cobra.ExactArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			opts.file = args[0]
			return a.prep(ctx, opts)
		}),
	}
	cmd.Flags().StringVarP(&opts.workspace, "workspace", "w", "", "name or id of the workspace")
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "print what would be done, and do nothing")
	_ = cmd.MarkFlagRequired("workspace") // there is such a flag
	return cmd
}

func (a *app) prep(ctx context.Context, opts prepOptions) error {
	text, dir, err := a.readSpec(opts.file)
	if err != nil {
		return err
	}
	settings, err := a.settings()
	if err != nil {
		return err
	}
	skills := &bootstrap.Skills{Roots: settings.Skills}
	spec, err := bootstrap.ParseSpec(text, dir, func(name string) (bootstrap.SkillInfo, error) { return skills.Find(ctx, name) })
	if err != nil {
		return err
	}
	return a.withStage(ctx, opts.workspace, func(ctx context.Context, st *stage.Stage) error {
		r := bootstrap.New(st, nil)
		do := r.Apply
		if opts.dryRun {
			do = r.Plan
		}
		report, err := do(ctx, spec)
		for _, w := range report.Warnings {
			a.note("warning: %s", w)
		}
		if err != nil {
			return err
		}
		return a.answer(report, func(w io.Writer) error {
			var rows [][]string
			for _, s := range report.Steps {
				rows = append(rows, []string{string(s.Action), s.Kind, printable(s.Key), s.Reason})
			}
			return table(w, rows)
		})
	})
}

// readSpec reads a file, and says what its paths are relative to.
func (a *app) readSpec(file string) (text []byte, dir string, err error) {
	const most = 2 << 20
	if file == "-" {
		if text, err = io.ReadAll(io.LimitReader(a.In, most)); err == nil {
			dir, err = os.Getwd()
		}
		return text, dir, err
	}
	if text, err = os.ReadFile(file); err != nil {
		return nil, "", err
	}
	dir, err = filepath.Abs(filepath.Dir(file))
	return text, dir, err
}

// withStage runs f with the stage of a workspace, whose memory and artifacts are
// where the workspace is, and with a context under which it has these.
func (a *app) withStage(ctx context.Context, name string, f func(ctx context.Context, st *stage.Stage) error) error {
	settings, err := a.settings()
	if err != nil {
		return err
	}
	return a.withShell(ctx, name, func(c *remote.Client, ws *workspace.Workspace) error {
		opts := &stage.Options{State: served{c}, HostRoots: settings.HostRoots}
		if len(opts.HostRoots) == 0 {
			opts.HostRoots = []string{"/"} // who runs this command may read what they may read
		}
		st, err := stage.New(ws, opts)
		if err != nil {
			return err
		}
		return f(stage.WithArtifacts(ctx, servedArtifacts{c, ws.ID()}), st)
	})
}
