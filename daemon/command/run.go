package command

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/remote"
	"github.com/croft-run/croft/workspace"
)

// runLabel marks the workspaces of croft run. What a crash leaves of them the
// next run removes.
const runLabel = "croft-run"

// runIdle is after how long without use a server removes such a workspace.
const runIdle = 10 * time.Minute

type runOptions struct {
	provider string
	rw, ro   []string
	policy   policyFlags
	command  commandFlags
}

func (a *app) runCommand() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARGUMENT]...",
		Short: "Run a command in a throw-away workspace",
		Long: `Run a command in a workspace of its own, which is opened for it and destroyed when it
ends, also on Ctrl-C and SIGTERM. What it writes is shown as it writes it, and on a
terminal it has one, too. Nothing of the host is writable unless --rw says so, and
nothing is reached over the network unless --allow-net does.

The exit status is that of the command; 125 is a failure of Croft's own.`,
		Example: `  croft run -- make test
  croft run --rw . --memory 512M --timeout 1m -- go test ./...
  croft run --allow-net api.example.com --secret KEY@api.example.com -- curl https://api.example.com/`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		words, err := argv(cmd, args, 0)
		if err != nil {
			return err
		}
		return run(func(ctx context.Context, _ []string) error { return ours(a.run(ctx, opts, words)) })(cmd, args)
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&opts.provider, "provider", "", "kind of workspace, or a name of the configuration; see croft provider list (default defaults.provider if it is a sandbox, else sandbox)")
	f.StringArrayVar(&opts.rw, "rw", nil, "run in this directory of the host, in place")
	f.StringArrayVar(&opts.ro, "ro", nil, "run in this directory of the host, in place and read-only")
	opts.policy.register(f)
	opts.command.register(f)
	return cmd
}

func (a *app) run(ctx context.Context, opts runOptions, words []string) error {
	spec, err := a.runSpec(opts)
	if err != nil {
		return err
	}
	return a.withClient(ctx, func(c *remote.Client) (err error) {
		if a.server == "" {
			a.sweepRuns(ctx, c)
		}
		rec, err := c.CreateWith(ctx, spec, opts.policy.name)
		if err != nil {
			return err
		}
		defer func() {
			if err := a.discard(ctx, c, rec.ID); err != nil {
				a.note("croft: remove the workspace %s: %v", rec.ID, err)
			}
		}()
		d, rec, err := c.Attach(ctx, rec.ID)
		if err != nil {
			return err
		}
		ws, err := workspace.New(rec.ID, d, nil, nil)
		if err != nil {
			return err
		}
		return a.foreground(ctx, c, ws, opts.command.command(words), opts.command.tty || a.onTerminal())
	})
}

func (a *app) runSpec(opts runOptions) (workspace.Spec, error) {
	spec := workspace.Spec{Labels: map[string]string{runLabel: "true"}}
	spec.Policy.Idle = runIdle
	kind, err := a.runProvider(opts.provider, &spec)
	if err != nil {
		return spec, err
	}
	if kind == fenced {
		spec.Config = json.RawMessage(`{"throwaway": true}`)
	}
	if err := opts.policy.apply(&spec); err != nil {
		return spec, err
	}
	if len(opts.rw)+len(opts.ro) > 1 {
		return spec, fmt.Errorf("run: %w: a workspace is in place in one directory: give --rw or --ro once", fault.Unsupported)
	}
	for _, dir := range append(opts.rw, opts.ro...) {
		if a.server != "" && !filepath.IsAbs(dir) {
			return spec, usagef("%s is relative: with --server, give a directory of the server's host from its root", dir)
		}
		var err error
		if spec.Dir, err = filepath.Abs(dir); err != nil {
			return spec, err
		}
	}
	spec.Policy.ReadOnly = len(opts.ro) > 0
	return spec, nil
}

// fenced is the kind that a run has unless it is told otherwise.
const fenced = "sandbox"

// runProvider sets the provider of a run, and returns its kind. A run has a
// fence unless its own flag says otherwise, whatever other workspaces have.
func (a *app) runProvider(name string, spec *workspace.Spec) (kind string, err error) {
	spec.Kind = name
	if a.server != "" {
		if name == "" {
			spec.Kind = fenced
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
		if kind != fenced {
			spec.Kind, kind = fenced, fenced
		}
	}
	return kind, nil
}

// discard ends the workspace, also where the user asked to stop.
func (a *app) discard(ctx context.Context, c *remote.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	err := c.Destroy(ctx, id)
	if fault.Of(err) == fault.NotFound {
		return nil
	}
	return err
}

// sweepRuns removes what earlier runs left that were killed. A program that
// lives holds its workspace; one that was killed does so for a few seconds more.
func (a *app) sweepRuns(ctx context.Context, c *remote.Client) {
	list, err := c.List(ctx, remote.Filter{Labels: map[string]string{runLabel: "true"}})
	if err != nil {
		return // it shows in what comes next
	}
	for _, ws := range list {
		if time.Since(ws.CreatedAt) < time.Minute {
			continue // between being recorded and being held
		}
		if d, err := c.Describe(ctx, ws.ID); err == nil && len(d.Holders) == 0 {
			if err := a.discard(ctx, c, ws.ID); err != nil {
				a.note("croft: remove the workspace %s of an earlier run: %v", ws.ID, err)
			}
		}
	}
}
