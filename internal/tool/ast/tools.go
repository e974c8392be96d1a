package ast

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Tools returns the tools of this package. They share one Editor, so that each grammar is
// compiled once per server.
func Tools() []*tool.Tool {
	e := new(Editor)
	return []*tool.Tool{editFunctionBodyTool(e), changeSignatureTool(e), insertAfterMethodTool(e), renameInFileTool(e), editCodeTool(e)}
}

func toolSpec(name, description string) tool.Spec {
	return tool.Spec{
		Name: name, Family: tool.AST, Needs: []workspace.Capability{driver.CapFS}, Destructive: true,
		Description: description + " Works on Go, Python, JavaScript, TypeScript, Rust, Java, C and C++; nothing else in the file changes, and the result must parse. " +
			"The file must have been read before.",
	}
}

// An editOutput is the answer of the tools of this package.
type editOutput struct {
	Path   string `json:"path"`
	Line   int    `json:"line" jsonschema:"where the change begins, counted from 1"`
	Before string `json:"before,omitempty" jsonschema:"the text that was replaced"`
	After  string `json:"after" jsonschema:"the text that is there now"`
	Count  int    `json:"count" jsonschema:"number of places that changed"`
	Digest string `json:"digest" jsonschema:"digest of the whole file after the edit"`

	text string
}

func (o editOutput) Text() string { return o.text }

// editFile edits a file that was read, and describes the change.
func (e *Editor) editFile(ctx context.Context, c *tool.Call, path string, edit func(src []byte) (Change, error)) (editOutput, error) {
	if path == "" {
		return editOutput{}, tool.Errorf(fault.InvalidArgument, "file_path is required")
	}
	info, err := c.Workspace.Stat(ctx, path, nil)
	if err != nil {
		return editOutput{}, tool.PathError(c.Tool, path, err)
	}
	if info.Type == driver.TypeDir {
		return editOutput{}, tool.Errorf(fault.InvalidArgument, "path is a directory: %s", path)
	}
	if _, err := e.languageFor(path); err != nil {
		return editOutput{}, err
	}
	end, err := c.LockFile(ctx, info.Path)
	if err != nil {
		return editOutput{}, err
	}
	defer end()
	seen, ok := c.Seen(info.Path)
	if !ok {
		return editOutput{}, tool.Errorf(fault.WrongState, "refusing to edit %s: Read it first", path)
	}
	c.KeepBefore(ctx, info.Path)
	change, res, err := e.Apply(ctx, c.Workspace, path, func(src []byte) (Change, error) {
		if seen.Digest != driver.DigestBytes(src) {
			return Change{}, tool.Errorf(fault.Conflict, "refusing to edit %s: it changed since it was read; Read it again", path)
		}
		change, err := edit(src)
		if err == nil {
			err = c.CheckMarks("edit", path, src, change.Content)
		}
		return change, err
	})
	if err != nil {
		return editOutput{}, err
	}
	c.RecordRead(info.Path, change.Content, seenAfter(seen, change, res.Digest).Spans...)
	out := editOutput{Path: info.Path, Line: change.Line, Before: change.Before, After: change.After, Count: change.Count, Digest: res.Digest}
	out.text = change.Text(c.Tool, path) + c.AfterEdit(ctx, info.Path)
	return out, nil
}

// seenAfter returns the read state after an edit: what was read before, and the change.
func seenAfter(seen tool.Seen, change Change, digest string) tool.Seen {
	lines := lineAt(change.Content, len(change.Content))
	if n := len(change.Content); n > 0 && change.Content[n-1] == '\n' {
		lines--
	}
	s := tool.Seen{Digest: digest, Lines: lines}
	if seen.Whole() {
		s.Spans = []tool.Span{{First: 1, Last: lines}}
		return s
	}
	grown := lines - seen.Lines
	for _, p := range seen.Spans {
		switch {
		case p.Last < change.Line:
			s.Spans = append(s.Spans, p)
		case p.First <= change.Line:
			s.Spans = append(s.Spans, tool.Span{First: p.First, Last: max(p.Last+grown, change.Line)})
		default:
			s.Spans = append(s.Spans, tool.Span{First: max(p.First+grown, 1), Last: p.Last + grown})
		}
	}
	return s
}

// An argument is a required argument.
type argument struct{ name, value string }

func requireArguments(args ...argument) error {
	for _, a := range args {
		if a.value == "" {
			return tool.Errorf(fault.InvalidArgument, "%s is required", a.name)
		}
	}
	return nil
}

func renamedText(tool, path, from, to string, count int) string {
	return fmt.Sprintf("%s: renamed %s to %s at %d place(s) in %s\n", tool, from, to, count, path)
}
