package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"time"

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

// RegisterInsecureHTTP adds the flag that allows plain HTTP beyond loopback.
func RegisterInsecureHTTP(f *pflag.FlagSet, value *bool, with string) {
	f.BoolVar(value, "insecure-http", false, with+"listen beyond loopback without TLS: the token and all files can be read on the way")
}

// AllowedHosts returns the names that the Host header of requests to a server at addr may have.
func AllowedHosts(addr string, hosts []string) []string {
	if host, _, err := net.SplitHostPort(addr); err == nil && net.ParseIP(host) == nil {
		hosts = append(hosts, host)
	}
	return hosts
}

// NoteUnisolated says that nothing isolates the commands of a workspace, if so.
func NoteUnisolated(a *Console, ws *workspace.Workspace) {
	if ws.Traits().Isolation.Rank() == 0 && ws.Capabilities().Has(driver.CapShell) {
		hint := "; --provider sandbox does"
		if a.InWork { // it has no such flag
			hint = ""
		}
		a.Note("croft: nothing of Croft isolates commands in this workspace from the machine that they run on%s", hint)
	}
}

// ShellOptions say where Shell runs.
type ShellOptions struct {
	Name    string
	Session string
	Env     []string
}

// ReplayBytes is how much of the earlier output is shown at attach.
const ReplayBytes = 16 << 10

// Shell opens a shell in a workspace, or attaches to a session.
func Shell(ctx context.Context, a *Console, opts ShellOptions) error {
	env, err := ParseEnv(opts.Env)
	if err != nil {
		return err
	}
	return a.WithAttached(ctx, opts.Name, func(c Workspaces, ws *workspace.Workspace) error {
		NoteUnisolated(a, ws)
		id, from := opts.Session, client.TerminalOptions{Tail: ReplayBytes}
		if id == "" {
			if id, err = startShell(ctx, a, ws, env); err != nil {
				return err
			}
			from = client.TerminalOptions{}
		}
		t, err := OpenTerminal(ctx, c, ws.ID(), id, from)
		if err != nil {
			return err
		}
		defer t.Close()
		res, err := a.AttachTerminal(ctx, t, !a.EndsWithUs(ws), EarlierModes(ctx, ws, id, from.Tail))
		if errors.Is(err, ErrDetached) {
			a.Note("\r\ndetached from session %s, which keeps running; attach again with: croft ws shell %s --session %s", id, opts.Name, id)
			return nil
		}
		if err != nil {
			return err
		}
		return a.CommandOutcome(*res)
	})
}

// startShell starts bash, or sh without bash.
func startShell(ctx context.Context, a *Console, ws *workspace.Workspace, env map[string]string) (string, error) {
	size := a.TerminalSize()
	session, err := ws.Start(ctx, driver.Command{
		Script: `if command -v bash > /dev/null; then exec bash -i; else exec sh -i; fi`,
		Env:    env, TTY: &size, Interactive: true, Detached: true, Labels: map[string]string{"croft-shell": "true"},
	})
	if err != nil {
		return "", err
	}
	return session.ID(), nil
}
