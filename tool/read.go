package tool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strconv"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of Read.
const (
	defaultReadLines = 2000
	maxReadText      = 8 << 20 // bytes of one answer; what follows is read with an offset
	binaryLook       = 8 << 10 // bytes in which a NUL makes a file binary
)

type readInput struct {
	FilePath string `json:"file_path" jsonschema:"path of the file, relative to the workspace or absolute within it"`
	Offset   int    `json:"offset,omitempty" jsonschema:"first line, counted from 1; default 1"`
	Limit    int    `json:"limit,omitempty" jsonschema:"how many lines; default 2000"`
}

type readOutput struct {
	Path       string `json:"path"`
	Content    string `json:"content" jsonschema:"each line with its number and a tab before it"`
	Lines      int    `json:"lines" jsonschema:"lines of the file"`
	NextOffset int    `json:"next_offset,omitempty" jsonschema:"first line that was not shown, where there are more"`
	Digest     string `json:"digest" jsonschema:"of the whole file"`
}

func (o readOutput) Text() string {
	if o.NextOffset == 0 {
		return o.Content
	}
	return o.Content + fmt.Sprintf("... (%d more lines; Read with offset=%d shows them)\n", o.Lines-o.NextOffset+1, o.NextOffset)
}

func readTool() *Tool {
	return New(Spec{
		Name: "Read", Family: Files, Needs: []workspace.Capability{driver.CapFS}, ReadOnly: true, Idempotent: true,
		Description: "Read a file of the workspace. Each line is shown with its number and a tab before it. " +
			"A file must have been read before Edit or Write may change it.",
	}, read)
}

func read(ctx context.Context, c *Call, in readInput) (readOutput, error) {
	if in.FilePath == "" {
		return readOutput{}, Errorf(fault.InvalidArgument, "file_path is required")
	}
	w := window{first: max(in.Offset, 1), count: in.Limit, numbered: true}
	if w.count <= 0 {
		w.count = defaultReadLines
	}
	return c.show(ctx, in.FilePath, w)
}

// show reads a window of a file's lines and notes that they were seen.
func (c *Call) show(ctx context.Context, name string, w window) (readOutput, error) {
	body, info, err := c.Workspace.Read(ctx, name, nil)
	if err != nil {
		return readOutput{}, c.fileError(ctx, "read", name, err)
	}
	defer body.Close()
	h := driver.NewDigest()
	if err := w.scan(io.TeeReader(body, h)); err != nil {
		if errors.Is(err, errBinary) {
			return readOutput{}, Errorf(fault.InvalidArgument, "read: %s is a binary file (%d bytes)", name, info.Size)
		}
		return readOutput{}, fmt.Errorf("read: %w", err)
	}
	if w.first > max(w.lines, 1) {
		return readOutput{}, Errorf(fault.InvalidArgument, "read: offset %d exceeds line count %d", w.first, w.lines)
	}
	out := readOutput{Path: info.Path, Content: w.text.String(), Lines: w.lines, Digest: driver.SumDigest(h)}
	if w.shown < w.lines {
		out.NextOffset = w.shown + 1
	}
	c.mark(info.Path, out.Digest, w.marks, Span{w.first, w.shown})
	return out, nil
}

// fileError is PathError for a file that could not be opened: it tells a
// directory from other trouble.
func (c *Call) fileError(ctx context.Context, verb, name string, err error) error {
	if code := fault.Of(err); code != fault.NotFound && code != fault.SandboxViolation {
		if info, serr := c.Workspace.Stat(ctx, name, nil); serr == nil && info.Type == driver.TypeDir {
			return Errorf(fault.InvalidArgument, "path is a directory: %s", name)
		}
	}
	return PathError(verb, name, err)
}

var errBinary = errors.New("binary")

// A window collects some lines of a file and counts all of them.
type window struct {
	first, count int
	numbered     bool

	text  bytes.Buffer
	lines int // of the file
	shown int // the last line in text; first-1 is none
	marks []uint32
	hash  maphash.Hash
}

// scan reads all of r.
func (w *window) scan(r io.Reader) error {
	w.shown = w.first - 1
	w.hash.SetSeed(seed)
	br := bufio.NewReaderSize(r, 64<<10)
	start, err := br.Peek(binaryLook)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.IndexByte(start, 0) >= 0 {
		return errBinary
	}
	for inLine := false; ; {
		part, err := br.ReadSlice('\n')
		if len(part) > 0 {
			if !inLine {
				w.lines++
			}
			w.add(part, !inLine)
			w.hash.Write(part)
			if inLine = part[len(part)-1] != '\n'; !inLine {
				w.endMark()
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if inLine {
				w.end()
				w.endMark()
			}
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// add takes a part of the present line. What would make the text too long ends
// the window, unless it is the window's only line.
func (w *window) add(part []byte, first bool) {
	if w.lines < w.first || w.lines >= w.first+w.count {
		return
	}
	if first {
		if w.shown != w.lines-1 {
			return
		}
		if w.text.Len() > maxReadText {
			return
		}
		w.shown = w.lines
		if w.numbered {
			w.text.WriteString(strconv.Itoa(w.lines))
			w.text.WriteByte('\t')
		}
	}
	if w.shown != w.lines {
		return
	}
	if n := len(part); n > 0 && part[n-1] == '\n' && w.numbered {
		part = bytes.TrimSuffix(part[:n-1], []byte("\r"))
		w.text.Write(part)
		w.end()
		return
	}
	w.text.Write(part)
}

// endMark notes the mark of the line that ends.
func (w *window) endMark() {
	w.marks = append(w.marks, uint32(w.hash.Sum64()))
	w.hash.Reset()
}

// end ends a line of the text.
func (w *window) end() {
	if w.numbered && w.shown == w.lines {
		w.text.WriteByte('\n')
	}
}
