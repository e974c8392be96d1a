package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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

type collectOptions struct {
	name, to string
	spec     stage.OutputSpec
}

func (a *app) collectCommand() *cobra.Command {
	var opts collectOptions
	cmd := &cobra.Command{
		Use:   "collect NAME [GLOB...]",
		Short: "Take files out of a workspace by patterns, with limits",
		Long: `Take the files that the patterns match out of a workspace: into a directory, as artifacts
with versions, or into the answer. Without a pattern that is out/**. Patterns know * ? [a-z]
{a,b} and **, and may begin with $OUTPUT_DIR, $WORK_DIR, $SKILLS_DIR, $RUN_DIR or
$WORKSPACE_DIR. No symlink is followed out of the workspace.`,
		Example: "  croft collect demo '$OUTPUT_DIR/**' --to ./results\n  croft collect demo '**/*.png' --save --name-template 'plots/{{.Base}}' --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			opts.name, opts.spec.Globs = args[0], args[1:]
			return a.collect(ctx, opts)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&opts.to, "to", "", "write the files below this directory")
	f.BoolVar(&opts.spec.Save, "save", false, "save them as artifacts of the workspace, in the data directory")
	f.StringVar(&opts.spec.NameTemplate, "name-template", "", "name of an artifact: a prefix, or a template with .Name .Dir .Base .Stem .Ext .Index .ID")
	f.BoolVar(&opts.spec.Inline, "inline", false, "content in the answer, with --json")
	f.IntVar(&opts.spec.MaxFiles, "max-files", 0, "at most so many files (default 100)")
	f.Int64Var(&opts.spec.MaxFileBytes, "max-file-bytes", 0, "at most so many bytes of each (default 4 MiB)")
	f.Int64Var(&opts.spec.MaxTotalBytes, "max-total-bytes", 0, "at most so many bytes of all (default 64 MiB)")
	return cmd
}

func (a *app) collect(ctx context.Context, opts collectOptions) error {
	return a.withStage(ctx, opts.name, func(ctx context.Context, st *stage.Stage) error {
		man, failed := st.CollectOutputs(ctx, opts.spec)
		if failed != nil && len(man.Files) == 0 {
			return failed
		}
		if opts.to != "" {
			failed = errors.Join(failed, writeOut(ctx, st, man, opts.to))
		}
		if len(man.Files)+man.Skips+man.Left == 0 {
			a.note("no file matches")
		}
		for _, s := range man.Skipped {
			a.note("left out %s: %s", printable(s.Name), s.Reason)
		}
		if more := man.Skips - len(man.Skipped); more > 0 {
			a.note("left out %d more", more)
		}
		if man.LimitsHit {
			a.note("a limit was reached: %d files were left, and some may be cut", man.Left)
		}
		return errors.Join(failed, a.answer(man, func(w io.Writer) error {
			var rows [][]string
			for _, f := range man.Files {
				saved := printable(f.Error)
				if f.SavedAs != "" && f.Error == "" {
					saved = fmt.Sprintf("artifact://%s@%d", printable(f.SavedAs), f.Version)
				}
				rows = append(rows, []string{printable(f.Name), fmt.Sprint(f.SizeBytes), f.MIMEType, saved})
			}
			return table(w, rows)
		}))
	})
}

// writeOut writes what was collected below a directory of the host, whole, and
// never outside of it. A file that can't be written says why, and does not keep
// the others from it.
func writeOut(ctx context.Context, st *stage.Stage, man stage.Manifest, to string) error {
	if err := os.MkdirAll(to, 0o777); err != nil { //nolint:gosec // as the umask says
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // files are closed by themselves
	var first error
	bad := 0
	for i := range man.Files {
		f := &man.Files[i]
		err := writeOne(ctx, st, root, f.Name)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.Error = err.Error()
		if bad++; first == nil {
			first = err
		}
	}
	if first != nil {
		return fmt.Errorf("write to %s: %d of %d files failed: %w", to, bad, len(man.Files), first)
	}
	return nil
}

// writeOne writes one file beside its name and gives it that name when it is
// whole.
func writeOne(ctx context.Context, st *stage.Stage, root *os.Root, name string) error {
	body, info, err := st.Workspace().Read(ctx, name, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	dir := filepath.Dir(name)
	if err := root.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	const readable = 0o400 // by whoever runs this
	temp := filepath.Join(dir, ".croft-collect-"+rand.Text())
	out, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode.Perm()|readable)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, body)
	if err = errors.Join(err, out.Close()); err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	return nil
}
