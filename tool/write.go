package tool

import (
	"bytes"
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type writeInput struct {
	FilePath string `json:"file_path" jsonschema:"path of the file, relative to the workspace or absolute within it" croft:"path"`
	Content  string `json:"content" jsonschema:"the whole new content"`
}

type writeOutput struct {
	Path    string `json:"path"`
	Bytes   int    `json:"bytes"`
	Created bool   `json:"created,omitempty" jsonschema:"the file is new"`
	Digest  string `json:"digest"`
	Notes   string `json:"notes,omitempty" jsonschema:"output of the formatter and the linter"`
}

func (o writeOutput) Text() string {
	return fmt.Sprintf("wrote %d bytes to %s%s", o.Bytes, o.Path, o.Notes)
}

func writeTool() *Tool {
	return New(Spec{
		Name: "Write", Family: Files, Needs: []workspace.Capability{driver.CapFS}, Destructive: true, Idempotent: true,
		Description: "Write a file, and create missing parent directories. An existing file must have been read as a whole, and must be unchanged since.",
	}, writeFile)
}

func writeFile(ctx context.Context, c *Call, in writeInput) (writeOutput, error) {
	if in.FilePath == "" {
		return writeOutput{}, Errorf(fault.InvalidArgument, "file_path is required")
	}
	end, err := c.LockFile(ctx, in.FilePath)
	if err != nil {
		return writeOutput{}, err
	}
	defer end()
	out, err := c.writeSeen(ctx, "overwrite", in.FilePath, []byte(in.Content))
	if err != nil {
		return writeOutput{}, err
	}
	out.Notes += c.AfterEdit(ctx, out.Path)
	out.Path = in.FilePath
	return out, nil
}

// writeSeen creates a file, or replaces one that was read.
func (c *Call) writeSeen(ctx context.Context, verb, name string, content []byte) (writeOutput, error) {
	info, err := c.Workspace.Stat(ctx, name, nil)
	switch {
	case fault.Of(err) == fault.NotFound:
		return c.createFile(ctx, verb, name, content)
	case err != nil:
		return writeOutput{}, PathError("write", name, err)
	case info.Type == driver.TypeDir:
		return writeOutput{}, Errorf(fault.InvalidArgument, "path is a directory: %s", name)
	}
	f, seen, err := c.loadSeen(ctx, verb, name)
	if err != nil {
		return writeOutput{}, err
	}
	if !seen.Whole() {
		gap := seen.Gap()
		return writeOutput{}, Errorf(fault.PermissionDenied, "refusing to %s %s: lines %d-%d were not read; Read them first", verb, name, gap.First, gap.Last)
	}
	content, note := keepLineEnds(f.content, content)
	res, err := c.saveFile(ctx, verb, name, f, content)
	return writeOutput{Path: f.path, Bytes: len(content), Digest: res.Digest, Notes: brokenLinksNote(res) + note}, err
}

// keepLineEnds returns the new content of a file, with CRLF at the ends of its lines if the file has that alone, which Read does not
// show, and the content has no CR. note says so, or that the line ends are others now.
func keepLineEnds(before, after []byte) (content []byte, note string) {
	was, is := lineEnds(before), lineEnds(after)
	switch {
	case was == "" || is == "" || was == is:
		return after, ""
	case was == "CRLF" && !bytes.Contains(after, []byte("\r")):
		return bytes.ReplaceAll(after, []byte("\n"), []byte("\r\n")), "\nnote: the line ends of the file, CRLF, were kept; a command can change them"
	}
	return after, fmt.Sprintf("\nnote: the line ends of the file were %s and are %s now", was, is)
}

// lineEnds returns LF, CRLF or mixed; "" for a text without a line end.
func lineEnds(text []byte) string {
	switch all, windows := bytes.Count(text, []byte("\n")), bytes.Count(text, []byte("\r\n")); {
	case all == 0:
		return ""
	case windows == 0:
		return "LF"
	case windows == all:
		return "CRLF"
	}
	return "mixed"
}

// createFile creates a file.
func (c *Call) createFile(ctx context.Context, verb, name string, content []byte) (writeOutput, error) {
	if err := c.CheckMarks("write", name, nil, content); err != nil {
		return writeOutput{}, err
	}
	res, err := c.Workspace.WriteFile(ctx, name, content, &driver.WriteOptions{CreateOnly: true, Parents: true})
	if fault.Of(err) == fault.AlreadyExists {
		return writeOutput{}, Errorf(fault.PermissionDenied, "refusing to %s %s: Read it first", verb, name)
	}
	if err != nil {
		return writeOutput{}, PathError("write", name, err)
	}
	c.keepBefore(KeptFile{Path: res.Info.Path})
	c.RecordRead(res.Info.Path, content)
	return writeOutput{Path: res.Info.Path, Bytes: len(content), Created: true, Digest: res.Digest}, nil
}
