package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/internal/daemon/cli/console"
)

// runGroup runs a command that only groups others: it prints its help.
func runGroup(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return console.UnknownCommand(cmd, args)
}

// checkArguments makes the commands at and below cmd refuse a wrong number of
// arguments, and empty ones, with the usage. Those without a function are groups.
func checkArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		checkArguments(sub)
	}
	check := cmd.Args
	switch {
	case cmd.HasSubCommands() && !cmd.Runnable():
		cmd.Args, cmd.RunE = cobra.ArbitraryArgs, runGroup
		return
	case check == nil || cmd.HasSubCommands():
		return
	}
	_, words, _ := strings.Cut(cmd.Use, " ")
	// Arguments after -- belong to another program.
	free := strings.Contains(words, "-- ") || strings.Contains(words, "[--]")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); errors.Is(err, pflag.ErrHelp) || errors.As(err, new(*console.UsageError)) {
			return err
		} else if err != nil {
			return console.Usagef("%s takes %s; given %s", cmd.CommandPath(), orNone(words), console.CountText(len(args), "argument"))
		}
		for i, arg := range args {
			if arg == "" && !free {
				return console.Usagef("%s: argument %d is empty", cmd.CommandPath(), i+1)
			}
		}
		return nil
	}
}

func orNone(words string) string {
	if words == "" {
		return "no arguments"
	}
	return words
}

// helpCommand is cobra's, except that an unknown command is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "Help about any command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			cmd, rest, err := c.Root().Find(args)
			if err == nil && len(rest) > 0 && cmd.HasParent() && cmd.HasSubCommands() {
				return console.UnknownCommand(cmd, rest)
			}
			if err != nil || len(rest) > 0 {
				return console.Usagef("unknown command %q; croft help lists the commands", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}
