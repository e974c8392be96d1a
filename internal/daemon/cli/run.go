package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
)

// runLabel marks the temporary workspaces of croft run, code and script. The next run
// removes those of a crashed process.
const runLabel = "croft-run"

// runByLabel identifies the process of a run, so that the next run sees whether it
// was killed.
const runByLabel = "croft-run-by"

// runIdle is the idle time after which a server removes such a workspace.
const runIdle = 10 * time.Minute

// runLabels are the labels of a temporary workspace.
func (a *command) runLabels() map[string]string {
	labels := map[string]string{runLabel: "true"}
	if me := processIdentity("self"); me != "" && a.server == "" {
		labels[runByLabel] = me
	}
	return labels
}

type runOptions struct {
	provider string
	options  string
	host     hostDirFlags
	git      string
	policy   policyFlags
	command  commandFlags
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
				return usagef("croft run needs a program, such as: croft run -- ls -l")
			}
			return run(func(ctx context.Context, _ []string) error {
				return a.withCroftStatus(a.runInNewWorkspace(ctx, opts, words))
			})(cmd, words)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&opts.provider, "provider", "", "kind of workspace, or name of a provider in the configuration; see croft provider list (default defaults.provider if it is a sandbox, else sandbox)")
	f.StringVar(&opts.options, "options", "", "options of that provider, a JSON object, such as {\"image\":\"tools:1\"} for docker")
	opts.host.registerFlags(f, "; without --template the command runs in the first one", "; without --template the command runs in it if it is the only one")
	registerGit(f, &opts.git)
	opts.policy.registerFlags(f)
	opts.command.registerFlags(f)
	registerHabit(f, "rm", "", "the workspace is always removed")
	return cmd
}

// registerGit adds the flag that says what repositories of a directory in place are inside.
func registerGit(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "git", "", "what each .git of a directory in place is inside: private (a copy, so that commits and hooks stay inside) or shared (the host's, without its hooks and configuration) (default private)")
}

func (a *command) runInNewWorkspace(ctx context.Context, opts runOptions, words []string) error {
	spec, own, err := a.runSpec(opts)
	if err != nil {
		return err
	}
	if spec.Kind == sandbox.Kind {
		a.addGitIdentity(ctx, cmp.Or(spec.Dir, templateDir(&spec)), &spec)
	}
	var all workspaces
	var id string
	err = a.withTemporary(ctx, spec, opts.policy.name, own, func(c workspaces, ws *workspace.Workspace) error {
		all, id = c, ws.ID()
		res, err := a.runForeground(ctx, c, ws, opts.command.driverCommand(words), opts.command.tty || a.onTerminal())
		if errors.As(err, new(*outcome)) && res.Cause == "" && spec.Dir == "" && spec.From.Template == "" && a.server == "" {
			a.noteHostFile(words[1:])
			if hint := installerHints[words[0]]; hint != "" && spec.Kind == sandbox.Kind {
				a.note("croft: %s", hint)
			}
		}
		if spec.Kind == sandbox.Kind && a.server == "" && len(opts.host.toolchains) == 0 {
			a.noteToolchains(words[0], err, res.Duration)
		}
		return err
	})
	if id != "" {
		a.noteEventRefusals(ctx, all, id) // after the workspace's end all are recorded
	}
	return err
}

