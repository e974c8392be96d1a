package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// commandFlags are the flags for how a command runs.
type commandFlags struct {
	dir     string
	timeout time.Duration
	grace   time.Duration
	tty     bool
}

// registerEnv adds the flag for variables.
func registerEnv(f *pflag.FlagSet, env *[]string) {
	f.StringArrayVarP(env, "env", "e", nil, "K=V, a variable for processes; may be given several times")
}

func (c *commandFlags) registerFlags(f *pflag.FlagSet) {
	registerWorkdir(f, &c.dir)
	f.DurationVar(&c.timeout, "timeout", 0, "kill the command after this time, such as 1m; 0 is never")
	f.DurationVar(&c.grace, "grace", 0, "time between SIGTERM and SIGKILL at the time-out")
	f.BoolVarP(&c.tty, "tty", "t", false, "run the command on a terminal")
	registerHabit(f, "interactive", "i", "standard input is always that of the command")
}

func (c *commandFlags) driverCommand(argv []string) driver.Command {
	return driver.Command{Argv: argv, Dir: c.dir, Timeout: c.timeout, Grace: c.grace}
}

// registerHabit adds a flag of docker that asks for what is always so.
func registerHabit(f *pflag.FlagSet, name, shorthand, usage string) {
	f.BoolP(name, shorthand, false, usage)
	f.Lookup(name).Hidden = true
}

// registerWorkdir adds the flag for the working directory.
func registerWorkdir(f *pflag.FlagSet, dir *string) {
	f.StringVarP(dir, "workdir", "w", "", "working directory in the workspace")
}

// parseAfterName parses the flags between the name of a workspace and the program.
func parseAfterName(cmd *cobra.Command, args []string) error {
	f := cmd.Flags()
	if err := f.Parse(args); err != nil {
		return flagError(cmd, err)
	}
	if help, err := f.GetBool("help"); err == nil && help {
		return pflag.ErrHelp
	}
	return nil
}

// runForeground runs a command with the streams of this program. It returns the
// result, which is empty for a terminal, and the outcome for the exit status.
func (a *command) runForeground(ctx context.Context, c workspaces, ws *workspace.Workspace, cmd driver.Command, tty bool) (workspace.Result, error) {
	if tty && !a.json {
		return workspace.Result{}, a.runOnTerminal(ctx, c, ws, cmd)
	}
	cmd.Stdin = a.In
	if !a.json {
		cmd.OnStdout, cmd.OnStderr = writeTo(a.Out), writeTo(a.Err)
		cmd.MaxOutput = 1 // the callbacks print the output
	}
	res, err := ws.Run(ctx, cmd)
	if err != nil {
		return res, err
	}
	if a.json {
		if err := a.printAnswer(newResultAnswer(res), nil); err != nil {
			return res, err
		}
	}
	err = a.commandOutcome(res)
	if len(res.CallbackErrors) > 0 { // output that the command wrote was lost
		err = &outcome{exitCroft, errors.New(res.CallbackErrors[0])}
	}
	return res, err
}

func writeTo(w io.Writer) func([]byte) error {
	return func(data []byte) error {
		_, err := w.Write(data)
		return err
	}
}

// runOnTerminal runs a command on a terminal. The command ends with this program.
func (a *command) runOnTerminal(ctx context.Context, c workspaces, ws *workspace.Workspace, cmd driver.Command) error {
	size := a.terminalSize()
	cmd.TTY, cmd.Interactive = &size, true
	session, err := ws.Start(ctx, cmd)
	if err != nil {
		return err
	}
	t, err := openTerminal(ctx, c, ws.ID(), session.ID(), client.TerminalOptions{})
	if err != nil {
		return err
	}
	defer t.Close()
	res, err := a.attachTerminal(ctx, t, false, terminalModes{})
	if err != nil && ctx.Err() != nil {
		// A signal ended us: the command's result still decides the exit status.
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		var last driver.Result
		if last, err = session.Wait(after); err == nil {
			res = &last
		}
	}
	if err != nil {
		return err
	}
	return a.commandOutcome(*res)
}

// openTerminal connects to the terminal of a session.
func openTerminal(ctx context.Context, c workspaces, id, session string, opts client.TerminalOptions) (*client.Terminal, error) {
	api, err := c.API(ctx)
	if err != nil {
		return nil, err
	}
	return api.Terminal(ctx, id, session, opts)
}

// stopTimeout bounds the cleanup after an interrupt.
const stopTimeout = 30 * time.Second
