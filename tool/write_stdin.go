package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of write_stdin.
const (
	defaultYield = 200 * time.Millisecond
	maxYield     = 30 * time.Second
)

type writeStdinInput struct {
	ShellID string `json:"shell_id" jsonschema:"of a command in the background" croft:"name"`
	Chars   string `json:"chars,omitempty" jsonschema:"what to write; nothing only shows what came"`
	Newline bool   `json:"append_newline,omitempty" jsonschema:"end it with a newline"`
	EOF     bool   `json:"eof,omitempty" jsonschema:"end the input after it"`
	YieldMS int    `json:"yield_time_ms,omitempty" jsonschema:"how long to wait for output; default 200, at most 30000"`
}

type stdinOutput struct {
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr,omitempty"`
	Dropped int64  `json:"dropped,omitempty" jsonschema:"bytes that are left out; BashOutput has them"`
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
		Description: "Write to the standard input of a command in the background, and show what it wrote since the last time.",
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
	return pollOutput(ctx, s, yield)
}

// sendInput writes to the standard input of a command, and ends it where asked to.
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

// pollOutput collects what a command writes until yield has passed or it has ended.
func pollOutput(ctx context.Context, s *workspace.Session, yield time.Duration) (stdinOutput, error) {
	wait, cancel := context.WithTimeout(ctx, yield)
	defer cancel()
	if _, err := s.Wait(wait); err != nil && ctx.Err() != nil {
		return stdinOutput{}, ctx.Err()
	}
	p, err := s.Poll(ctx, maxBashOutput)
	if err != nil {
		return stdinOutput{}, err
	}
	return stdinOutput{Stdout: string(p.Stdout), Stderr: string(p.Stderr), Dropped: p.Dropped, Running: p.Running}, nil
}
