package console

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/internal/suggest"
)

// ResolveTarget chooses the server or data directory from flags and environment. A
// flag overrides a variable: with --data, CROFT_SERVER is ignored.
func (a *Console) ResolveTarget(cmd *cobra.Command, _ []string) error {
	flags := cmd.Flags()
	if err := emptyFlag(flags); err != nil {
		return err
	}
	switch {
	case flags.Changed("data") && flags.Changed("server"):
		return Usagef("--data and --server exclude each other: give one")
	case !flags.Changed("data") && !flags.Changed("server"):
		a.Server = os.Getenv("CROFT_SERVER")
	}
	a.Server = serverURL(a.Server)
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
			err = Usagef("--%s is empty: give a value or leave it out", f.Name)
		}
	})
	return err
}

// FlagError rewrites the errors of package pflag with what is allowed.
func FlagError(cmd *cobra.Command, err error) error {
	bad := new(pflag.InvalidValueError)
	if !errors.As(err, &bad) {
		name := new(pflag.NotExistError)
		if errors.As(err, &name) {
			return unknownFlag(cmd, name)
		}
		if missing := new(pflag.ValueRequiredError); errors.As(err, &missing) {
			f := missing.GetFlag()
			return Usagef("--%s needs a value: %s", f.Name, f.Usage)
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
	return Usagef("--%s %q: give %s", f.Name, bad.GetValue(), what)
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
		return UnknownCommand(cmd, given)
	case work.FindAgent(given[0]) == nil:
		return NoAgent(cmd, given, " ARGUMENT...") // the flags among them are not known here
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
	return Usagef("unknown flag: %s%s", flag, hint)
}

// CountText formats a number with a noun in singular or plural.
func CountText[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	many := one + "s"
	if stem, ok := strings.CutSuffix(one, "y"); ok {
		many = stem + "ies"
	}
	return fmt.Sprintf("%d %s", n, many)
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

// NoAgent is the error for a first word that is neither an agent nor a command of croft work.
// more stands for further arguments.
func NoAgent(cmd *cobra.Command, args []string, more string) error {
	word := args[0]
	if hint := otherWord(cmd, word); hint != "" {
		return Usagef("unknown command %q for %q%s", word, cmd.CommandPath(), hint)
	}
	names := work.Names()
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	hint := commandHint(cmd, args, names)
	if _, err := exec.LookPath(word); err == nil && hint == "" {
		hint = "; use: croft work -- " + ShellText(args) + more
	}
	return Usagef("%s is no agent: give one of %s, or a command after --%s", word, strings.Join(work.Names(), ", "), hint)
}