// withTemporary runs f with a new workspace, which it removes.
func (a *command) withTemporary(ctx context.Context, spec workspace.Spec, policy string, own sandbox.Options, f func(workspaces, *workspace.Workspace) error) error {
	return a.withWorkspaces(ctx, func(c workspaces) error {
		if a.server == "" {
			a.sweepRuns(ctx)
			a.sweepOrphans(ctx)
		}
		_, stop := a.startProgress("opening the workspace")
		rec, err := c.CreateWith(ctx, spec, policy)
		stop()
		if err != nil {
			return err
		}
		a.warnUnenforced(rec)
		a.noteCaches(rec, own)
		defer func() {
			if err := destroyWorkspace(ctx, c, rec.ID); err != nil {
				a.note("croft: remove the workspace %s: %v", rec.ID, err)
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
			a.note("croft: the workspace began empty, without %s of this directory: --template . starts it with a copy of this directory, --rw . works in this directory", printable(word))
			return
		}
	}
}

const (
	hostPackages = "programs are those of this host, read-only: install packages here, or choose an image that has them (docs/docker.md)"
	pipPackages  = "the Python of this host takes no packages from inside; in a virtual environment it does: " +
		"croft run --allow-net @pypi -- sh -c 'python3 -m venv v && v/bin/pip install NAME'"
)

// installerHints say what to do instead of installing packages into the system.
var installerHints = map[string]string{
	"apt": hostPackages, "apt-get": hostPackages, "dpkg": hostPackages,
	"dnf": hostPackages, "yum": hostPackages, "apk": hostPackages, "pacman": hostPackages,
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
	var ended *outcome
	missing := errors.As(err, &ended) && ended.status == notFound && ended.err == nil
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
		a.note("croft: a program was not found; toolchains of your home directory are not shown without a flag: --toolchain auto shows %s", list)
	default:
		a.note("croft: the caches of your home directory were not used: --toolchain auto shows %s, copy-on-write", list)
	}
}

func (a *command) runSpec(opts runOptions) (workspace.Spec, sandbox.Options, error) {
	spec := workspace.Spec{Labels: a.runLabels()}
	spec.Policy.Idle = runIdle
	kind, err := a.runProvider(opts.provider, &spec)
	if err != nil {
		return spec, sandbox.Options{}, err
	}
	if err := opts.policy.apply(&spec, a.server != ""); err != nil {
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
	dirs, sockets, err := a.boundDirs(opts.host)
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
		if opts.host.wantsToolchains() {
			return own, usagef("--toolchain is for the provider %s", sandbox.Kind)
		}
		if opts.git != "" || len(sockets) > 0 {
			return own, usagef("--git and --sockets are for the provider %s", sandbox.Kind)
		}
		return own, setProviderOptions(opts.options, nil, spec)
	}
	own.Binds, own.Sockets = dirs, sockets
	if err := a.addToolchains(opts.host.toolchains, cmp.Or(spec.Dir, templateDir(spec)), spec, &own); err != nil {
		return own, err
	}
	return own, setProviderOptions(opts.options, own, spec)
}

// templateDir returns the directory that a workspace starts from, "" if it is not one.
func templateDir(spec *workspace.Spec) string {
	if filepath.IsAbs(spec.From.Template) {
		return spec.From.Template
	}
	return ""
}

// setProviderOptions sets the options of the provider: given, overridden by own.
func setProviderOptions(given string, own any, spec *workspace.Spec) error {
	all := map[string]json.RawMessage{}
	if given != "" && (json.Unmarshal([]byte(given), &all) != nil || all == nil) {
		return usagef("--options %s: give a JSON object, such as {\"image\":\"tools:1\"} for docker", given)
	}
	if own != nil {
		data, err := json.Marshal(own)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &all); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return nil
	}
	data, err := json.Marshal(all)
	spec.Config = data
	return err
}

// runProvider sets the provider of a run and returns its kind. Without the flag it is
// a sandbox, whatever the configured default is, so that commands are isolated.
func (a *command) runProvider(name string, spec *workspace.Spec) (kind string, err error) {
	spec.Kind = name
	if a.server != "" {
		if name == "" {
			spec.Kind = sandbox.Kind
		}
		return spec.Kind, nil
	}
	settings, err := a.settings()
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

// destroyWorkspace destroys the workspace even if ctx has ended.
func destroyWorkspace(ctx context.Context, c workspaces, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := c.Destroy(ctx, id)
	if fault.Of(err) == fault.NotFound {
		return nil
	}
	return err
}

// processIdentity identifies a process by boot id, pid and start time, so that a
// reused pid differs. It is "" without /proc or without such a process.
func processIdentity(pid string) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	id, _, _ := strings.Cut(string(stat), " ")
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" { // a zombie
		return ""
	}
	return fmt.Sprintf("%.8s-%s-%s", boot, id, fields[19])
}

// isKilled reports whether mark identifies a process of this boot that has ended.
func isKilled(mark string) bool {
	me := strings.Split(processIdentity("self"), "-")
	it := strings.Split(mark, "-")
	return len(me) == 3 && len(it) == 3 && me[0] == it[0] && processIdentity(it[1]) != mark
}

// sweepOrphans sweeps if there is a workspace directory without a record, which a run
// leaves that is killed while it opens or destroys its workspace.
func (a *command) sweepOrphans(ctx context.Context) {
	const endsItself = 5 * time.Second // another process may be creating or removing it
	entries, err := os.ReadDir(filepath.Join(a.system.Dir, "ws"))
	if err != nil {
		return // there are no workspaces yet
	}
	records, err := a.system.Registry.List(ctx, registry.Filter{})
	if err != nil {
		return // the next call fails with the same error
	}
	for _, e := range entries {
		known := slices.ContainsFunc(records, func(r registry.Record) bool { return r.ID == e.Name() })
		info, err := e.Info()
		if known || err != nil || !e.IsDir() || e.Name() == ".journals" || time.Since(info.ModTime()) < endsItself {
			continue
		}
		if err := a.system.Registry.Sweep(ctx); err != nil {
			a.note("croft: remove leftovers of earlier runs: %v", err)
		}
		return
	}
}

// sweepRuns destroys the workspaces of killed runs, and returns their ids.
func (a *command) sweepRuns(ctx context.Context) []string {
	ids, err := a.system.Discard(ctx, runLabel, func(r registry.Record) bool { return isKilled(r.Labels[runByLabel]) })
	if err != nil {
		a.note("croft: remove workspaces of earlier runs: %v", err)
	}
	return ids
}
