package console

import (
	"errors"
	"path/filepath"
	"unicode/utf8"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// ExitCroft is the exit status for an error of croft itself, in commands that pass on
// the status of another program.
const ExitCroft = 125

// An Outcome ends the program with the given status. err, if any, is printed.
type Outcome struct {
	Status int
	Err    error
}

// Error returns the text of Err.
func (o *Outcome) Error() string {
	if o.Err == nil {
		return "the command failed"
	}
	return o.Err.Error()
}

// Unwrap returns Err.
func (o *Outcome) Unwrap() error { return o.Err }

// WithCroftStatus gives an error of croft itself the status 125, and output that could not be
// written is one. Other outcomes and usage errors stay as they are.
func (a *Console) WithCroftStatus(err error) error {
	usage, passed := new(UsageError), new(Outcome)
	if lost := a.lostOutput(err); lost != nil {
		err = lost
	}
	if err == nil || errors.As(err, &passed) || errors.As(err, &usage) {
		return err
	}
	return &Outcome{ExitCroft, err}
}

// lostOutput returns the error of standard output, unless err is another error of croft itself:
// callbacks of a command, and libraries that print a help text, do not look at it.
func (a *Console) lostOutput(err error) error {
	out, ok := a.Out.(*checkedOutput)
	if !ok {
		return nil
	}
	lost, passed := out.lost(), new(Outcome)
	ended := errors.As(err, &passed)
	if err == nil || ended && passed.Err == nil || !ended && errors.Is(err, lost) {
		return lost
	}
	return nil
}

// CommandOutcome prints the cause and warnings of a result, and returns the outcome
// with the command's status.
func (a *Console) CommandOutcome(res workspace.Result) error {
	switch res.Cause {
	case "":
	case driver.CausePIDs, driver.CauseDisk: // a system call of it failed
		a.Note("croft: the command failed: %s", causeText(res.Cause))
	default:
		a.Note("croft: the command was killed: %s", causeText(res.Cause))
	}
	a.warnAutorunChanges(res.AutorunChanges)
	for _, text := range res.AutorunWarnings {
		a.Note("croft: warning: %s", Printable(text))
	}
	for _, name := range res.PrivateCommits {
		a.Note("croft: commits or refs of %s changed in the workspace's private copy of it, not in your repository; they end with the workspace: "+
			"git bundle create commits.bundle HEAD inside, and git fetch commits.bundle HEAD here, take them over; --git shared has no copy", Printable(name))
	}
	switch {
	case res.ExitCode < 0:
		return &Outcome{Status: ExitCroft}
	case res.ExitCode > 0:
		return &Outcome{Status: res.ExitCode}
	}
	return nil
}

// warnAutorunChanges warns of autorun files (Git hooks, editor tasks) that a command
// made or changed in a directory of the user.
func (a *Console) warnAutorunChanges(names []string) {
	const most = 10
	for i, name := range names {
		if i == most {
			a.Note("croft: warning: and %d more; see croft events --kind lifecycle.sandbox.violation", len(names)-most)
			return
		}
		if filepath.Base(name) == ".git" { // its hooks are named beside it
			a.Note("croft: warning: a repository was made or replaced: %s; check it before you run git there, if that was not you", Printable(name))
			continue
		}
		a.Note("croft: warning: autorun file %s was made or changed; git, an editor or a shell may run it: check it first", Printable(name))
	}
}

// causeText is a cause with an explanation.
func causeText(c driver.Cause) string {
	if why := map[driver.Cause]string{
		driver.CauseTimeout: "the time-out expired",
		driver.CauseOOM:     "it reached its memory limit",
		driver.CausePIDs:    "it reached its limit of processes",
		driver.CauseDisk:    "the disk of the workspace is full",
		driver.CauseLost:    "the process that ran it died; the command may or may not have finished",
	}[c]; why != "" {
		return string(c) + ": " + why
	}
	return string(c)
}

// ResultAnswer is the JSON of a result, with output as text if it is UTF-8. The text has
// a mark where bytes were dropped; the bytes have none.
type ResultAnswer struct {
	workspace.Result
	Stdout    string `json:"stdout"`
	StdoutB64 []byte `json:"stdoutB64,omitempty"`
	Stderr    string `json:"stderr"`
	StderrB64 []byte `json:"stderrB64,omitempty"`
}

// NewResultAnswer returns the JSON of res.
func NewResultAnswer(res workspace.Result) ResultAnswer {
	out := ResultAnswer{Result: res}
	out.Stdout, out.StdoutB64 = outputAnswer(res.Stdout, res.StdoutDropped)
	out.Stderr, out.StderrB64 = outputAnswer(res.Stderr, res.StderrDropped)
	return out
}

func outputAnswer(data []byte, dropped int64) (string, []byte) {
	if utf8.Valid(data) {
		return driver.OutputText(data, dropped, ""), nil
	}
	return "", data
}
