package console

import (
	"context"
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

// ErrInterrupted is the error of a command that a signal ended.
var ErrInterrupted error = interrupted{}

type interrupted struct{}

func (interrupted) Error() string { return "interrupted" }

func (interrupted) Unwrap() error { return fault.Canceled }

// A UsageError is an invalid command line, found by a command itself.
type UsageError struct{ text string }

// Error returns the text.
func (e *UsageError) Error() string { return e.text }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// exitStatus returns the exit status for err.
func exitStatus(err error) int {
	var usage *UsageError
	var failed *failure
	var passed *Outcome
	switch {
	case err == nil:
		return 0
	case errors.As(err, &passed) && !errors.As(passed.Err, &usage):
		return passed.Status
	case errors.As(err, &usage), !errors.As(err, &failed):
		return exitUsage
	default:
		return fault.Of(err).Exit()
	}
}

// Finish prints err, with which the command line args ended in cmd, and returns the exit status.
func (a *Console) Finish(ctx context.Context, cmd *cobra.Command, args []string, err error) int {
	// With invalid flags, --json was perhaps not parsed. Arguments after -- belong to
	// another program.
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	a.JSON = a.JSON || exitStatus(err) == exitUsage && slices.Contains(args, "--json")
	if ctx.Err() != nil && fault.Of(err) == fault.Canceled {
		err = &failure{ErrInterrupted} // whichever call noticed the signal
	}
	if lost := a.lostOutput(err); lost != nil {
		err = &failure{lost}
	}
	return a.reportError(cmd, err)
}

// reportError prints err and returns the exit status.
func (a *Console) reportError(cmd *cobra.Command, err error) int {
	status := exitStatus(err)
	if passed := new(Outcome); err == nil || errors.As(err, &passed) && passed.Err == nil {
		return status
	}
	passed := new(Outcome)
	misused := status == exitUsage && !errors.As(err, &passed) // croft eval uses status 2, too
	if a.JSON {
		wire := fault.Encode(err)
		if misused {
			wire = fault.Wire{Code: fault.InvalidArgument.Wire(), Kind: fault.InvalidArgument.Kind(), Message: err.Error(), Cause: "usage"}
		} else {
			wire.Message = err.Error() // in full: the user of the program is its operator
			for i, h := range wire.Hints {
				wire.Hints[i].Text = hintWords(h, a.InWork)
			}
		}
		data, _ := json.Marshal(map[string]fault.Wire{"error": wire}) // always encodes
		fmt.Fprintf(a.Err, "%s\n", data)
		return status
	}
	if misused {
		fmt.Fprintf(a.Err, "croft: %s\n%s", PrintableText(TrimPackages(err.Error())), usageHint(cmd))
		return status
	}
	what, hint := a.errorText(err)
	fmt.Fprintf(a.Err, "croft: %s\n", PrintableText(what))
	if hint != "" {
		fmt.Fprintf(a.Err, "hint: %s\n", PrintableText(hint))
	}
	return status
}

// ExitHelp is the table of exit statuses, for help texts.
func ExitHelp() string {
	var b strings.Builder
	b.WriteString("Exit status:\n")
	row := func(status int, text string) { fmt.Fprintf(&b, "  %-3d %s\n", status, text) }
	row(0, "success")
	row(1, "eval: cases failed; code and script: an exception")
	row(exitUsage, "usage: the command line is invalid; eval: the suite could not be run")
	row(ExitCroft, "run, work, code, script, ws exec and ws shell, which pass on the status of the command: an error of croft itself")
	codes := fault.All()
	slices.SortFunc(codes, func(x, y fault.Code) int { return x.Exit() - y.Exit() })
	for _, c := range codes {
		row(c.Exit(), c.Error())
	}
	return b.String()
}
