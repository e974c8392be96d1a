package tool

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of watch_process.
const (
	maxPatterns    = 32
	maxIdleSeconds = 3600
)

// defaultPatterns match errors if a call has no error_patterns.
var defaultPatterns = []string{`^Error:`, `^Fatal:`, `^panic:`, `\buncaught\b`, `UnhandledPromiseRejection`}

type watchProcessInput struct {
	Command       string    `json:"command" jsonschema:"bash script to run in the background" croft:"command"`
	Description   string    `json:"description,omitempty" jsonschema:"what it is for, in a few words"`
	ErrorPatterns *[]string `json:"error_patterns,omitempty" jsonschema:"regular expressions; a matching line of standard error is an event; at most 32"`
	IdleTimeout   int       `json:"idle_timeout_seconds,omitempty" jsonschema:"kill it after so many seconds without output; default never, at most 3600"`
}

func watchProcessTool() *Tool {
	return New(Spec{
		Name: "watch_process", Family: Shell, Needs: []workspace.Capability{driver.CapShell}, Destructive: true, OpenWorld: true,
		Description: "Run a command in the background and record when it starts, prints an error, is idle for too long, or exits. watch_process_events shows the events.",
	}, watchProcess)
}

func watchProcess(ctx context.Context, c *Call, in watchProcessInput) (bashOutput, error) {
	if strings.TrimSpace(in.Command) == "" {
		return bashOutput{}, Errorf(fault.InvalidArgument, "command is required")
	}
	idle, err := Seconds("idle_timeout_seconds", in.IdleTimeout, 0, maxIdleSeconds)
	if err != nil {
		return bashOutput{}, err
	}
	patterns, err := compilePatterns(in.ErrorPatterns)
	if err != nil {
		return bashOutput{}, err
	}
	set, err := PerWorkspace(c, func() (*watches, error) { return newWatches(), nil })
	if err != nil {
		return bashOutput{}, err
	}
	out, err := c.startBackground(ctx, in.Command)
	if err != nil {
		return bashOutput{}, err
	}
	s, err := c.Workspace.Attach(ctx, out.ShellID)
	if err != nil {
		return bashOutput{}, err
	}
	set.start(ctx, s, patterns, time.Duration(idle)*time.Second)
	return out, nil
}

func compilePatterns(given *[]string) ([]*regexp.Regexp, error) {
	list := defaultPatterns
	if given != nil {
		list = *given
	}
	if len(list) > maxPatterns {
		return nil, Errorf(fault.InvalidArgument, "too many error_patterns (%d > %d)", len(list), maxPatterns)
	}
	var out []*regexp.Regexp
	for i, p := range list {
		if p == "" {
			return nil, Errorf(fault.InvalidArgument, "error_patterns[%d] is empty", i)
		}
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, Errorf(fault.InvalidArgument, "error_patterns[%d] %q failed to compile: %v", i, p, err)
		}
		out = append(out, re)
	}
	return out, nil
}

type watchEventsInput struct {
	ShellID string `json:"shell_id" jsonschema:"that watch_process returned" croft:"name"`
	Since   int    `json:"since_event_id,omitempty" jsonschema:"only events after this one"`
}

type watchEventsOutput struct {
	bashOutputOutput
	Dropped int `json:"dropped_events,omitempty" jsonschema:"number of earlier events that were dropped"`
}

func (o watchEventsOutput) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "command: %s\nstatus: %s\nstarted: %s\n\n", o.Command, o.statusText(), o.Started)
	if o.Dropped > 0 {
		fmt.Fprintf(&b, "NOTE: %d earlier events dropped (per-shell cap of %d reached)\n", o.Dropped, maxWatchEvents)
	}
	writeEvents(&b, o.Events)
	return b.String()
}

func writeEvents(b *strings.Builder, events []watchEvent) {
	fmt.Fprintf(b, "--- events (%d) ---\n", len(events))
	for _, e := range events {
		fmt.Fprintf(b, "[%d] %s  %s\n", e.ID, e.Time, e.text())
	}
}

// watchOf returns the watch of a command, nil for a command that is not watched.
func (c *Call) watchOf(shellID string) (*watch, error) {
	set, err := PerWorkspace(c, func() (*watches, error) { return newWatches(), nil })
	if err != nil {
		return nil, err
	}
	return set.get(shellID), nil
}

const watchEventsName = "watch_process_events"

func watchEventsTool() *Tool {
	return New(Spec{
		Name: watchEventsName, Family: Shell, Needs: []workspace.Capability{driver.CapShell}, ReadOnly: true, Idempotent: true,
		Description: "Show the events of a command that watch_process started.",
	}, watchEvents)
}

func watchEvents(ctx context.Context, c *Call, in watchEventsInput) (watchEventsOutput, error) {
	if in.ShellID == "" {
		return watchEventsOutput{}, Errorf(fault.InvalidArgument, "shell_id is required")
	}
	_, info, err := c.attachShell(ctx, in.ShellID)
	if err != nil {
		return watchEventsOutput{}, err
	}
	w, err := c.watchOf(in.ShellID)
	if err != nil {
		return watchEventsOutput{}, err
	}
	if w == nil {
		return watchEventsOutput{}, Errorf(fault.NotFound, "shell_id %s was not started by watch_process; use BashOutput instead", in.ShellID)
	}
	out := watchEventsOutput{bashOutputOutput: bashOutputOutput{
		Command: commandText(info), Running: info.Running, Started: info.Started.UTC().Format(time.RFC3339), Streams: []streamPart{},
	}}
	if info.Result != nil {
		out.ExitCode, out.Cause = &info.Result.ExitCode, string(info.Result.Cause)
		w.wait(ctx)
	}
	out.Events, out.Dropped = w.eventsSince(in.Since)
	return out, nil
}
