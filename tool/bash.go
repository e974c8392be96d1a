package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/plaintext"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of Bash.
const (
	defaultBashSeconds = 120
	maxBashSeconds     = 600
	maxBashOutput      = 100 << 10 // bytes of a foreground command that are shown

	leastMilliseconds = 10_000 // a time-out from here on is in milliseconds, as models know it from other tools
)

type bashInput struct {
	Command     string `json:"command" jsonschema:"bash script to run in the workspace" croft:"command"`
	Description string `json:"description,omitempty" jsonschema:"what it is for, in a few words"`
	Timeout     int    `json:"timeout,omitempty" jsonschema:"time limit in seconds; default 120, at most 600"`
	Background  bool   `json:"run_in_background,omitempty" jsonschema:"do not wait for it; BashOutput shows its output"`

	ErrorPatterns *[]string `json:"error_patterns,omitempty" jsonschema:"in the background: regular expressions; BashOutput lists the lines of standard error that match"`
	IdleTimeout   int       `json:"idle_timeout_seconds,omitempty" jsonschema:"in the background: kill it after so many seconds without output"`
}

type bashOutput struct {
	Output   string `json:"output,omitempty" jsonschema:"standard output and standard error, interleaved"`
	ExitCode int    `json:"exit_code" jsonschema:"124 after a timeout"`
	Cause    string `json:"cause,omitempty" jsonschema:"why it was ended, if it did not exit by itself"`
	Dropped  int64  `json:"dropped,omitempty" jsonschema:"bytes of output that were dropped"`
	ShellID  string `json:"shell_id,omitempty" jsonschema:"id for BashOutput, of a background command or of truncated output"`
	Running  bool   `json:"running,omitempty"`

	Refused         []driver.Refusal `json:"refused,omitempty" jsonschema:"hosts that the network policy of the workspace refused"`
	AutorunChanges  []string         `json:"autorunChanges,omitempty" jsonschema:"autorun files of the directory (Git hooks, editor tasks, ...) that the command created or changed"`
	AutorunWarnings []string         `json:"autorunWarnings,omitempty" jsonschema:"directories that could not be scanned for autorun files, and why; autorun files that the list leaves out"`

	text string
}

func (o bashOutput) Text() string { return o.text }

func bashTool() *Tool {
	return New(Spec{
		Name: "Bash", Family: Shell, Needs: []workspace.Capability{driver.CapShell}, Destructive: true, OpenWorld: true,
		Description: "Run a bash command in the workspace, with its isolation. The output is standard output and standard error together; " +
			"an exit status other than 0 is shown at its end. Processes that it started are killed when it ends, unless it runs in the background.",
	}, runBash)
}

func runBash(ctx context.Context, c *Call, in bashInput) (bashOutput, error) {
	if strings.TrimSpace(in.Command) == "" {
		return bashOutput{}, Errorf(fault.InvalidArgument, "command is required")
	}
	if in.Timeout >= leastMilliseconds {
		in.Timeout /= 1000
	}
	seconds, err := Seconds("timeout", in.Timeout, defaultBashSeconds, maxBashSeconds)
	if err != nil {
		return bashOutput{}, err
	}
	watched := in.ErrorPatterns != nil || in.IdleTimeout != 0
	switch {
	case in.Background && watched:
		return watchProcess(ctx, c, watchProcessInput{Command: in.Command, ErrorPatterns: in.ErrorPatterns, IdleTimeout: in.IdleTimeout})
	case in.Background:
		return c.startBackground(ctx, in.Command)
	case watched:
		return bashOutput{}, Errorf(fault.InvalidArgument, "error_patterns and idle_timeout_seconds need run_in_background")
	}
	cmd := driver.Command{
		// On the same line as the command, so that line numbers in bash's errors are right.
		Script:    "exec 2>&1; " + in.Command,
		Timeout:   time.Duration(seconds) * time.Second,
		MaxOutput: int64(min(maxBashOutput, c.room(10*logNote))),
	}
	if c.progress != nil {
		cmd.OnStdout = c.output.write
	}
	res, err := c.Workspace.Run(ctx, cmd)
	if err != nil {
		return bashOutput{}, commandError(err)
	}
	if res.Cause == driver.CauseCanceled {
		return bashOutput{}, fmt.Errorf("bash: %w", fault.Canceled)
	}
	out := newBashOutput(res, seconds)
	if out.ShellID != "" {
		c.Env.shells.Store(out.ShellID, c.Name)
	}
	return out, nil
}

// Seconds returns the number of seconds that a call asks for, or otherwise if it asks for
// none.
func Seconds(name string, asked, otherwise, most int) (int, error) {
	switch {
	case asked == 0:
		return otherwise, nil
	case asked < 0 || asked > most:
		return 0, Errorf(fault.InvalidArgument, "%s must be between 1 and %d seconds", name, most)
	}
	return asked, nil
}

