package cli

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/containerd/log"
	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/cli/evalcmd"
	"github.com/croft-run/croft/internal/daemon/cli/servercmd"
	"github.com/croft-run/croft/internal/daemon/cli/workcmd"
	"github.com/croft-run/croft/internal/daemon/cli/wscmd"
	"github.com/croft-run/croft/internal/gclater"
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
	return Run(ctx, os.Args, console.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, providers...)
}

// Run runs the program with args, the first being its name, and returns its exit
// status.
func Run(ctx context.Context, args []string, streams console.Streams, providers ...driver.Provider) int {
	a := &command{console.New(args[0], streams, providers)}
	root := a.rootCommand()
	root.SetArgs(acceptSingleDash(root, args[1:]))
	root.SetIn(a.In)
	root.SetErr(a.Err)
	cmd, err := root.ExecuteContextC(ctx)
	return a.Finish(ctx, cmd, args, err)
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

// A command is what the commands of this package have.
type command struct{ *console.Console }

// Commands returns the tree of commands, for programs that write documents about it.
func Commands() *cobra.Command {
	return (&command{console.New("croft", console.Streams{}, nil)}).rootCommand()
}

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
				return console.UnknownCommand(cmd, args)
			}
			_, err := io.WriteString(a.Out, startText)
			return err
		},
		Version: versionLine(),

		PersistentPreRunE: a.ResolveTarget,
	}
	root.SetFlagErrorFunc(console.FlagError)
	root.SetVersionTemplate("{{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&a.Config, "config", "", "configuration file (default $CROFT_CONFIG, else croft.yaml in the data directory, else ~/.config/croft/croft.yaml)")
	flags.StringVar(&a.Data, "data", "", "data directory (default $CROFT_DATA, else $XDG_DATA_HOME/croft, else ~/.local/share/croft)")
	flags.StringVar(&a.Server, "server", "", "use the daemon at this URL instead of a data directory (default $CROFT_SERVER, unless --data is given)")
	flags.StringVar(&a.Token, "token", "", "token for --server, or of the daemon (default $CROFT_TOKEN)")
	flags.BoolVar(&a.JSON, "json", false, "answer in JSON")
	root.SetHelpTemplate(root.HelpTemplate() + "\n" + console.ExitHelp())
	root.SetUsageTemplate(root.UsageTemplate())
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(workcmd.Command(a.Console), evalcmd.Command(a.Console), a.runCommand(), a.codeCommand(), a.scriptCommand(), a.mcpCommand(),
		a.toolCommand(), a.versionCommand())
	root.AddCommand(wscmd.Commands(a.Console)...)
	root.AddCommand(servercmd.Commands(a.Console)...)
	root.SetHelpCommand(helpCommand())
	root.SetOut(a.Out) // before the completions, which take it now
	root.InitDefaultCompletionCmd()
	setGroups(root, rootGroups)
	ws, _, _ := root.Find([]string{"ws"}) // it is there
	setGroups(ws, wsGroups)
	checkArguments(root)
	a.registerCompletions(root)
	return root
}

const rootHelp = `Commands use a data directory or, with --server, a daemon (croft up). Both may be used at the
same time. Name a workspace by its name or its id.`
