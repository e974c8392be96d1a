package tool

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/plaintext"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of write_stdin.
const (
	defaultYield = 200 * time.Millisecond
	maxYield     = 30 * time.Second
)

type writeStdinInput struct {
	ShellID string `json:"shell_id" jsonschema:"id of a background command" croft:"name"`
	Chars   string `json:"chars,omitempty" jsonschema:"text to write; empty only shows new output"`
	Newline bool   `json:"append_newline,omitempty" jsonschema:"append a newline"`
	EOF     bool   `json:"eof,omitempty" jsonschema:"close standard input afterwards"`
	YieldMS int    `json:"yield_time_ms,omitempty" jsonschema:"how long to wait for output; default 200, at most 30000"`
}

type stdinOutput struct {
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr,omitempty"`
	Dropped int64  `json:"dropped,omitempty" jsonschema:"bytes that were dropped; BashOutput reads them"`
	Running bool   `json:"running"`
}

func (o stdinOutput) Text() string {
	text := o.Stdout
	if o.Stderr != "" {
		text += "--- stderr ---\n" + o.Stderr
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if o.Dropped > 0 {
		text += fmt.Sprintf("... (%d bytes elided; BashOutput reads them)\n", o.Dropped)
	}
	if !o.Running {
		text += "(it has ended)\n"
	}
	return text
}

func writeStdinTool() *Tool {
	return New(Spec{
		Name: "write_stdin", Family: Shell, Needs: []workspace.Capability{driver.CapShell}, Destructive: true, OpenWorld: true,
		Description: "Write to the standard input of a background command, and show its output since the last call.",
	}, writeStdin)
}

func writeStdin(ctx context.Context, c *Call, in writeStdinInput) (stdinOutput, error) {
	if in.ShellID == "" {
		return stdinOutput{}, Errorf(fault.InvalidArgument, "shell_id is required")
	}
	yield := defaultYield
	if in.YieldMS != 0 {
		yield = time.Duration(in.YieldMS) * time.Millisecond
	}
	if yield < 0 || yield > maxYield {
		return stdinOutput{}, Errorf(fault.InvalidArgument, "yield_time_ms must be between 1 and %d", maxYield.Milliseconds())
	}
	s, _, err := c.attachShell(ctx, in.ShellID)
	if err != nil {
		return stdinOutput{}, err
	}
	if err := sendInput(ctx, s, in.Chars, in.Newline, in.EOF); err != nil {
		return stdinOutput{}, fmt.Errorf("write_stdin: %w", err)
	}
	return pollOutput(ctx, c, s, yield)
}

// sendInput writes to the standard input of a command and closes it if eof is set.
func sendInput(ctx context.Context, s *workspace.Session, chars string, newline, eof bool) error {
	if newline {
		chars += "\n"
	}
	if chars != "" {
		if err := s.Write(ctx, []byte(chars)); err != nil {
			return err
		}
	}
	if eof {
		return s.CloseStdin(ctx)
	}
	return nil
}

// pollOutput waits until the command exits, at most for yield, and returns its new output.
func pollOutput(ctx context.Context, c *Call, s *workspace.Session, yield time.Duration) (stdinOutput, error) {
	wait, cancel := context.WithTimeout(ctx, yield)
	defer cancel()
	if _, err := s.Wait(wait); err != nil && ctx.Err() != nil {
		return stdinOutput{}, ctx.Err()
	}
	polled, err := PerWorkspace(c, func() (*polledOutputs, error) { return &polledOutputs{last: map[string]*polledOutput{}}, nil })
	if err != nil {
		return stdinOutput{}, err
	}
	polled.mu.Lock()
	defer polled.mu.Unlock()
	p, err := s.Poll(ctx, maxBashOutput)
	if err != nil {
		return stdinOutput{}, err
	}
	last := polled.last[s.ID()]
	if last == nil {
		last = &polledOutput{}
		polled.last[s.ID()] = last
	}
	if !p.Running {
		delete(polled.last, s.ID())
	}
	out := stdinOutput{Dropped: p.Dropped, Running: p.Running}
	out.Stdout = plaintext.Clean(last.stdout.next(c.scrub, p.Stdout, p.Running))
	out.Stderr = plaintext.Clean(last.stderr.next(c.scrub, p.Stderr, p.Running))
	return out, nil
}

// polledOutputs has the last output of each session, for secrets that arrive in two answers.
type polledOutputs struct {
	mu   sync.Mutex
	last map[string]*polledOutput // guarded by mu; by id of the session
}

type polledOutput struct{ stdout, stderr polledStream }

// A polledStream is the end of a stream: what answers have shown, and what they held back.
type polledStream struct {
	data    []byte
	pending int // bytes at the end of data
}

// next returns the scrubbed output to show after more has arrived. While the command runs, a
// possible beginning of a secret is held back.
func (s *polledStream) next(scrub *secret.Scrubber, more []byte, running bool) string {
	if scrub == nil {
		return string(more)
	}
	from := len(s.data) - s.pending
	s.data = append(s.data, more...)
	if s.pending = 0; running {
		s.pending = min(scrub.Undecided(s.data), len(s.data)-from)
	}
	text := string(scrub.Part(s.data, from, len(s.data)-s.pending))
	s.data = bytes.Clone(s.data[max(0, len(s.data)-s.pending-pollMargin):])
	return text
}

// pollMargin is how much of an output that was shown is searched for the beginning of a
// secret that goes on.
const pollMargin = 4 << 10
