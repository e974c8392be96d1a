package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type wsExecOptions struct {
	name    string
	argv    []string
	detach  bool
	env     []string
	command commandFlags

	limits     workspace.Limits // of this command
	bestEffort bool
}

func (a *command) wsExecCommand() *cobra.Command {
	var opts wsExecOptions
	cmd := &cobra.Command{
		Use:   "exec NAME [flags] [--] PROGRAM [ARGUMENT]...",
		Short: "Run a command in a workspace",
		Long: `Run a command in a workspace, with the standard streams of this program. With --detach it is
started as a background session, whose id is printed; see croft ws ps, logs, shell and kill.

The exit status is that of the command; 125 is an error of croft itself.`,
		Example: "  croft ws exec demo -- ls -l\n  croft ws exec demo --detach -- make serve",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("croft ws exec needs a workspace and a program, such as: croft ws exec demo -- ls -l")
			}
			opts.name = args[0]
			return parseAfterName(cmd, args[1:])
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if opts.argv = cmd.Flags().Args(); len(opts.argv) == 0 {
			return usagef("croft ws exec needs a program, such as: croft ws exec %s -- ls -l", opts.name)
		}
		return run(func(ctx context.Context, _ []string) error { return a.withCroftStatus(a.wsExec(ctx, opts)) })(cmd, args)
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after the program are its own
	f.BoolVarP(&opts.detach, "detach", "d", false, "start the command as a session and print its id")
	registerEnv(f, &opts.env)
	opts.command.registerFlags(f)
	opts.limits = workspace.Limits{}
	for _, r := range driver.Resources {
		if r.Name == driver.ResourceCPU || r.Name == driver.ResourcePIDs {
			f.Var(&limitFlag{limits: opts.limits, resource: r}, limitFlagName(r), "limit of "+r.Doc+" of this command alone, such as "+config.Example(r.Unit)+"; 0 is none")
		}
	}
	f.BoolVar(&opts.bestEffort, "best-effort", false, "ignore those of these limits that can't be enforced for one command here")
	return cmd
}

func (a *command) wsExec(ctx context.Context, opts wsExecOptions) error {
	cmd := opts.command.driverCommand(opts.argv)
	cmd.Limits = opts.limits.With(nil)
	for name, l := range cmd.Limits {
		cmd.Limits[name] = workspace.Limit{Max: l.Max, BestEffort: opts.bestEffort}
	}
	var err error
	if cmd.Env, err = parseEnv(opts.env); err != nil {
		return err
	}
	err = a.withAttached(ctx, opts.name, func(c workspaces, ws *workspace.Workspace) error {
		a.noteUnisolated(ws)
		end, err := a.beginCheckpoint(ctx, c, ws, strings.Join(opts.argv, " "))
		if err != nil {
			return err
		}
		if opts.detach {
			return a.startDetached(ctx, ws, cmd, opts.command.tty)
		}
		defer end()
		res, err := a.runForeground(ctx, c, ws, cmd, opts.command.tty)
		a.noteResultRefusals(res.Refused)
		return err
	})
	if last := opts.argv[len(opts.argv)-1]; fault.Of(err) == fault.NotFound && a.isWorkspace(ctx, last) && !a.isWorkspace(ctx, opts.name) {
		return usagef("there is no workspace %q: the workspace comes before the program; use: croft ws exec %s -- %s", opts.name, last,
			strings.Join(append([]string{opts.name}, opts.argv[:len(opts.argv)-1]...), " "))
	}
	return err
}

// isWorkspace reports whether there is a workspace of this name.
func (a *command) isWorkspace(ctx context.Context, name string) bool {
	return a.withWorkspaces(ctx, func(c workspaces) error {
		_, err := c.Show(ctx, name)
		return err
	}) == nil
}

// noteUnisolated says that nothing isolates the commands of a workspace, if so.
func (a *command) noteUnisolated(ws *workspace.Workspace) {
	if ws.Traits().Isolation.Rank() == 0 && ws.Capabilities().Has(driver.CapShell) {
		hint := "; --provider sandbox does"
		if a.inWork { // it has no such flag
			hint = ""
		}
		a.note("croft: nothing of Croft isolates commands in this workspace from the machine that they run on%s", hint)
	}
}

// beginCheckpoint takes a checkpoint before a command and, by end, one after it, if the
// workspace was opened with checkpoints.
func (a *command) beginCheckpoint(ctx context.Context, c workspaces, ws *workspace.Workspace, done string) (end func(), err error) {
	rec, err := c.Show(ctx, ws.ID())
	if err != nil {
		return nil, err
	}
	wanted := rec.Labels[history.LimitsLabel]
	if wanted == "" {
		return func() {}, nil
	}
	limits, err := history.ParseLimits(wanted)
	if err != nil {
		return nil, err
	}
	points := history.NewCheckpoints(ws, limits)
	if err := points.Begin(ctx); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if _, _, err := points.Step(ctx, done); err != nil {
			a.note("croft: no checkpoint: %v", err)
		}
	}, nil
}

// startDetached starts a background session and prints its id.
func (a *command) startDetached(ctx context.Context, ws *workspace.Workspace, cmd driver.Command, tty bool) error {
	if a.endsWithUs(ws) {
		return fault.Advise(fmt.Errorf("--detach: %w: commands of this workspace end with the program that starts them, here at once", fault.Unsupported), "leave out --detach, or let a server start it: croft up, and --server")
	}
	cmd.Detached = true
	if tty {
		size := a.terminalSize()
		cmd.TTY, cmd.Interactive = &size, true
	}
	session, err := ws.Start(ctx, cmd)
	if err != nil {
		return err
	}
	info, err := session.State(ctx)
	if err != nil {
		return err
	}
	return a.printAnswer(info, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, info.ID)
		return err
	})
}
