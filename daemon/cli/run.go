package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
)

// runLabel marks the workspaces of croft run. What a crash leaves of them the
// next run removes.
const runLabel = "croft-run"

// runByLabel names the process of a run, so that the next one sees at once that
// it was killed.
const runByLabel = "croft-run-by"

// runIdle is after how long without use a server removes such a workspace.
const runIdle = 10 * time.Minute

type runOptions struct {
	provider string
	options  string
	rw, ro   []string
	policy   policyFlags
	command  commandFlags
}

func (a *command) runCommand() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARGUMENT]...",
		Short: "Run a command in a throw-away workspace",
		Long: `Run a command in a workspace of its own, which is opened for it and destroyed when it
ends, also on Ctrl-C and SIGTERM. What it writes is shown as it writes it, and on a
terminal it has one, too. Nothing of the host is writable unless --rw says so, and
nothing is reached over the network unless --allow-net does; what was refused is told at
the end.

The exit status is that of the command; 125 is a failure of Croft's own.`,
		Example: `  croft run -- make test
  croft run --rw . --memory 512M --timeout 1m -- go test ./...
  croft run --allow-net api.example.com --secret KEY@api.example.com -- curl https://api.example.com/`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		words, err := commandAfterDash(cmd, args, 0)
		if err != nil {
			return err
		}
		return run(func(ctx context.Context, _ []string) error {
			return withCroftStatus(a.runInNewWorkspace(ctx, opts, words))
		})(cmd, args)
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&opts.provider, "provider", "", "kind of workspace, or a name of the configuration; see croft provider list (default defaults.provider if it is a sandbox, else sandbox)")
	f.StringVar(&opts.options, "options", "", "that provider's own options, a JSON object, such as {\"image\":\"tools:1\"} for docker")
	f.StringArrayVar(&opts.rw, "rw", nil, "show this directory of the host, writable; the command runs in the first one; may be given several times")
	f.StringArrayVar(&opts.ro, "ro", nil, "show this directory of the host, read-only; the command runs in it if it is the only one; may be given several times")
	opts.policy.registerFlags(f)
	opts.command.registerFlags(f)
	return cmd
}

func (a *command) runInNewWorkspace(ctx context.Context, opts runOptions, words []string) error {
	spec, err := a.runSpec(opts)
	if err != nil {
		return err
	}
	return a.withClient(ctx, func(c *client.Client) (err error) {
		if a.server == "" {
			a.sweepRuns(ctx, c)
		}
		rec, err := c.CreateWith(ctx, spec, opts.policy.name)
		if err != nil {
			return err
		}
		defer func() {
			if err := a.destroyWorkspace(ctx, c, rec.ID); err != nil {
				a.note("croft: remove the workspace %s: %v", rec.ID, err)
			}
			a.noteEventRefusals(ctx, c, rec.ID) // when it is gone, all of them are known
		}()
		d, rec, err := c.Attach(ctx, rec.ID)
		if err != nil {
			return err
		}
		ws, err := workspace.New(rec.ID, d, nil, &workspace.Options{Relay: true, Kind: rec.Kind})
		if err != nil {
			return err
		}
		_, err = a.runForeground(ctx, c, ws, opts.command.driverCommand(words), opts.command.tty || a.onTerminal())
		return err
	})
}

func (a *command) runSpec(opts runOptions) (workspace.Spec, error) {
	spec := workspace.Spec{Labels: map[string]string{runLabel: "true"}}
	if me := processIdentity("self"); me != "" && a.server == "" {
		spec.Labels[runByLabel] = me
	}
	spec.Policy.Idle = runIdle
	kind, err := a.runProvider(opts.provider, &spec)
	if err != nil {
		return spec, err
	}
	if err := opts.policy.apply(&spec, a.server != ""); err != nil {
		return spec, err
	}
	return spec, a.setRunDirs(opts, kind, &spec)
}

