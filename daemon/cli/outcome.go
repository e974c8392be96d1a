package cli

import (
	"errors"
	"unicode/utf8"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// exitCroft is the exit status of a command that passes on another's, where
// Croft itself could not do its part.
const exitCroft = 125

// An outcome ends the program with the status of a command. err, if any, is what
// Croft has to say about it.
type outcome struct {
	status int
	err    error
}

func (o *outcome) Error() string {
	if o.err == nil {
		return "the command failed"
	}
	return o.err.Error()
}

func (o *outcome) Unwrap() error { return o.err }

// withCroftStatus makes an error of Croft's own one with the status 125. A command line that
// makes no sense stays what it is.
func withCroftStatus(err error) error {
	usage, passed := new(usageError), new(outcome)
	if err == nil || errors.As(err, &passed) || errors.As(err, &usage) {
		return err
	}
	return &outcome{exitCroft, err}
}

// commandOutcome says how a command ended, and returns what ends the program likewise.
func (a *command) commandOutcome(res workspace.Result) error {
	if res.Cause != "" {
		a.note("croft: the command was ended: %s", causeText(res.Cause))
	}
	a.warnAutorunChanges(res.AutorunChanges)
	switch {
	case res.ExitCode < 0:
		return &outcome{status: exitCroft}
	case res.ExitCode > 0:
		return &outcome{status: res.ExitCode}
	}
	return nil
}

// warnAutorunChanges tells of what others run later and a command has left in a
// directory of the user's.
func (a *command) warnAutorunChanges(names []string) {
	const most = 10
	for i, name := range names {
		if i == most {
			a.note("croft: warning: and %d more; see croft events --kind lifecycle.sandbox.violation", len(names)-most)
			return
		}
		a.note("croft: warning: %s was made or changed meanwhile, and git, an editor or a shell may run what it says: look at it first", printable(name))
	}
}

// causeText is a cause with what it means, for people.
func causeText(c driver.Cause) string {
	if why := map[driver.Cause]string{
		driver.CauseTimeout: "its time ran out",
		driver.CauseOOM:     "it needed more memory than its limit",
		driver.CausePIDs:    "it needed more processes than its limit",
		driver.CauseDisk:    "the disk of the workspace is full",
		driver.CauseLost:    "what ran it died; it may or may not have done its work",
	}[c]; why != "" {
		return string(c) + ": " + why
	}
	return string(c)
}

// resultAnswer is a result as JSON, with output that can be read.
type resultAnswer struct {
	workspace.Result
	Stdout    string `json:"stdout"`
	StdoutB64 []byte `json:"stdoutB64,omitempty"`
	Stderr    string `json:"stderr"`
	StderrB64 []byte `json:"stderrB64,omitempty"`
}

func newResultAnswer(res workspace.Result) resultAnswer {
	out := resultAnswer{Result: res}
	out.Stdout, out.StdoutB64 = textOrBytes(res.Stdout)
	out.Stderr, out.StderrB64 = textOrBytes(res.Stderr)
	return out
}

func textOrBytes(data []byte) (string, []byte) {
	if utf8.Valid(data) {
		return string(data), nil
	}
	return "", data
}
