package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// CommandFlags are the flags for how a command runs.
type CommandFlags struct {
	dir     string
	timeout time.Duration
	grace   time.Duration
	TTY     bool
}

// RegisterEnv adds the flag for variables.
func RegisterEnv(f *pflag.FlagSet, env *[]string) {
	f.StringArrayVarP(env, "env", "e", nil, "K=V, a variable for processes; may be given several times")
}

// RegisterFlags adds the flags.
func (c *CommandFlags) RegisterFlags(f *pflag.FlagSet) {
	RegisterWorkdir(f, &c.dir)
	f.DurationVar(&c.timeout, "timeout", 0, "kill the command after this time, such as 1m; 0 is never")
	f.DurationVar(&c.grace, "grace", 0, "time between SIGTERM and SIGKILL at the time-out")
	f.BoolVarP(&c.TTY, "tty", "t", false, "run the command on a terminal")
	RegisterHabit(f, "interactive", "i", "standard input is always that of the command")
}

// DriverCommand returns a command with the flags.
func (c *CommandFlags) DriverCommand(argv []string) driver.Command {
	return driver.Command{Argv: argv, Dir: c.dir, Timeout: c.timeout, Grace: c.grace}
}

// RegisterHabit adds a flag of docker that asks for what is always so.
func RegisterHabit(f *pflag.FlagSet, name, shorthand, usage string) {
	f.BoolP(name, shorthand, false, usage)
	f.Lookup(name).Hidden = true
}

// RegisterWorkdir adds the flag for the working directory.
func RegisterWorkdir(f *pflag.FlagSet, dir *string) {
	f.StringVarP(dir, "workdir", "w", "", "working directory in the workspace")
}

// ParseAfterName parses the flags between the name of a workspace and the program.
func ParseAfterName(cmd *cobra.Command, args []string) error {
	f := cmd.Flags()
	if err := f.Parse(args); err != nil {
		return FlagError(cmd, err)
	}
	if help, err := f.GetBool("help"); err == nil && help {
		return pflag.ErrHelp
	}
	return nil
}

// RunForeground runs a command with the streams of this program. It returns the
// result, which is empty for a terminal, and the outcome for the exit status.
func (a *Console) RunForeground(ctx context.Context, c Workspaces, ws *workspace.Workspace, cmd driver.Command, tty bool) (workspace.Result, error) {
	if tty && !a.JSON {
		return workspace.Result{}, a.runOnTerminal(ctx, c, ws, cmd)
	}
	cmd.Stdin = a.In
	if !a.JSON {
		cmd.OnStdout, cmd.OnStderr = WriteTo(a.Out), WriteTo(a.Err)
		cmd.MaxOutput = 1 // the callbacks print the output
	}
	res, err := ws.Run(ctx, cmd)
	if err != nil {
		return res, err
	}
	if a.JSON {
		if err := a.PrintAnswer(NewResultAnswer(res), nil); err != nil {
			return res, err
		}
	}
	err = a.CommandOutcome(res)
	if len(res.CallbackErrors) > 0 { // output that the command wrote was lost
		err = &Outcome{ExitCroft, errors.New(res.CallbackErrors[0])}
	}
	return res, err
}

// WriteTo returns a callback that writes output to w.
func WriteTo(w io.Writer) func([]byte) error {
	return func(data []byte) error {
		_, err := w.Write(data)
		return err
	}
}

// runOnTerminal runs a command on a terminal. The command ends with this program.
func (a *Console) runOnTerminal(ctx context.Context, c Workspaces, ws *workspace.Workspace, cmd driver.Command) error {
	size := a.TerminalSize()
	cmd.TTY, cmd.Interactive = &size, true
	session, err := ws.Start(ctx, cmd)
	if err != nil {
		return err
	}
	t, err := OpenTerminal(ctx, c, ws.ID(), session.ID(), client.TerminalOptions{})
	if err != nil {
		return err
	}
	defer t.Close()
	res, err := a.AttachTerminal(ctx, t, false, terminalModes{})
	if err != nil && ctx.Err() != nil {
		// A signal ended us: the command's result still decides the exit status.
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
		defer cancel()
		var last driver.Result
		if last, err = session.Wait(after); err == nil {
			res = &last
		}
	}
	if err != nil {
		return err
	}
	return a.CommandOutcome(*res)
}

// OpenTerminal connects to the terminal of a session.
func OpenTerminal(ctx context.Context, c Workspaces, id, session string, opts client.TerminalOptions) (*client.Terminal, error) {
	api, err := c.API(ctx)
	if err != nil {
		return nil, err
	}
	return api.Terminal(ctx, id, session, opts)
}

// StopTimeout bounds the cleanup after an interrupt.
const StopTimeout = 30 * time.Second

// RegisterCheckpoints adds the flag that asks for checkpoints.
func RegisterCheckpoints(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "checkpoints", "", "take a checkpoint after each call or command that changes files, to return to; keep at most COUNT/AGE")
	f.Lookup("checkpoints").NoOptDefVal = "100/168h"
}

// RegisterGit adds the flag that says what repositories of a directory in place are inside.
func RegisterGit(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "git", "", "what each .git of a directory in place is inside: private (a copy, so that commits and hooks stay inside) or shared (the host's, without its hooks and configuration) (default private)")
}

// TemplateDir returns the directory that a workspace starts from, "" if it is not one.
func TemplateDir(spec *workspace.Spec) string {
	if filepath.IsAbs(spec.From.Template) {
		return spec.From.Template
	}
	return ""
}

// SetProviderOptions sets the options of the provider: given, overridden by own.
func SetProviderOptions(given string, own any, spec *workspace.Spec) error {
	all := map[string]json.RawMessage{}
	if given != "" && (json.Unmarshal([]byte(given), &all) != nil || all == nil) {
		return Usagef("--options %s: give a JSON object, such as {\"image\":\"tools:1\"} for docker", given)
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
