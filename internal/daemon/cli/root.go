package cli

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/containerd/log"
	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/gclater"
	"github.com/croft-run/croft/internal/live"
	"github.com/croft-run/croft/workspace/driver"
)

// Main runs the croft program with the arguments, streams and signals of the
// process, and returns its exit status. providers are added to Croft's own.
func Main(providers ...driver.Provider) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // this is main
	defer stop()
	// The first signal cancels ctx; the next one, without a handler, ends the process.
	context.AfterFunc(ctx, stop)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup starts it
		var end func()
		// A second SIGHUP does not end the process: a shell that ends sends one, and its terminal another.
		ctx, end = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer end()
	}
	gclater.Restore()
	// ttrpc, the library of the guest protocol, would log to standard error what its
	// errors say already.
	_ = log.SetLevel(log.PanicLevel.String()) // it fails only for an unknown level
	return Run(ctx, os.Args, Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, providers...)
}

// Streams are the standard streams of a run.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Run runs the program with args, the first being its name, and returns its exit
// status.
func Run(ctx context.Context, args []string, streams Streams, providers ...driver.Provider) int {
	streams.Out, streams.Err = &checkedOutput{Writer: streams.Out, name: "standard output"}, &checkedOutput{Writer: streams.Err, name: "standard error"}
	a := &command{Streams: streams, program: args[0], providers: providers}
	root := a.rootCommand()
	root.SetArgs(acceptSingleDash(root, args[1:]))
	root.SetIn(streams.In)
	root.SetErr(streams.Err)
	cmd, err := root.ExecuteContextC(ctx)
	// With invalid flags, --json was perhaps not parsed. Arguments after -- belong to
	// another program.
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	a.json = a.json || exitStatus(err) == exitUsage && slices.Contains(args, "--json")
	if ctx.Err() != nil && fault.Of(err) == fault.Canceled {
		err = &failure{errInterrupted} // whichever call noticed the signal
	}
	if lost := a.lostOutput(err); lost != nil {
		err = &failure{lost}
	}
	return a.reportError(cmd, err)
}

// codegenFlags are the flags of CodeGen-Sandbox that have another name here.
var codegenFlags = map[string]string{"workspace": "dir", "workspaces": "dirs"}

// acceptSingleDash rewrites the flags of croft mcp that are given with one dash, such as
// -workspaces, as CodeGen-Sandbox and other programs with Go's package flag take them.
func acceptSingleDash(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Name() != "mcp" {
		return args
	}
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		name = cmp.Or(codegenFlags[name], name)
		if !strings.HasPrefix(arg, "-") || len(name) < 2 || cmd.Flags().Lookup(name) == nil {
			continue
		}
		out[i] = "--" + name
		if hasValue {
			out[i] += "=" + value
		}
	}
	return out
}

// A command is one run of the program: its streams and the global flags.
type command struct {
	Streams
	program   string
	providers []driver.Provider

	config string // file
	data   string
	server string
	token  string
	json   bool

	tokenOf  string         // the data directory whose token a server got, as none was given
	resolved *config.Config // cache of settings
	system   *app.System    // the open data directory, without --server

	view  *live.View   // the line of progress that is shown now
	notes *slog.Logger // takes the notes of a server whose log is in JSON; nil otherwise

	named map[string]string // ids of workspaces to the names that the user gave

	secrets    func() map[string]app.Secret // of the user's agents, for croft work
	noProjects bool                         // see app.Config
	inWork     bool                         // it is a command of croft work
}

// Commands returns the tree of commands, for programs that write documents about it.
func Commands() *cobra.Command { return (&command{program: "croft"}).rootCommand() }

func (a *command) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "croft",
		Short:         "Workspaces for agents",
		Long:          "Croft opens, stores and serves workspaces for agents.\n\n" + rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args)
			}
			_, err := io.WriteString(a.Out, startText)
			return err
		},
		Version: versionLine(),

		PersistentPreRunE: a.resolveTarget,
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&a.config, "config", "", "configuration file (default $CROFT_CONFIG, else croft.yaml in the data directory, else ~/.config/croft/croft.yaml)")
	flags.StringVar(&a.data, "data", "", "data directory (default $CROFT_DATA, else $XDG_DATA_HOME/croft, else ~/.local/share/croft)")
	flags.StringVar(&a.server, "server", "", "use the daemon at this URL instead of a data directory (default $CROFT_SERVER, unless --data is given)")
	flags.StringVar(&a.token, "token", "", "token for --server, or of the daemon (default $CROFT_TOKEN)")
	flags.BoolVar(&a.json, "json", false, "answer in JSON")
	root.SetHelpTemplate(root.HelpTemplate() + "\n" + exitHelp())
	root.SetUsageTemplate(root.UsageTemplate())
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(a.upCommand(), a.workCommand(), a.runCommand(), a.evalCommand(), a.mcpCommand(), a.toolCommand(), a.wsCommand(), a.snapshotCommand(), a.templateCommand(), a.keyCommand(), a.prepCommand(), a.collectCommand(), a.artifactCommand(), a.codeCommand(), a.scriptCommand(), a.providerCommand(), a.imageCommand(), a.gcCommand(), a.backupCommand(), a.restoreCommand(), a.profileCommand(),
		a.setupCommand(),
		a.eventsCommand(), a.doctorCommand(), a.configCommand(), a.versionCommand(), a.uninstallCommand())
	root.SetHelpCommand(helpCommand())
	root.SetOut(a.Out) // before the completions, which take it now
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = cobra.ArbitraryArgs, runGroup
		}
	}
	setGroups(root, rootGroups)
	checkArguments(root)
	a.registerCompletions(root)
	return root
}

const rootHelp = `Commands use a data directory or, with --server, a daemon (croft up). Both may be used at the
same time. Name a workspace by its name or its id.`

// runGroup runs a command that only groups others: it prints its help.
func runGroup(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args)
}

// run makes the RunE of a command. Errors of f become failures; other errors of
// cobra are usage errors.
func run(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := f(cmd.Context(), args); err != nil {
			return &failure{err}
		}
		return nil
	}
}
