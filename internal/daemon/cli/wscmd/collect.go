package wscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace"
)

type collectOptions struct {
	name, to string
	spec     stage.OutputSpec
}

func collectCommand(a *command) *cobra.Command {
	var opts collectOptions
	cmd := &cobra.Command{
		Use:   "collect NAME [GLOB...]",
		Short: "Copy files that match patterns out of a workspace, within limits",
		Long: `Copy the files that match the patterns (default out/**) out of a workspace: to a directory, as
artifacts with versions, or into the answer. A pattern may contain * ? [a-z] {a,b} and **, and
may begin with $OUTPUT_DIR, $WORK_DIR, $SKILLS_DIR, $RUN_DIR or $WORKSPACE_DIR. No symlink is
followed out of the workspace. A file that can't be read is reported; the others are copied.

In a directory, files of any size are written unless --max-file-bytes or --max-total-bytes is
given; a larger file is reported and not written.`,
		Example: "  croft collect demo '$OUTPUT_DIR/**' --output-dir ./results\n  croft collect demo '**/*.png' --save --name-template 'plots/{{.Base}}' --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.name, opts.spec.Globs = args[0], args[1:]
			return a.runCollect(ctx, opts)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&opts.to, "output-dir", "", "directory of the host below which the files are written")
	f.BoolVar(&opts.spec.Save, "save", false, "save the files as artifacts of the workspace, in the data directory")
	f.StringVar(&opts.spec.NameTemplate, "name-template", "", "name of an artifact: a prefix, or a template with .Name .Dir .Base .Stem .Ext .Index .ID")
	f.BoolVar(&opts.spec.Inline, "inline", false, "put the content into the answer; needs --json")
	f.IntVar(&opts.spec.MaxFiles, "max-files", 0, "maximum number of files (default 100)")
	f.Int64Var(&opts.spec.MaxFileBytes, "max-file-bytes", 0, "maximum bytes of each file (default 4 MiB with --inline or --save)")
	f.Int64Var(&opts.spec.MaxTotalBytes, "max-total-bytes", 0, "maximum bytes of all files (default 64 MiB with --inline or --save)")
	return cmd
}

func (a *command) runCollect(ctx context.Context, opts collectOptions) error {
	switch {
	case opts.spec.NameTemplate != "" && !opts.spec.Save:
		return console.Usagef("--name-template names artifacts: it needs --save")
	case opts.spec.Inline && !a.JSON:
		return console.Usagef("--inline puts content into the answer: it needs --json")
	}
	return a.withStage(ctx, opts.name, func(ctx context.Context, st *stage.Stage) error {
		sink, done, err := newDirSink(opts.to)
		if err != nil {
			return err
		}
		defer done()
		_, stop := a.StartProgress("collecting")
		man, failed := st.CollectTo(ctx, opts.spec, sink)
		stop()
		if failed != nil && len(man.Files) == 0 {
			return failed
		}
		if len(man.Files)+man.Skips+man.Left == 0 {
			a.Note("no file matches")
		}
		for _, s := range man.Skipped {
			a.Note("left out %s: %s", console.Printable(s.Name), console.Printable(s.Reason))
		}
		if more := man.Skips - len(man.Skipped); more > 0 {
			a.Note("left out %d more", more)
		}
		if man.LimitsHit {
			a.Note("a limit was reached: %s", man.LeftOut())
		}
		if failed == nil && len(man.Files) == 0 && man.Skips > 0 {
			failed = fmt.Errorf("nothing was collected: %w", man.Skipped[0].Code)
		}
		return errors.Join(failed, a.PrintAnswer(man, func(w io.Writer) error { return console.WriteTable(w, collectRows(man)) }))
	})
}

// collectRows are the rows of a manifest.
func collectRows(man stage.Manifest) [][]string {
	var rows [][]string
	for _, f := range man.Files {
		told := console.Printable(f.Error)
		switch {
		case f.Error != "":
		case f.SavedAs != "":
			told = fmt.Sprintf("artifact://%s@%d", console.Printable(f.SavedAs), f.Version)
		case f.Truncated:
			told = "beyond the limits"
		}
		rows = append(rows, []string{console.Printable(f.Name), fmt.Sprint(f.SizeBytes), f.MIMEType, told})
	}
	return rows
}

// newDirSink returns a sink that writes files atomically below a directory of the
// host, through an os.Root, so that no file name or symlink leads outside. It is nil
// for "".
func newDirSink(to string) (sink stage.Sink, done func(), err error) {
	if to == "" {
		return nil, func() {}, nil
	}
	if err := os.MkdirAll(to, 0o777); err != nil { // less the umask
		return nil, nil, err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return nil, nil, err
	}
	sink = func(ref stage.FileRef, info workspace.Info, body io.Reader) error {
		if err := root.MkdirAll(filepath.Dir(ref.Name), 0o777); err != nil {
			return err
		}
		const readable = 0o400 // for the user of this command
		_, err := replaceBelow(root, ref.Name, body, info.Mode.Perm()|readable, false)
		return err
	}
	return sink, func() { _ = root.Close() }, nil // replaceBelow closes the files
}
