package tool

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/plaintext"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of BashOutput.
const (
	maxStreamShown = 256 << 10 // bytes of each stream without an offset
	maxLogLimit    = 1 << 20
)

type bashOutputInput struct {
	ShellID string `json:"shell_id" jsonschema:"id of a background command or of truncated output" croft:"name"`
	Stream  string `json:"stream,omitempty" jsonschema:"with offset; default stdout" enum:"stdout|stderr"`
	Offset  *int64 `json:"offset,omitempty" jsonschema:"read one stream from this byte on; default both streams, head and tail of long ones"`
	Limit   int64  `json:"limit,omitempty" jsonschema:"with offset: how many bytes; default and at most what an answer may have"`
}

type bashOutputOutput struct {
	Command  string       `json:"command,omitempty"`
	Running  bool         `json:"running"`
	ExitCode *int         `json:"exit_code,omitempty" jsonschema:"once it has ended"`
	Cause    string       `json:"cause,omitempty" jsonschema:"why it was ended, if it did not exit by itself"`
	Started  string       `json:"started,omitempty"`
	Streams  []streamPart `json:"streams"`
	Events   []watchEvent `json:"events,omitempty" jsonschema:"of a command with error_patterns or idle_timeout_seconds"`

	part bool
}

type streamPart struct {
	Stream  string `json:"stream"`
	Data    string `json:"data"`
	Size    int64  `json:"size" jsonschema:"bytes of the stream so far"`
	Offset  int64  `json:"offset" jsonschema:"of the first byte of data"`
	Next    int64  `json:"next_offset" jsonschema:"of the first byte after data"`
	Dropped int64  `json:"dropped,omitempty" jsonschema:"bytes dropped between head and tail"`
}

