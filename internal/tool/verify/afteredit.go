package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// EditBound is the default time limit of AfterEdit.
const EditBound = 30 * time.Second

// A Diagnoser is a language server, or another source of diagnostics for changing files.
type Diagnoser interface {
	// Diagnose returns the diagnostics for the present content of a file. warm is false if
	// no server for such a file is running and ready; Diagnose never starts one.
	Diagnose(ctx context.Context, path string) (list []Diagnostic, warm bool, err error)
}

// EditOptions are the options of AfterEdit. nil is the zero value.
type EditOptions struct {
	// Check reports what the formatter would change, without changing it.
	Check bool

	// Server is queried before a linter is run; may be nil.
	Server Diagnoser

	// Bound is the time limit; 0 is EditBound.
	Bound time.Duration

	// FormatBound is the time limit of the formatter within Bound; 0 is Bound.
	FormatBound time.Duration
}

// An Edited is the result of AfterEdit for a file. Errors are in Notes.
type Edited struct {
	File        string       `json:"file"`
	Formatted   bool         `json:"formatted,omitempty"`   // the formatter rewrote it
	Unformatted bool         `json:"unformatted,omitempty"` // with Check: the formatter would rewrite it
	Diff        string       `json:"diff,omitempty"`        // what it changed, or would
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"` // of this file alone
	Source      string       `json:"source,omitempty"`      // the tool that found them: "gopls", "eslint"
	Notes       []string     `json:"notes,omitempty"`
	Missing     []string     `json:"missing,omitempty"` // programs that are not installed, with what they are for: "format: ruff"
}

