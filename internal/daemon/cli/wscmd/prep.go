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

	"github.com/croft-run/croft/client"
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
		return nil, "", hostError("read", file, err)
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

// remoteStaging is the staging metadata of workspaces on the server, so that all
// programs that prepare a workspace share it.
type remoteStaging struct{ c *client.Client }

var _ stage.State = remoteStaging{}

// Lock waits for the server's lock on the workspace's staging metadata.
func (s remoteStaging) Lock(ctx context.Context, id string) (func(), error) {
	return s.c.LockStaging(ctx, id)
}

// Load returns the metadata of a workspace.
func (s remoteStaging) Load(ctx context.Context, id string) (*stage.Metadata, error) {
	return s.c.Staging(ctx, id)
}

// Save replaces the metadata of a workspace.
func (s remoteStaging) Save(ctx context.Context, id string, m *stage.Metadata) error {
	return s.c.SaveStaging(ctx, id, m)
}

// Record adds a collection; the server bounds how many it keeps.
func (s remoteStaging) Record(ctx context.Context, id string, rec stage.OutputRecord, _ int) error {
	return s.c.RecordOutput(ctx, id, rec)
}

// Delete removes the metadata of a workspace.
func (s remoteStaging) Delete(ctx context.Context, id string) error {
	return s.c.SaveStaging(ctx, id, nil)
}

// remoteArtifacts are the artifacts of a workspace on the server.
type remoteArtifacts struct {
	c  *client.Client
	id string
}

var _ stage.ArtifactStore = remoteArtifacts{}

// Save saves a new version.
func (a remoteArtifacts) Save(ctx context.Context, name string, body io.Reader, mime string) (stage.Artifact, error) {
	return a.c.SaveArtifact(ctx, a.id, name, mime, body)
}

// Open opens a version, or the latest.
func (a remoteArtifacts) Open(ctx context.Context, name string, version int) (io.ReadCloser, stage.Artifact, error) {
	return a.c.OpenArtifact(ctx, a.id, name, version)
}

// Versions lists the versions of a name.
func (a remoteArtifacts) Versions(ctx context.Context, name string) ([]int, error) {
	list, err := a.c.ArtifactVersions(ctx, a.id, name)
	var versions []int
	for _, art := range list {
		versions = append(versions, art.Version)
	}
	return versions, err
}

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