func (o bashOutputOutput) Text() string {
	var b strings.Builder
	if o.part {
		p := o.Streams[0]
		b.WriteString(p.Data)
		if p.Next < p.Size {
			fmt.Fprintf(&b, "\n... (%d more bytes; offset %d reads on)\n", p.Size-p.Next, p.Next)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "command: %s\nstatus: %s\nstarted: %s\n\n", o.Command, o.statusText(), o.Started)
	for _, p := range o.Streams {
		mark := ""
		if p.Dropped > 0 {
			mark = " [TRUNCATED]"
		}
		fmt.Fprintf(&b, "--- %s (%d bytes)%s ---\n%s", p.Stream, p.Size, mark, p.Data)
		if p.Data != "" && !strings.HasSuffix(p.Data, "\n") {
			b.WriteByte('\n')
		}
	}
	if len(o.Events) > 0 {
		writeEvents(&b, o.Events)
	}
	return b.String()
}

func (o bashOutputOutput) statusText() string {
	if o.Running {
		return "running"
	}
	if o.Cause != "" {
		return fmt.Sprintf("completed (exit %d, %s)", *o.ExitCode, o.Cause)
	}
	return fmt.Sprintf("completed (exit %d)", *o.ExitCode)
}

func bashOutputTool() *Tool {
	return New(Spec{
		Name: "BashOutput", Family: Shell, Needs: []workspace.Capability{driver.CapShell}, ReadOnly: true, Idempotent: true,
		Description: "Show the output of a background command so far or, with an offset, any part of an output.",
	}, showOutput)
}

func showOutput(ctx context.Context, c *Call, in bashOutputInput) (bashOutputOutput, error) {
	if in.ShellID == "" {
		return bashOutputOutput{}, Errorf(fault.InvalidArgument, "shell_id is required")
	}
	if in.Stream == "" {
		in.Stream = string(driver.Stdout)
	}
	most := int64(min(c.room(logNote), maxLogLimit))
	if in.Limit == 0 {
		in.Limit = most
	}
	switch {
	case in.Stream != string(driver.Stdout) && in.Stream != string(driver.Stderr):
		return bashOutputOutput{}, Errorf(fault.InvalidArgument, "stream must be stdout or stderr")
	case in.Limit < 0:
		return bashOutputOutput{}, Errorf(fault.InvalidArgument, "limit must be between 1 and %d", maxLogLimit)
	case in.Offset != nil && *in.Offset < 0:
		return bashOutputOutput{}, Errorf(fault.InvalidArgument, "offset must not be negative")
	}
	in.Limit = min(in.Limit, most)
	if strings.HasPrefix(in.ShellID, handlePrefix) {
		return c.readKeptText(ctx, in)
	}
	s, info, err := c.attachShell(ctx, in.ShellID)
	if err != nil {
		return bashOutputOutput{}, err
	}
	out := bashOutputOutput{Command: commandText(info), Running: info.Running, Started: info.Started.UTC().Format(time.RFC3339)}
	if info.Result != nil {
		out.ExitCode, out.Cause = &info.Result.ExitCode, string(info.Result.Cause)
	}
	if in.Offset != nil {
		p, err := c.readLog(ctx, s, driver.Stream(in.Stream), *in.Offset, in.Limit, info.Running)
		p.Data = plaintext.Clean(p.Data)
		out.Streams, out.part = []streamPart{p}, true
		return out, err
	}
	for _, stream := range []driver.Stream{driver.Stdout, driver.Stderr} {
		p, err := c.headTailLog(ctx, s, stream, info.Running)
		if err != nil {
			return out, err
		}
		p.Data = plaintext.Clean(p.Data)
		out.Streams = append(out.Streams, p)
	}
	w, err := c.watchOf(in.ShellID)
	if w != nil {
		if !info.Running {
			w.wait(ctx)
		}
		out.Events, _ = w.eventsSince(0)
	}
	return out, err
}

// logNote is room in an answer for its note about the rest.
const logNote = 200

// readKeptText reads a part of a truncated answer.
func (c *Call) readKeptText(ctx context.Context, in bashOutputInput) (bashOutputOutput, error) {
	text, err := c.Env.Kept(ctx, c.only, in.ShellID)
	if err != nil {
		return bashOutputOutput{}, Errorf(fault.NotFound, "unknown shell_id: %s", in.ShellID)
	}
	off := int64(0)
	if in.Offset != nil {
		off = min(*in.Offset, int64(len(text)))
	}
	end := lineEnd(text, off, min(off+in.Limit, int64(len(text))))
	p := streamPart{Stream: string(driver.Stdout), Data: text[off:end], Size: int64(len(text)), Offset: off, Next: end}
	zero := 0
	return bashOutputOutput{Streams: []streamPart{p}, ExitCode: &zero, part: true}, nil
}

// lineEnd moves the end of a part of text, which begins at off, back to the end of a line.
func lineEnd(text string, off, end int64) int64 {
	if end == int64(len(text)) {
		return end
	}
	if i := strings.LastIndexByte(text[off:end], '\n'); i >= 0 {
		return off + int64(i) + 1
	}
	for end > off && !utf8.RuneStart(text[end]) {
		end--
	}
	return end
}

// attachShell returns the session with an id.
func (c *Call) attachShell(ctx context.Context, id string) (*workspace.Session, workspace.SessionInfo, error) {
	s, err := c.Workspace.Attach(ctx, id)
	if err == nil {
		var info workspace.SessionInfo
		if info, err = s.State(ctx); err == nil {
			return s, info, nil
		}
	}
	if fault.Of(err) == fault.NotFound || fault.Of(err) == fault.InvalidArgument {
		return nil, workspace.SessionInfo{}, Errorf(fault.NotFound, "unknown shell_id: %s", id)
	}
	return nil, workspace.SessionInfo{}, err
}

func commandText(info workspace.SessionInfo) string {
	if info.Script != "" {
		return strings.TrimPrefix(info.Script, "exec 2>&1; ")
	}
	return strings.Join(info.Argv, " ")
}

// logMargin is how much of a log before and after a part is searched for secrets of which
// the part has a piece.
const logMargin = 64 << 10

// readLog reads at most limit bytes of a log, from offset on, scrubbed. While the command is
// running, a possible beginning of a secret at the end is left for the next call.
func (c *Call) readLog(ctx context.Context, s *workspace.Session, stream driver.Stream, offset, limit int64, running bool) (streamPart, error) {
	p := streamPart{Stream: string(stream), Offset: offset, Next: offset}
	margin := int64(logMargin)
	if c.scrub == nil {
		margin = 0
	}
	var data []byte
	first, next := int64(0), max(0, offset-margin)
	for next < offset+limit+margin {
		chunk, err := s.Log(ctx, stream, next, offset+limit+margin-next)
		if err != nil {
			return p, err
		}
		p.Size = chunk.Size
		if chunk.Offset > next && next <= offset {
			data = data[:0] // what was before is dropped
		}
		if len(data) == 0 {
			first = chunk.Offset
		}
		if len(chunk.Data) == 0 || chunk.Offset > first+int64(len(data)) {
			break
		}
		data, next = append(data, chunk.Data...), chunk.Next
	}
	// The log may begin after the offset, if it was too long, or end before it.
	end := first + int64(len(data))
	p.Offset = min(max(offset, first), max(offset, end))
	p.Next = max(p.Offset, min(p.Offset+limit, end))
	if running && p.Next == end { // the rest of a secret may follow
		p.Next = max(p.Offset, end-int64(c.scrub.Undecided(data)))
	}
	if from := p.Offset - first; from < int64(len(data)) {
		p.Data = string(c.scrub.Part(data, int(from), int(p.Next-first)))
	}
	return p, nil
}

// headTailLog reads a whole log or, if it is long, its head and tail.
func (c *Call) headTailLog(ctx context.Context, s *workspace.Session, stream driver.Stream, running bool) (streamPart, error) {
	half := int64(min(maxStreamShown, c.room(4*logNote)/2) / 2)
	p, err := c.readLog(ctx, s, stream, 0, half, running)
	if err != nil || p.Next >= p.Size {
		return p, err
	}
	tail, err := c.readLog(ctx, s, stream, max(p.Next, p.Size-half), half, running)
	if err != nil {
		return p, err
	}
	if p.Dropped = tail.Offset - p.Next; p.Dropped > 0 {
		p.Data += fmt.Sprintf("\n... (output truncated, %d bytes elided; offset %d reads them)\n", p.Dropped, p.Next)
	}
	if p.Data += tail.Data; p.Dropped > 0 {
		p.Data += elidedNote(tail.Data, int(p.Dropped), fmt.Sprintf("; offset %d reads them", p.Next))
	}
	p.Next, p.Size = tail.Next, max(p.Size, tail.Size)
	return p, nil
}