// AfterEdit formats and then lints one edited file, with the commands of its project. It
// works on the file only, or on its package if a tool has no smaller unit, and within its
// time limit. It does not fail: errors are in the notes.
func AfterEdit(ctx context.Context, ws *workspace.Workspace, p profile.Profile, file string, opts *EditOptions) Edited {
	if opts == nil {
		opts = new(EditOptions)
	}
	bound := opts.Bound
	if bound <= 0 {
		bound = EditBound
	}
	out := Edited{File: file}
	project, ok := p.For(file)
	if !ok {
		return out
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	e := editing{ws: ws, project: withVenv(ctx, ws, project), file: file, opts: opts, out: &out, deadline: began.Add(bound - killReserve(bound))}
	e.formatDeadline = e.deadline
	if b := opts.FormatBound; b > 0 && b < bound {
		e.formatDeadline = began.Add(b - killReserve(b))
	}
	e.formatFile(ctx)
	e.lintFile(ctx)
	return out
}

// killReserve is the part of a time limit that is reserved for killing a command and
// reading its output.
func killReserve(bound time.Duration) time.Duration { return min(bound/10, 100*time.Millisecond) }

type editing struct {
	ws       *workspace.Workspace
	project  profile.Project
	file     string
	opts     *EditOptions
	out      *Edited
	deadline time.Time

	formatDeadline time.Time
}

func (e *editing) addNote(format string, args ...any) {
	e.out.Notes = append(e.out.Notes, fmt.Sprintf(format, args...))
}

// timeLeft returns the time limit of the next command; false if there is no time.
func timeLeft(deadline time.Time) (time.Duration, bool) {
	d := time.Until(deadline)
	return d, d > 0
}

func (e *editing) formatFile(ctx context.Context) {
	argv, ok := e.project.Format.Expand([]string{e.file})
	if !ok || !takesFiles(e.project.Format) {
		return
	}
	time, ok := timeLeft(e.formatDeadline)
	if !ok {
		e.addNote("format: no time was left for %s; it was not run", argv[0])
		return
	}
	o := &Options{Timeout: time, Files: []string{e.file}, MaxOutput: 16 << 10}
	if e.opts.Check {
		e.checkFormat(ctx, argv, o)
		return
	}
	res, err := Format(ctx, e.ws, e.project, o)
	switch {
	case err != nil:
		e.noteError(ctx, "format", argv[0], err)
	case res.Message != "":
		e.addNote("format: %s: %s", argv[0], res.Message)
	}
	if err == nil && len(res.Changed) > 0 {
		e.out.Formatted, e.out.Diff = true, res.Changed[0].Diff
	}
}

// checkFormat reports what the formatter would change.
func (e *editing) checkFormat(ctx context.Context, argv []string, o *Options) {
	argv, ok := checkArgv(argv)
	if !ok {
		e.addNote("format: %s has no known option to check a file", e.project.Format)
		return
	}
	stdout, stderr := newCapture(o.maxOutput()), newCapture(o.maxOutput())
	j := job{argv: argv, dir: e.project.Format.Dir}
	ran, err := j.run(ctx, e.ws, o, stdout.Add, stderr.Add)
	if err = unsupportedIfMissing(e.ws, argv, ran.Result, stdout, stderr, err); err != nil {
		e.noteError(ctx, "format", argv[0], err)
		return
	}
	text := strings.TrimSpace(stdout.String())
	switch {
	case ran.Cause != "":
		e.addNote("format: %s: %s", argv[0], stoppedText(ran.Cause, o.Timeout))
	case ran.ExitCode == 0 && text == "", ran.ExitCode == 0 && !strings.Contains(argv[0], "gofmt"):
	case text == "" || strings.Contains(stderr.String(), "rror"):
		e.addNote("format: %s: %s", argv[0], truncateEnd(strings.TrimSpace(stderr.String()+"\n"+text), 2<<10))
	default:
		e.out.Unformatted, e.out.Diff = true, text
	}
}

// takesFiles reports whether a command works on single files or packages. A command without
// a placeholder works on the whole project.
func takesFiles(c profile.Command) bool {
	for _, a := range c.Argv {
		if strings.Contains(a, profile.Files) || strings.Contains(a, profile.Packages) {
			return true
		}
	}
	return false
}

func (e *editing) lintFile(ctx context.Context) {
	if e.opts.Server != nil {
		list, warm, err := e.opts.Server.Diagnose(ctx, e.file)
		if err != nil {
			e.noteError(ctx, "diagnostics", "language server", err)
		}
		if warm && err == nil {
			e.out.Diagnostics, e.out.Source = e.ownDiagnostics(list), "language server"
			return
		}
	}
	argv, ok := e.project.Lint.Expand([]string{e.file})
	if !ok {
		return
	}
	if !takesFiles(e.project.Lint) {
		e.addNote("lint: %s works on the whole project only; it was not run", strings.Join(argv, " "))
		return
	}
	time, ok := timeLeft(e.deadline)
	if !ok {
		e.addNote("lint: no time was left for %s; it was not run", argv[0])
		return
	}
	res, err := runLinter(ctx, e.ws, e.project, argv, e.project.Lint.Dir, &Options{Timeout: time, MaxOutput: 16 << 10})
	if err != nil {
		e.noteError(ctx, "lint", argv[0], err)
		return
	}
	e.out.Diagnostics, e.out.Source = e.ownDiagnostics(res.Diagnostics), res.Tool
	switch {
	case res.Cause != "":
		e.addNote("lint: %s: %s", argv[0], stoppedText(res.Cause, time))
	case res.ExitCode != 0 && len(res.Diagnostics) == 0:
		e.addNote("lint: %s: exit status %d: %s", argv[0], res.ExitCode, truncateEnd(strings.TrimSpace(res.Stderr+"\n"+res.Stdout), 2<<10))
	case len(res.Diagnostics) > len(e.out.Diagnostics):
		e.addNote("lint: %d findings in other files of the package", len(res.Diagnostics)-len(e.out.Diagnostics))
	}
}

// ownDiagnostics returns the findings in the edited file.
func (e *editing) ownDiagnostics(list []Diagnostic) []Diagnostic {
	var out []Diagnostic
	for _, d := range list {
		if d.File == e.file {
			out = append(out, d)
		}
	}
	return out
}

func stoppedText(cause driver.Cause, bound time.Duration) string {
	if cause == driver.CauseTimeout || cause == driver.CauseCanceled {
		return fmt.Sprintf("did not end within %v and was stopped", bound.Round(10*time.Millisecond))
	}
	return fmt.Sprintf("was cut short: %s", cause)
}

// noteError records an error. An error after the deadline is reported as a timeout.
func (e *editing) noteError(ctx context.Context, what, tool string, err error) {
	switch {
	case errors.Is(err, fault.Unsupported):
		e.out.Missing = append(e.out.Missing, what+": "+tool)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, fault.DeadlineExceeded):
		e.addNote("%s: %s did not end in time", what, tool)
	case ctx.Err() != nil:
		e.addNote("%s: %s did not end in time: %v", what, tool, err)
	default:
		e.addNote("%s: %s: %v", what, tool, err)
	}
}