// A boundDir is a directory of the host, as the sandbox wants to be told of it.
type boundDir struct {
	Dir      string `json:"dir"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// sandboxOptions are the options of the sandbox for a run.
type sandboxOptions struct {
	Throwaway bool       `json:"throwaway,omitempty"`
	Binds     []boundDir `json:"binds,omitempty"`
}

// setRunDirs says where the command runs and which directories it sees: the first
// writable one is the workspace, in place, and so is a read-only one that is
// alone. Others are shown beside it.
func (a *command) setRunDirs(opts runOptions, kind string, spec *workspace.Spec) error {
	var dirs []boundDir
	for i, dir := range slices.Concat(opts.rw, opts.ro) {
		if a.server != "" && !filepath.IsAbs(dir) {
			return usagef("%s is relative: with --server, give a directory of the server's host from its root", dir)
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		dirs = append(dirs, boundDir{abs, i >= len(opts.rw)})
	}
	if len(dirs) > 0 && (!dirs[0].ReadOnly || len(dirs) == 1) {
		spec.Dir, spec.Policy.ReadOnly = dirs[0].Dir, dirs[0].ReadOnly
		dirs = dirs[1:]
	}
	if kind != sandboxKind {
		if len(dirs) > 0 {
			return fmt.Errorf("run: %w: a workspace of kind %s is one directory: give --rw or --ro once", fault.Unsupported, kind)
		}
		return setProviderOptions(opts.options, nil, spec)
	}
	return setProviderOptions(opts.options, sandboxOptions{Throwaway: true, Binds: dirs}, spec)
}

// setProviderOptions sets the options of the provider: those that were given, and those of
// the run itself, which win.
func setProviderOptions(given string, own any, spec *workspace.Spec) error {
	all := map[string]json.RawMessage{}
	if given != "" && (json.Unmarshal([]byte(given), &all) != nil || all == nil) {
		return usagef("--options %s: it is a JSON object, such as {\"image\":\"tools:1\"} for docker", given)
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

// sandboxKind is the kind that a run has unless it is told otherwise.
const sandboxKind = "sandbox"

// runProvider sets the provider of a run, and returns its kind. A run has a
// fence unless its own flag says otherwise, whatever other workspaces have.
func (a *command) runProvider(name string, spec *workspace.Spec) (kind string, err error) {
	spec.Kind = name
	if a.server != "" {
		if name == "" {
			spec.Kind = sandboxKind
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
		if kind != sandboxKind {
			spec.Kind, kind = sandboxKind, sandboxKind
		}
	}
	return kind, nil
}

// destroyWorkspace ends the workspace, also where the user asked to stop.
func (a *command) destroyWorkspace(ctx context.Context, c *client.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := c.Destroy(ctx, id)
	if fault.Of(err) == fault.NotFound {
		return nil
	}
	return err
}

// processIdentity tells a process from all others that this host ever had, "" where
// that can't be known or there is none: boot, id and time of start.
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
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" { // dead, and not waited for yet
		return ""
	}
	return fmt.Sprintf("%.8s-%s-%s", boot, id, fields[19])
}

// isKilled reports whether a mark is that of a process of this boot that is no more.
func isKilled(mark string) bool {
	me := strings.Split(processIdentity("self"), "-")
	it := strings.Split(mark, "-")
	return len(me) == 3 && len(it) == 3 && me[0] == it[0] && processIdentity(it[1]) != mark
}

// sweepOrphans removes what no record tells of: a run that was killed while it
// opened or ended left it.
func (a *command) sweepOrphans(ctx context.Context) {
	const endsItself = 5 * time.Second // what others are about to make or to remove
	entries, err := os.ReadDir(filepath.Join(a.system.Dir, "ws"))
	if err != nil {
		return // there is nothing yet
	}
	records, err := a.system.Registry.List(ctx, registry.Filter{})
	if err != nil {
		return // it shows in what comes next
	}
	for _, e := range entries {
		known := slices.ContainsFunc(records, func(r registry.Record) bool { return r.ID == e.Name() })
		info, err := e.Info()
		if known || err != nil || !e.IsDir() || time.Since(info.ModTime()) < endsItself {
			continue
		}
		if err := a.system.Registry.Sweep(ctx); err != nil {
			a.note("croft: remove what earlier runs left: %v", err)
		}
		return
	}
}

// sweepRuns removes what earlier runs left that were killed. Where it can't be
// told, a program that lives holds its workspace; one that was killed does so for
// a few seconds more.
func (a *command) sweepRuns(ctx context.Context, c *client.Client) {
	list, err := c.List(ctx, client.Filter{Labels: map[string]string{runLabel: "true"}})
	if err != nil {
		return // it shows in what comes next
	}
	defer a.sweepOrphans(ctx)
	for _, ws := range list {
		over := isKilled(ws.Labels[runByLabel])
		if !over && time.Since(ws.CreatedAt) < time.Minute {
			continue // between being recorded and being held
		}
		if d, err := c.Describe(ctx, ws.ID); err == nil && (over || len(d.Holders) == 0) {
			if err := a.destroyWorkspace(ctx, c, ws.ID); err != nil {
				a.note("croft: remove the workspace %s of an earlier run: %v", ws.ID, err)
			}
		}
	}
}
