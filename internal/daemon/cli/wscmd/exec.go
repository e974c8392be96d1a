package wscmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type execOptions struct {
	name    string
	argv    []string
	detach  bool
	env     []string
	command console.CommandFlags

	limits     workspace.Limits // of this command
	bestEffort bool
}

func execCommand(a *command) *cobra.Command {
	var opts execOptions
	cmd := &cobra.Command{
		Use:   "exec NAME [flags] [--] PROGRAM [ARGUMENT]...",
		Short: "Run a command in a workspace",
		Long: `Run a command in a workspace, with the standard streams of this program. With --detach it is
started as a background session, whose id is printed; see croft ws ps, logs, shell and kill.

The exit status is that of the command; 125 is an error of croft itself.`,
		Example: "  croft ws exec demo -- ls -l\n  croft ws exec demo --detach -- make serve",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return console.Usagef("croft ws exec needs a workspace and a program, such as: croft ws exec demo -- ls -l")
			}
			opts.name = args[0]
			return console.ParseAfterName(cmd, args[1:])
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if opts.argv = cmd.Flags().Args(); len(opts.argv) == 0 {
			return console.Usagef("croft ws exec needs a program, such as: croft ws exec %s -- ls -l", opts.name)
		}
		return console.RunE(func(ctx context.Context, _ []string) error { return a.WithCroftStatus(a.exec(ctx, opts)) })(cmd, args)
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after the program are its own
	f.BoolVarP(&opts.detach, "detach", "d", false, "start the command as a session and print its id")
	console.RegisterEnv(f, &opts.env)
	opts.command.RegisterFlags(f)
	opts.limits = workspace.Limits{}
	for _, r := range driver.Resources {
		if r.Name == driver.ResourceCPU || r.Name == driver.ResourcePIDs {
			f.Var(&console.LimitFlag{Limits: opts.limits, Resource: r}, console.LimitFlagName(r), "limit of "+r.Doc+" of this command alone, such as "+config.Example(r.Unit)+"; 0 is none")
		}
	}
	f.BoolVar(&opts.bestEffort, "best-effort", false, "ignore those of these limits that can't be enforced for one command here")
	return cmd
}

func (a *command) exec(ctx context.Context, opts execOptions) error {
	cmd := opts.command.DriverCommand(opts.argv)
	cmd.Limits = opts.limits.With(nil)
	for name, l := range cmd.Limits {
		cmd.Limits[name] = workspace.Limit{Max: l.Max, BestEffort: opts.bestEffort}
	}
	var err error
	if cmd.Env, err = console.ParseEnv(opts.env); err != nil {
		return err
	}
	err = a.WithAttached(ctx, opts.name, func(c console.Workspaces, ws *workspace.Workspace) error {
		console.NoteUnisolated(a.Console, ws)
		end, err := a.beginCheckpoint(ctx, c, ws, strings.Join(opts.argv, " "))
		if err != nil {
			return err
		}
		if opts.detach {
			return a.startDetached(ctx, ws, cmd, opts.command.TTY)
		}
		defer end()
		res, err := a.RunForeground(ctx, c, ws, cmd, opts.command.TTY)
		a.NoteResultRefusals(res.Refused)
		return err
	})
	if last := opts.argv[len(opts.argv)-1]; fault.Of(err) == fault.NotFound && a.isWorkspace(ctx, last) && !a.isWorkspace(ctx, opts.name) {
		return console.Usagef("there is no workspace %q: the workspace comes before the program; use: croft ws exec %s -- %s", opts.name, last,
			strings.Join(append([]string{opts.name}, opts.argv[:len(opts.argv)-1]...), " "))
	}
	return err
}

// isWorkspace reports whether there is a workspace of this name.
func (a *command) isWorkspace(ctx context.Context, name string) bool {
	return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		_, err := c.Show(ctx, name)
		return err
	}) == nil
}

// beginCheckpoint takes a checkpoint before a command and, by end, one after it, if the
// workspace was opened with checkpoints.
func (a *command) beginCheckpoint(ctx context.Context, c console.Workspaces, ws *workspace.Workspace, done string) (end func(), err error) {
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), console.StopTimeout)
		defer cancel()
		if _, _, err := points.Step(ctx, done); err != nil {
			a.Note("croft: no checkpoint: %v", err)
		}
	}, nil
}

// startDetached starts a background session and prints its id.
func (a *command) startDetached(ctx context.Context, ws *workspace.Workspace, cmd driver.Command, tty bool) error {
	if a.EndsWithUs(ws) {
		return fault.Advise(fmt.Errorf("--detach: %w: commands of this workspace end with the program that starts them, here at once", fault.Unsupported), "leave out --detach, or let a server start it: croft up, and --server")
	}
	cmd.Detached = true
	if tty {
		size := a.TerminalSize()
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
	return a.PrintAnswer(info, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, info.ID)
		return err
	})
}
