package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/internal/suggest"
)

// resolveTarget chooses the server or data directory from flags and environment. A
// flag overrides a variable: with --data, CROFT_SERVER is ignored.
func (a *command) resolveTarget(cmd *cobra.Command, _ []string) error {
	flags := cmd.Flags()
	if err := emptyFlag(flags); err != nil {
		return err
	}
	switch {
	case flags.Changed("data") && flags.Changed("server"):
		return usagef("--data and --server exclude each other: give one")
	case !flags.Changed("data") && !flags.Changed("server"):
		a.server = os.Getenv("CROFT_SERVER")
	}
	a.server = serverURL(a.server)
	return nil
}

// serverURL completes the URL of a server from HOST:PORT or the URL of its API.
func serverURL(s string) string {
	if s != "" && !strings.Contains(s, "://") {
		s = "http://" + s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "/"), "/v1")
}

// emptyFlag refuses a flag with an empty value: the usual cause is an unset variable,
// and the default would be a surprise.
func emptyFlag(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty && err == nil {
			err = usagef("--%s is empty: give a value or leave it out", f.Name)
		}
	})
	return err
}

// flagError rewrites the errors of package pflag with what is allowed.
func flagError(cmd *cobra.Command, err error) error {
	bad := new(pflag.InvalidValueError)
	if !errors.As(err, &bad) {
		name := new(pflag.NotExistError)
		if errors.As(err, &name) {
			return unknownFlag(cmd, name)
		}
		if missing := new(pflag.ValueRequiredError); errors.As(err, &missing) {
			f := missing.GetFlag()
			return usagef("--%s needs a value: %s", f.Name, f.Usage)
		}
		return err
	}
	f := bad.GetFlag()
	what := map[string]string{
		"int": "a whole number, such as 10", "int64": "a whole number, such as 10", "bool": "true or false",
		"duration": "a number with a unit, such as 30s, 1m30s or 2h",
		"size":     "a number of bytes, such as 512M or 2G", "cores": "a number of cores, such as 1.5 or 500m",
	}[f.Value.Type()]
	if what == "" {
		return err
	}
	return usagef("--%s %q: give %s", f.Name, bad.GetValue(), what)
}

// unknownFlag is the error for a flag that the command does not have.
func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	flag := "--" + err.GetSpecifiedName()
	if shorthands := err.GetSpecifiedShortnames(); shorthands != "" {
		flag = "-" + err.GetSpecifiedName()
	}
	// A misspelt command has none of the flags that are meant.
	switch given := cmd.Flags().Args(); {
	case len(given) == 0 || !cmd.HasSubCommands():
	case cmd.Name() != "work":
		return unknownCommand(cmd, given)
	case work.FindAgent(given[0]) == nil:
		return noAgent(cmd, given, " ARGUMENT...") // the flags among them are not known here
	}
	hint := flagHint(cmd, flag)
	if hint == "" {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if near := suggest.Word(strings.TrimLeft(flag, "-"), known); near != "" {
			hint = "; did you mean --" + near + "?"
		}
	}
	if hint == "" && cmd.CommandPath() == "croft work" {
		hint = "; the flags of the agent come after --: croft work claude -- " + flag
	}
	return usagef("unknown flag: %s%s", flag, hint)
}

// checkArguments makes the commands at and below cmd refuse a wrong number of
// arguments, and empty ones, with the usage.
func checkArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		checkArguments(sub)
	}
	check := cmd.Args
	if check == nil || cmd.HasSubCommands() {
		return
	}
	_, words, _ := strings.Cut(cmd.Use, " ")
	// Arguments after -- belong to another program.
	free := strings.Contains(words, "-- ") || strings.Contains(words, "[--]")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); errors.Is(err, pflag.ErrHelp) || errors.As(err, new(*usageError)) {
			return err
		} else if err != nil {
			return usagef("%s takes %s; given %s", cmd.CommandPath(), orNone(words), countText(len(args), "argument"))
		}
		for i, arg := range args {
			if arg == "" && !free {
				return usagef("%s: argument %d is empty", cmd.CommandPath(), i+1)
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

// countText formats a number with a noun in singular or plural.
func countText[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	many := one + "s"
	if stem, ok := strings.CutSuffix(one, "y"); ok {
		many = stem + "ies"
	}
	return fmt.Sprintf("%d %s", n, many)
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
				return unknownCommand(cmd, rest)
			}
			if err != nil || len(rest) > 0 {
				return usagef("unknown command %q; croft help lists the commands", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// usageHint is printed after a usage error.
func usageHint(cmd *cobra.Command) string {
	if cmd == nil || cmd.HasSubCommands() {
		path := "croft"
		if cmd != nil {
			path = cmd.CommandPath()
		}
		return fmt.Sprintf("Run '%s --help' for the usage.\n", path)
	}
	return fmt.Sprintf("usage: %s\nRun '%s --help' for more.\n", cmd.UseLine(), cmd.CommandPath())
}
