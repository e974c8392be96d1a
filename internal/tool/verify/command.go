package verify

import (
	"context"
	"time"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A Run is the result of a command whose output is not parsed.
type Run struct {
	Command  []string      `json:"command"`
	Dir      string        `json:"dir"`
	ExitCode int           `json:"exitCode"`
	Cause    driver.Cause  `json:"cause,omitempty"`
	Duration time.Duration `json:"duration"`
	Notes    []string      `json:"notes,omitempty"` // what a failed command lacked
	Output
}

// Command runs a command of a project, such as a script.
func Command(ctx context.Context, ws *workspace.Workspace, argv []string, dir string, opts *Options) (*Run, error) {
	o := opts.orZero()
	out := &Run{Command: argv, Dir: dir}
	stdout, stderr := newCapture(o.maxOutput()), newCapture(o.maxOutput())
	show := lineWriter{limit: 1 << 20, each: func(line []byte) {
		if o.Progress != nil {
			o.Progress(Progress{Line: plainText(string(line))})
		}
	}}
	j := job{argv: argv, dir: dir}
	began := time.Now()
	ran, err := j.run(ctx, ws, o, func(b []byte) { stdout.Add(b); show.write(b) }, stderr.Add)
	show.flush()
	if err = unsupportedIfMissing(ws, argv, ran.Result, stdout, stderr, err); err != nil {
		return nil, err
	}
	out.ExitCode, out.Cause, out.Duration = ran.ExitCode, ran.Cause, time.Since(began)
	out.Stdout, out.Stderr = stdout.String(), stderr.String()
	if out.ExitCode != 0 || out.Cause != "" {
		out.Notes = Hints(ws, ran.Refused, out.Stdout+"\n"+out.Stderr)
	}
	if out.Dropped = stdout.dropped() + stderr.dropped(); out.Dropped > 0 {
		out.Session = ran.Session
	}
	return out, nil
}
