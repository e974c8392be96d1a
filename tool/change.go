package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// maxEditSize is the size of the largest file that can be edited as text.
const maxEditSize = 64 << 20

// A file is a file of the workspace with its content.
type file struct {
	path    string // as Info.Path has it
	content []byte
	digest  string
	mode    fs.FileMode
}

// loadFile reads a whole file. verb is for error texts.
func (c *Call) loadFile(ctx context.Context, verb, name string) (file, error) {
	body, info, err := c.Workspace.Read(ctx, name, nil)
	if err != nil {
		return file{}, c.fileError(ctx, verb, name, err)
	}
	defer body.Close()
	if info.Size > maxEditSize {
		return file{}, Errorf(fault.ResourceExhausted, "%s: %s has %d bytes; at most %d can be edited as text", verb, name, info.Size, maxEditSize)
	}
	data, err := readAll(body, info.Size)
	if err != nil {
		return file{}, fmt.Errorf("%s: %w", verb, err)
	}
	return file{path: info.Path, content: data, digest: driver.DigestBytes(data), mode: info.Mode}, nil
}

// readAll reads a file that had size bytes when it was opened.
func readAll(body io.Reader, size int64) ([]byte, error) {
	data := make([]byte, 0, size+1) // one more shows the end
	for len(data) <= maxEditSize {
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, len(data))
		}
	}
	return data, nil
}

// loadSeen is loadFile for a file that is to be changed: the agent must have read it, and
// it must be unchanged since.
func (c *Call) loadSeen(ctx context.Context, verb, name string) (file, Seen, error) {
	f, err := c.loadFile(ctx, verb, name)
	if err != nil {
		return file{}, Seen{}, err
	}
	seen, ok := c.Seen(f.path)
	if !ok {
		return file{}, Seen{}, Errorf(fault.PermissionDenied, "refusing to %s %s: Read it first", verb, name)
	}
	if seen.Digest != f.digest {
		return file{}, Seen{}, c.staleError(verb, name, seen, f.content)
	}
	return f, seen, nil
}

// CheckSeen returns an error unless the agent has read a file and the file is unchanged
// since. verb is for the error: "refusing to <verb> <path>: Read it first".
func (c *Call) CheckSeen(ctx context.Context, verb, path string) error {
	_, _, err := c.loadSeen(ctx, verb, path)
	return err
}

// maxHintLines is the number of changed lines that an error shows.
const maxHintLines = 20

// staleError is the error for a file that has changed since it was read. It shows the lines
// that are there now.
func (c *Call) staleError(verb, name string, seen Seen, content []byte) error {
	marks := hashLines(content)
	span := seen.changedSpan(marks)
	var b strings.Builder
	fmt.Fprintf(&b, "refusing to %s %s: it changed since it was read; Read it again\n", verb, name)
	if seen.lineHashes == nil && seen.Lines > 0 || marks == nil { // there are too many lines to say which
		return &textError{text: b.String(), code: fault.Conflict}
	}
	if span.Last < span.First {
		fmt.Fprintf(&b, "--- lines are missing now at line %d ---\n", span.First)
		return &textError{text: b.String(), code: fault.Conflict}
	}
	c.LearnSecrets(content)
	fmt.Fprintf(&b, "--- lines %d-%d now ---\n", span.First, span.Last)
	n := 0
	for line := range bytes.Lines(content) {
		n++
		if n < span.First {
			continue
		}
		if n > span.Last || n-span.First >= maxHintLines {
			break
		}
		fmt.Fprintf(&b, "%d\t%s\n", n, bytes.TrimRight(line, "\r\n"))
	}
	if more := span.Last - span.First + 1 - maxHintLines; more > 0 {
		fmt.Fprintf(&b, "... (%d more lines)\n", more)
	}
	return &textError{text: b.String(), code: fault.Conflict}
}

// saveFile writes the new content of a loaded file, if the file is unchanged since, and
// records what the agent has read of it.
func (c *Call) saveFile(ctx context.Context, verb, name string, f file, content []byte, spans ...Span) (workspace.WriteResult, error) {
	if err := c.CheckMarks(verb, name, f.content, content); err != nil {
		return workspace.WriteResult{}, err
	}
	c.keepBefore(KeptFile{Path: f.path, Exists: true, Content: f.content, Mode: f.mode})
	res, err := c.Workspace.WriteFile(ctx, f.path, content, &driver.WriteOptions{IfMatch: f.digest})
	if fault.Of(err) == fault.Conflict {
		now, lerr := c.loadFile(ctx, verb, name)
		if lerr != nil {
			return res, lerr
		}
		return res, c.staleError(verb, name, Seen{Lines: countLines(f.content), lineHashes: hashLines(f.content)}, now.content)
	}
	if err != nil {
		return res, PathError(verb, name, err)
	}
	c.RecordRead(f.path, content, spans...)
	return res, nil
}

// brokenLinksNote returns a note if other hard links of the file keep the old content.
func brokenLinksNote(res workspace.WriteResult) string {
	if !res.BrokeLinks {
		return ""
	}
	return "\nnote: the file had other hard links, which keep the old content"
}
