package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/internal/suggest"
)

// resolveTarget decides, from flags and environment, what the command works on. A flag
// beats a variable: who says --data does not mean the server of CROFT_SERVER.
func (a *command) resolveTarget(cmd *cobra.Command, _ []string) error {
	flags := cmd.Flags()
	if err := emptyFlag(flags); err != nil {
		return err
	}
	switch {
	case flags.Changed("data") && flags.Changed("server"):
		return usagef("--data and --server: a command works on one or the other")
	case !flags.Changed("data") && !flags.Changed("server"):
		a.server = os.Getenv("CROFT_SERVER")
	}
	a.server = serverURL(a.server)
	return nil
}

// serverURL completes what somebody wrote for the URL of a server: HOST:PORT, or
// the URL of its API.
func serverURL(s string) string {
	if s != "" && !strings.Contains(s, "://") {
		s = "http://" + s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "/"), "/v1")
}

// emptyFlag refuses a flag that was given and says nothing: it comes of a
// variable that is not set, and taking it for absent would do something else.
func emptyFlag(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty && err == nil {
			err = usagef("--%s is empty", f.Name)
		}
	})
	return err
}

// flagError says in plain words that the value of a flag can't be read.
func flagError(cmd *cobra.Command, err error) error {
	bad := new(pflag.InvalidValueError)
	if !errors.As(err, &bad) {
		var known []string
		name := new(pflag.NotExistError)
		if errors.As(err, &name) {
			cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
			return usagef("%v%s", err, suggest.Hint("--"+name.GetSpecifiedName(), known))
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
	return usagef("--%s %q: it is %s", f.Name, bad.GetValue(), what)
}

// checkArguments makes the commands at and below cmd refuse arguments in plain words.
func checkArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		checkArguments(sub)
	}
	check := cmd.Args
	if check == nil || cmd.HasSubCommands() {
		return
	}
	_, words, _ := strings.Cut(cmd.Use, " ")
	// The words of another program are none of our business.
	free := strings.Contains(words, "-- ")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) != nil {
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

// countText says how many there are of something.
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

// helpCommand is cobra's, except that it knows what it does not know.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "Help about any command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			cmd, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q to tell of", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// usageHint is what follows the message of a usage error.
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
