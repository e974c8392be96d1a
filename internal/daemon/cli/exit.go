package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
)

// exitUsage is the exit status for an invalid command line.
const exitUsage = 2

// A failure is an error of a command whose command line was valid.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// errInterrupted is the error of a command that a signal ended.
var errInterrupted error = interrupted{}

type interrupted struct{}

func (interrupted) Error() string { return "interrupted" }
func (interrupted) Unwrap() error { return fault.Canceled }

// A usageError is an invalid command line, found by a command itself.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// exitStatus returns the exit status for err.
func exitStatus(err error) int {
	var usage *usageError
	var failed *failure
	var passed *outcome
	switch {
	case err == nil:
		return 0
	case errors.As(err, &passed) && !errors.As(passed.err, &usage):
		return passed.status
	case errors.As(err, &usage), !errors.As(err, &failed):
		return exitUsage
	default:
		return fault.Of(err).Exit()
	}
}

// reportError prints err and returns the exit status.
func (a *command) reportError(cmd *cobra.Command, err error) int {
	status := exitStatus(err)
	if passed := new(outcome); err == nil || errors.As(err, &passed) && passed.err == nil {
		return status
	}
	passed := new(outcome)
	misused := status == exitUsage && !errors.As(err, &passed) // croft eval uses status 2, too
	if a.json {
		wire := fault.Encode(err)
		if misused {
			wire = fault.Wire{Code: fault.InvalidArgument.Wire(), Kind: fault.InvalidArgument.Kind(), Message: err.Error(), Cause: "usage"}
		} else {
			wire.Message = err.Error() // in full: the user of the program is its operator
			for i, h := range wire.Hints {
				wire.Hints[i].Text = hintWords(h, a.inWork)
			}
		}
		data, _ := json.Marshal(map[string]fault.Wire{"error": wire}) // always encodes
		fmt.Fprintf(a.Err, "%s\n", data)
		return status
	}
	if misused {
		fmt.Fprintf(a.Err, "croft: %s\n%s", printableText(trimPackages(err.Error())), usageHint(cmd))
		return status
	}
	what, hint := a.errorText(err)
	fmt.Fprintf(a.Err, "croft: %s\n", printableText(what))
	if hint != "" {
		fmt.Fprintf(a.Err, "hint: %s\n", printableText(hint))
	}
	return status
}

// exitHelp is the table of exit statuses, for help texts.
func exitHelp() string {
	var b strings.Builder
	b.WriteString("Exit status:\n")
	row := func(status int, text string) { fmt.Fprintf(&b, "  %-3d %s\n", status, text) }
	row(0, "success")
	row(1, "eval: cases failed; code and script: an exception")
	row(exitUsage, "usage: the command line is invalid; eval: the suite could not be run")
	row(exitCroft, "run, work, code, script, ws exec and ws shell, which pass on the status of the command: an error of croft itself")
	codes := fault.All()
	slices.SortFunc(codes, func(x, y fault.Code) int { return x.Exit() - y.Exit() })
	for _, c := range codes {
		row(c.Exit(), c.Error())
	}
	return b.String()
}