func newBashOutput(res workspace.Result, seconds int) bashOutput {
	o := bashOutput{ExitCode: res.ExitCode, Cause: string(res.Cause), Dropped: res.StdoutDropped}
	var b strings.Builder
	if res.StdoutDropped > 0 {
		o.ShellID = res.Session
	}
	b.WriteString(plaintext.Clean(driver.OutputText(res.Stdout, res.StdoutDropped, o.readMoreHint(len(res.Stdout)/2))))
	b.WriteString(plaintext.Clean(driver.OutputText(res.Stderr, res.StderrDropped, ""))) // errors of bash itself, before the redirection
	o.Output = b.String()
	b.Reset()
	b.WriteString(o.Output)
	if o.Output != "" && !strings.HasSuffix(o.Output, "\n") {
		b.WriteByte('\n')
	}
	if hint := o.readMoreHint(len(res.Stdout) / 2); hint != "" {
		b.WriteString(elidedNote("", int(res.StdoutDropped), "; "+hint))
	}
	switch {
	case res.Cause == driver.CauseTimeout:
		o.ExitCode = 124
		fmt.Fprintf(&b, "bash: timed out after %ds\n", seconds)
	case res.Cause != "":
		fmt.Fprintf(&b, "bash: ended: %s\n", causeText(res.Cause))
	}
	if o.ExitCode != 0 {
		fmt.Fprintf(&b, "exit: %d\n", o.ExitCode)
	}
	o.Refused, o.AutorunChanges, o.AutorunWarnings = res.Refused, res.AutorunChanges, res.AutorunWarnings
	writeSandboxNotes(&b, res)
	writePrivateCommits(&b, res)
	o.text = b.String()
	return o
}

// writeSandboxNotes lists refused hosts, and autorun files that the user is warned of.
func writeSandboxNotes(b *strings.Builder, res workspace.Result) {
	const most = 5
	for i, r := range res.Refused {
		if i == most {
			fmt.Fprintf(b, "network: and %d more were refused\n", len(res.Refused)-most)
			break
		}
		hint := ""
		if strings.HasPrefix(r.Reason, "no rule allows it") { // against other reasons it does not help
			hint = "; the operator can allow a host in the network policy"
		}
		fmt.Fprintf(b, "network: %s was refused: %s%s\n", r.Host, r.Reason, hint)
	}
	for i, name := range res.AutorunChanges {
		if i == most {
			fmt.Fprintf(b, "sandbox: and %d more\n", len(res.AutorunChanges)-most)
			break
		}
		fmt.Fprintf(b, "sandbox: %s was created or changed, and can run code outside the sandbox; the user is warned\n", name)
	}
	for _, text := range res.AutorunWarnings {
		fmt.Fprintf(b, "sandbox: %s\n", text)
	}
}

// writePrivateCommits says that commits are not in the user's repository.
func writePrivateCommits(b *strings.Builder, res workspace.Result) {
	for _, name := range res.PrivateCommits {
		fmt.Fprintf(b, "git: the commits and refs of %s are in a private copy of it, not in the user's repository, and end with this workspace; "+
			"'git bundle create commits.bundle HEAD' here and 'git fetch commits.bundle HEAD' there take them over; where the operator shares the repository there is no copy\n", name)
	}
}

// readMoreHint says how to read the dropped output.
func (o bashOutput) readMoreHint(offset int) string {
	if o.ShellID == "" {
		return ""
	}
	return fmt.Sprintf("BashOutput with shell_id %q and offset %d reads them", o.ShellID, offset)
}

// causeText returns an exit cause in words.
func causeText(c driver.Cause) string {
	switch c {
	case driver.CauseOOM:
		return "out of memory"
	case driver.CausePIDs:
		return "out of processes"
	case driver.CauseDisk:
		return "out of disk"
	case driver.CauseLost:
		return "the process that ran it was lost; it may or may not have finished"
	case driver.CauseDestroyed:
		return "the workspace was ended or paused"
	}
	return string(c)
}

const rejected = "command rejected: "

// commandError is the error of a command that did not run.
func commandError(err error) error {
	if fault.Of(err) == fault.PermissionDenied || fault.Of(err) == fault.SandboxViolation {
		// An error of the command policy says so itself.
		text := strings.Replace(strings.TrimPrefix(fault.Encode(err).Message, "cmdpolicy: "), rejected, "", 1)
		return &textError{text: rejected + text, code: fault.Of(err), err: err}
	}
	return err
}

// startBackground starts a command that outlives the call.
func (c *Call) startBackground(ctx context.Context, command string) (bashOutput, error) {
	s, err := c.Workspace.Start(context.WithoutCancel(ctx), driver.Command{Script: command, Interactive: true})
	if err != nil {
		return bashOutput{}, commandError(err)
	}
	c.Env.shells.Store(s.ID(), c.Name)
	text := fmt.Sprintf("shell_id: %s\nstarted in background: %s\n", s.ID(), command)
	return bashOutput{ShellID: s.ID(), Running: true, text: text}, nil
}
