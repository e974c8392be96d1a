package wscmd

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
			return parseAfterName(cmd, args[1:])
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

func shellCommand(a *command) *cobra.Command {
	var opts console.ShellOptions
	cmd := &cobra.Command{
		Use:   "shell NAME [--session ID]",
		Short: "Open a shell on a terminal in a workspace",
		Long: `Start a shell on a terminal in a workspace, or attach to a running session. Detach with ctrl-],
or with ~. at the beginning of a line: the session keeps running, and its id is printed for
--session. Several terminals may attach to one session.

The exit status is that of the shell; 125 is an error of croft itself.`,
		Args: cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.Name = args[0]
			return a.WithCroftStatus(console.Shell(ctx, a.Console, opts))
		}),
	}
	f := cmd.Flags()
	f.StringVar(&opts.Session, "session", "", "attach to this session instead of starting one")
	console.RegisterEnv(f, &opts.Env)
	return cmd
}

func psCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "ps NAME",
		Short: "List the sessions of a workspace, recently ended ones included",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithAttached(ctx, args[0], func(_ console.Workspaces, ws *workspace.Workspace) error {
				list, err := ws.Sessions(ctx)
				if err != nil {
					return err
				}
				if list == nil {
					list = []workspace.SessionInfo{}
				}
				return a.PrintAnswer(list, func(w io.Writer) error { return console.WriteTable(w, psRows(list), "TTY", "STARTED", "PID") })
			})
		}),
	}
}

func psRows(list []workspace.SessionInfo) [][]string {
	rows := [][]string{{"SESSION", "PID", "STATE", "STARTED", "TTY", "COMMAND"}}
	for _, s := range list {
		command := s.Script
		if len(s.Argv) > 0 {
			command = console.ShellText(s.Argv)
		}
		const most = 60
		if len(command) > most {
			command = strings.ToValidUTF8(command[:most], "") + "..."
		}
		pid := "-"
		if s.PID > 0 {
			pid = strconv.Itoa(s.PID)
		}
		rows = append(rows, []string{s.ID, pid, sessionState(s), console.TimeText(s.Started), strconv.FormatBool(s.TTY),
			console.Printable(command)})
	}
	return rows
}

// sessionState is the state of a session in a few words.
func sessionState(s workspace.SessionInfo) string {
	text := endState(s)
	if s.LogDropped > 0 {
		text += fmt.Sprintf(", log lacks %s", console.CountText(s.LogDropped, "byte"))
	}
	return text
}

func endState(s workspace.SessionInfo) string {
	switch {
	case s.Running:
		return "running"
	case s.Result == nil:
		return "ended"
	case s.Result.Cause != "":
		return fmt.Sprintf("%s (exit %d)", s.Result.Cause, s.Result.ExitCode)
	}
	return fmt.Sprintf("exit %d", s.Result.ExitCode)
}

type logsOptions struct {
	name, session string
	follow        bool
	stderr        bool
	offset        int64
}

func logsCommand(a *command) *cobra.Command {
	var opts logsOptions
	cmd := &cobra.Command{
		Use:   "logs NAME SESSION",
		Short: "Print the output of a session",
		Args:  cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.name, opts.session = args[0], args[1]
			return a.logs(ctx, opts)
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&opts.follow, "follow", "f", false, "print new output until the session ends")
	f.BoolVar(&opts.stderr, "stderr", false, "standard error instead of standard output; on a terminal all output is on standard output")
	f.Int64Var(&opts.offset, "offset", 0, "first byte")
	return cmd
}

func (a *command) logs(ctx context.Context, opts logsOptions) error {
	if a.JSON {
		return console.Usagef("logs prints the output byte for byte: leave out --json")
	}
	stream := driver.Stdout
	if opts.stderr {
		stream = driver.Stderr
	}
	return a.WithAttached(ctx, opts.name, func(c console.Workspaces, ws *workspace.Workspace) error {
		session, err := ws.Attach(ctx, opts.session)
		if err != nil {
			return err
		}
		if opts.follow {
			api, err := c.API(ctx)
			if err != nil {
				return err
			}
			body, err := api.Follow(ctx, ws.ID(), session.ID(), stream, opts.offset)
			if err != nil {
				return err
			}
			defer body.Close()
			if _, err = io.Copy(a.Out, body); err == nil {
				a.noteDropped(ctx, session)
			}
			return err
		}
		return a.printLog(ctx, session, stream, opts.offset)
	})
}

// noteDropped mentions output that the log has dropped.
func (a *command) noteDropped(ctx context.Context, session *workspace.Session) {
	info, err := session.State(ctx)
	if err == nil && info.LogDropped > 0 {
		a.Note("croft: the log reached its size limit: %s of both streams were dropped", console.CountText(info.LogDropped, "byte"))
	}
}

// printLog prints the log up to its present end.
func (a *command) printLog(ctx context.Context, session *workspace.Session, stream driver.Stream, offset int64) error {
	const chunkSize = 1 << 20
	for end := int64(-1); end < 0 || offset < end; {
		chunk, err := session.Log(ctx, stream, offset, chunkSize)
		if err != nil {
			return err
		}
		if end < 0 {
			end = chunk.Size // later output needs --follow
		}
		if len(chunk.Data) == 0 {
			return nil
		}
		if chunk.Offset > offset {
			a.Note("croft: the log reached its size limit: %s were dropped here", console.CountText(chunk.Offset-offset, "byte"))
		}
		if _, err := a.Out.Write(chunk.Data); err != nil {
			return fmt.Errorf("print log: %w", err)
		}
		offset = chunk.Next
	}
	return nil
}

func killCommand(a *command) *cobra.Command {
	var signal string
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "kill NAME SESSION",
		Short: "Kill a session with all its processes, or send it a signal",
		Args:  cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithAttached(ctx, args[0], func(_ console.Workspaces, ws *workspace.Workspace) error {
				session, err := ws.Attach(ctx, args[1])
				if err != nil {
					return err
				}
				if signal != "" {
					err = session.Signal(ctx, signalName(signal))
				} else {
					err = session.Kill(ctx, grace)
				}
				if err != nil {
					return err
				}
				return a.PrintJSONOnly(map[string]string{"session": args[1]})
			})
		}),
	}
	cmd.Flags().StringVar(&signal, "signal", "", "only send this signal, such as INT, to the foreground process group")
	cmd.Flags().DurationVar(&grace, "grace", 0, "time between SIGTERM and SIGKILL; 0 is SIGKILL at once")
	return cmd
}

// signalName returns the full name of a signal: SIGINT for int.
func signalName(s string) string {
	s = strings.ToUpper(s)
	if !strings.HasPrefix(s, "SIG") {
		s = "SIG" + s
	}
	return s
}

// parseAfterName parses the flags between the name of a workspace and the program.
func parseAfterName(cmd *cobra.Command, args []string) error {
	f := cmd.Flags()
	if err := f.Parse(args); err != nil {
		return cmd.FlagErrorFunc()(cmd, err)
	}
	if help, err := f.GetBool("help"); err == nil && help {
		return pflag.ErrHelp
	}
	return nil
}
