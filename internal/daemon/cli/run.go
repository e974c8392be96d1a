package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
)

// runIdle is the idle time after which a server removes such a workspace.
const runIdle = 10 * time.Minute

type runOptions struct {
	provider string
	options  string
	host     console.HostDirFlags
	git      string
	policy   console.PolicyFlags
	command  console.CommandFlags
}

func (a *command) runCommand() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] [--] PROGRAM [ARGUMENT]...",
		Short: "Run a command in a temporary workspace",
		Long: `Run a command in a temporary workspace, which is destroyed when the command ends, also on Ctrl-C,
SIGTERM and SIGHUP, which a closed terminal sends. Output is shown at once; on a terminal the command has a terminal. Only directories of
--rw are writable, and only hosts of --allow-net can be reached; refused hosts are listed at the
end.

The exit status is that of the command; 125 is an error of croft itself.`,
		Example: `  croft run -- make test
  croft run --rw . --memory 512M --timeout 1m -- go test ./...
  croft run --rw . --toolchain auto -- npm test
  croft run --allow-net api.example.com --secret KEY@api.example.com -- curl https://api.example.com/`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) == 0 {
				return console.Usagef("croft run needs a program, such as: croft run -- ls -l")
			}
			return console.RunE(func(ctx context.Context, _ []string) error {
				return a.WithCroftStatus(a.runInNewWorkspace(ctx, opts, words))
			})(cmd, words)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&opts.provider, "provider", "", "kind of workspace, or name of a provider in the configuration; see croft provider list (default defaults.provider if it is a sandbox, else sandbox)")
	f.StringVar(&opts.options, "options", "", "options of that provider, a JSON object, such as {\"image\":\"tools:1\"} for docker")
	opts.host.RegisterFlags(f, "; without --template the command runs in the first one", "; without --template the command runs in it if it is the only one")
	console.RegisterGit(f, &opts.git)
	opts.policy.RegisterFlags(f)
	opts.command.RegisterFlags(f)
	console.RegisterHabit(f, "rm", "", "the workspace is always removed")
	return cmd
}

func (a *command) runInNewWorkspace(ctx context.Context, opts runOptions, words []string) error {
	spec, own, err := a.runSpec(opts)
	if err != nil {
		return err
	}
	if spec.Kind == sandbox.Kind {
		a.AddGitIdentity(ctx, cmp.Or(spec.Dir, console.TemplateDir(&spec)), &spec)
	}
	var all console.Workspaces
	var id string
	err = a.withTemporary(ctx, spec, opts.policy.Name, own, func(c console.Workspaces, ws *workspace.Workspace) error {
		all, id = c, ws.ID()
		res, err := a.RunForeground(ctx, c, ws, opts.command.DriverCommand(words), opts.command.TTY || a.OnTerminal())
		if errors.As(err, new(*console.Outcome)) && res.Cause == "" && spec.Dir == "" && spec.From.Template == "" && a.Server == "" {
			a.noteHostFile(words[1:])
			if hint := installerHints[words[0]]; hint != "" && spec.Kind == sandbox.Kind {
				a.Note("croft: %s", hint)
			}
		}
		if spec.Kind == sandbox.Kind && a.Server == "" && len(opts.host.Toolchains) == 0 {
			a.noteToolchains(words[0], err, res.Duration)
		}
		return err
	})
	if id != "" {
		a.NoteEventRefusals(ctx, all, id) // after the workspace's end all are recorded
	}
	return err
}

// withTemporary runs f with a new workspace, which it removes.
func (a *command) withTemporary(ctx context.Context, spec workspace.Spec, policy string, own sandbox.Options, f func(console.Workspaces, *workspace.Workspace) error) error {
	return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		if a.Server == "" {
			a.SweepRuns(ctx)
			a.sweepOrphans(ctx)
		}
		_, stop := a.StartProgress("opening the workspace")
		rec, err := c.CreateWith(ctx, spec, policy)
		stop()
		if err != nil {
			return err
		}
		console.WarnUnenforced(a.Console, rec)
		console.NoteCaches(a.Console, rec, own)
		defer func() {
			if err := console.DestroyWorkspace(ctx, c, rec.ID); err != nil {
				a.Note("croft: remove the workspace %s: %v", rec.ID, err)
			}
		}()
		ws, err := c.Open(ctx, rec.ID)
		if err != nil {
			return err
		}
		return f(c, ws)
	})
}

// noteHostFile says that the first of the arguments that names a file of the current
// directory names none inside, which is the usual reason why a first command fails.
func (a *command) noteHostFile(arguments []string) {
	for _, word := range arguments {
		if info, err := os.Lstat(word); err == nil && info.Mode().IsRegular() && filepath.IsLocal(word) {
			a.Note("croft: the workspace began empty, without %s of this directory: --template . starts it with a copy of this directory, --rw . works in this directory", console.Printable(word))
			return
		}
	}
}

const pipPackages = "the Python of this host takes no packages from inside; in a virtual environment it does: " +
	"croft run --allow-net @pypi -- sh -c 'python3 -m venv v && v/bin/pip install NAME'"

// installerHints say what to do instead of installing packages into the system.
var installerHints = map[string]string{
	"apt": console.HostPackages, "apt-get": console.HostPackages, "dpkg": console.HostPackages,
	"dnf": console.HostPackages, "yum": console.HostPackages, "apk": console.HostPackages, "pacman": console.HostPackages,
	"pip": pipPackages, "pip3": pipPackages,
}

