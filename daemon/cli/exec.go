package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// commandFlags are the flags by which a user says how a command runs.
type commandFlags struct {
	dir     string
	timeout time.Duration
	grace   time.Duration
	tty     bool
}

func (c *commandFlags) registerFlags(f *pflag.FlagSet) {
	f.StringVar(&c.dir, "dir", "", "where in the workspace it runs")
	f.DurationVar(&c.timeout, "timeout", 0, "end it after this long, such as 1m; 0 is never")
	f.DurationVar(&c.grace, "grace", 0, "between SIGTERM and SIGKILL at the time-out")
	f.BoolVarP(&c.tty, "tty", "t", false, "run it on a terminal")
}

func (c *commandFlags) driverCommand(argv []string) driver.Command {
	return driver.Command{Argv: argv, Dir: c.dir, Timeout: c.timeout, Grace: c.grace}
}

// commandAfterDash returns the command that follows --.
func commandAfterDash(cmd *cobra.Command, args []string, before int) ([]string, error) {
	dash := cmd.ArgsLenAtDash()
	if dash >= 0 && dash != before || len(args) <= before {
		return nil, usagef("write the command after the flags and --: %s", cmd.UseLine())
	}
	return args[before:], nil
}

// runForeground runs a command with the streams of this program, and returns the
// result, empty for a terminal, and what ends the program as the command ended.
func (a *command) runForeground(ctx context.Context, c *client.Client, ws *workspace.Workspace, cmd driver.Command, tty bool) (workspace.Result, error) {
	if tty && !a.json {
		return workspace.Result{}, a.runOnTerminal(ctx, c, ws, cmd)
	}
	cmd.Stdin = a.In
	if !a.json {
		cmd.OnStdout, cmd.OnStderr = writeTo(a.Out), writeTo(a.Err)
		cmd.MaxOutput = 1 // it is shown as it comes
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
	return res, a.commandOutcome(res)
}

func writeTo(w io.Writer) func([]byte) error {
	return func(data []byte) error {
		_, err := w.Write(data)
		return err
	}
}

// runOnTerminal runs a command on a terminal of its own, which ends with this
// program.
func (a *command) runOnTerminal(ctx context.Context, c *client.Client, ws *workspace.Workspace, cmd driver.Command) error {
	size := a.terminalSize()
	cmd.TTY, cmd.Interactive = &size, true
	session, err := ws.Start(ctx, cmd)
	if err != nil {
		return err
	}
	t, err := c.Terminal(ctx, ws.ID(), session.ID(), client.TerminalOptions{})
	if err != nil {
		return err
	}
	defer t.Close()
	res, err := a.attachTerminal(ctx, t, false)
	if err != nil && ctx.Err() != nil {
		// It was ended from outside: what the command came to is worth telling.
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

// stopTimeout bounds what is done after the user has asked to stop.
const stopTimeout = 30 * time.Second