// cachedPrograms are programs that build or install with a cache, and the profile of the cache.
var cachedPrograms = map[string]string{
	"go": "go", "npm": "npm", "npx": "npm", "pip": "pip", "pip3": "pip", "uv": "uv", "cargo": "rust", "gradle": "gradle", "make": toolchain.Auto,
}

// noteToolchains names the flag with which a command would have had the toolchains of the
// user, if a shell did not find a program, and the caches, if the command took long.
func (a *command) noteToolchains(program string, err error, took time.Duration) {
	const long, notFound = 10 * time.Second, 127 // the status of a shell
	var ended *console.Outcome
	missing := errors.As(err, &ended) && ended.Status == notFound && ended.Err == nil
	profile := cachedPrograms[program]
	if !missing && (took < long || profile == "") {
		return
	}
	var names []string
	found, _ := toolchain.Find(toolchain.Options{}, toolchain.Auto) // what can't be found is not named
	for _, t := range found {
		if missing && len(t.Path) > 0 || !missing && len(t.Caches) > 0 && (profile == toolchain.Auto || profile == t.Name) {
			names = append(names, t.Name)
		}
	}
	list := strings.Join(names, ", ")
	switch {
	case len(names) == 0:
	case missing:
		a.Note("croft: a program was not found; toolchains of your home directory are not shown without a flag: --toolchain auto shows %s", list)
	default:
		a.Note("croft: the caches of your home directory were not used: --toolchain auto shows %s, copy-on-write", list)
	}
}

func (a *command) runSpec(opts runOptions) (workspace.Spec, sandbox.Options, error) {
	spec := workspace.Spec{Labels: console.RunLabels(a.Console)}
	spec.Policy.Idle = runIdle
	kind, err := a.runProvider(opts.provider, &spec)
	if err != nil {
		return spec, sandbox.Options{}, err
	}
	if err := opts.policy.Apply(&spec, a.Server != ""); err != nil {
		return spec, sandbox.Options{}, err
	}
	// The workspace ends with the command, so that nothing is compared with its start.
	spec.From.Live = filepath.IsAbs(spec.From.Template)
	own, err := a.setRunDirs(opts, kind, &spec)
	return spec, own, err
}

// setRunDirs sets the directories of a run: without a template the first writable one, or a
// read-only one that is alone, is the workspace, in place. The others are mounted beside it.
func (a *command) setRunDirs(opts runOptions, kind string, spec *workspace.Spec) (sandbox.Options, error) {
	own := sandbox.Options{Throwaway: true, Git: opts.git}
	dirs, sockets, err := a.BoundDirs(opts.host)
	if err != nil {
		return own, err
	}
	if len(dirs) > 0 && (!dirs[0].ReadOnly || len(dirs) == 1) && spec.From.Template == "" {
		spec.Dir, spec.Policy.ReadOnly = dirs[0].Dir, dirs[0].ReadOnly
		dirs = dirs[1:]
	}
	if kind != sandbox.Kind {
		if len(dirs) > 0 {
			return own, fault.Advise(fmt.Errorf("run: %w: a workspace of kind %s has one directory", fault.Unsupported, kind),
				"give --rw or --ro once")
		}
		if opts.host.WantsToolchains() {
			return own, console.Usagef("--toolchain is for the provider %s", sandbox.Kind)
		}
		if opts.git != "" || len(sockets) > 0 {
			return own, console.Usagef("--git and --sockets are for the provider %s", sandbox.Kind)
		}
		return own, console.SetProviderOptions(opts.options, nil, spec)
	}
	own.Binds, own.Sockets = dirs, sockets
	if err := a.AddToolchains(opts.host.Toolchains, cmp.Or(spec.Dir, console.TemplateDir(spec)), spec, &own); err != nil {
		return own, err
	}
	return own, console.SetProviderOptions(opts.options, own, spec)
}

// runProvider sets the provider of a run and returns its kind. Without the flag it is
// a sandbox, whatever the configured default is, so that commands are isolated.
func (a *command) runProvider(name string, spec *workspace.Spec) (kind string, err error) {
	spec.Kind = name
	if a.Server != "" {
		if name == "" {
			spec.Kind = sandbox.Kind
		}
		return spec.Kind, nil
	}
	settings, err := a.Settings()
	if err != nil {
		return "", err
	}
	if kind, _, err = settings.Provider(name); err != nil {
		return "", err
	}
	if name == "" {
		spec.Kind = settings.Defaults.Provider
		if kind != sandbox.Kind {
			spec.Kind, kind = sandbox.Kind, sandbox.Kind
		}
	}
	return kind, nil
}

// sweepOrphans sweeps if there is a workspace directory without a record, which a run
// leaves that is killed while it opens or destroys its workspace.
func (a *command) sweepOrphans(ctx context.Context) {
	const endsItself = 5 * time.Second // another process may be creating or removing it
	entries, err := os.ReadDir(filepath.Join(a.System.Dir, "ws"))
	if err != nil {
		return // there are no workspaces yet
	}
	records, err := a.System.Registry.List(ctx, registry.Filter{})
	if err != nil {
		return // the next call fails with the same error
	}
	for _, e := range entries {
		known := slices.ContainsFunc(records, func(r registry.Record) bool { return r.ID == e.Name() })
		info, err := e.Info()
		if known || err != nil || !e.IsDir() || e.Name() == ".journals" || time.Since(info.ModTime()) < endsItself {
			continue
		}
		if err := a.System.Registry.Sweep(ctx); err != nil {
			a.Note("croft: remove leftovers of earlier runs: %v", err)
		}
		return
	}
}
