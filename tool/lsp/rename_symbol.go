package lsp

import (
	"context"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/textdiff"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace/driver"
)

type renameInput struct {
	FilePath string `json:"file_path" jsonschema:"path of the file" croft:"path"`
	Line     int    `json:"line" jsonschema:"line, counted from 1"`
	Col      int    `json:"col" jsonschema:"column, counted in characters from 1"`
	NewName  string `json:"new_name" jsonschema:"the new name"`
	Apply    bool   `json:"apply,omitempty" jsonschema:"write the change to all files, or to none if one can't be written; default is only to show it"`
}

type renameFile struct {
	Path  string `json:"path"`
	Edits int    `json:"edits"`
	Diff  string `json:"diff"`
}

type renameOutput struct {
	Files   []renameFile `json:"files"`
	Applied bool         `json:"applied"`

	text string
}

func (o renameOutput) Text() string { return o.text }

func renameSymbolTool() *tool.Tool {
	spec := toolSpec("rename_symbol", "Rename the symbol at a position in the whole project. Shows the diff; with apply it is written, all files or none. The file must have been read before.")
	spec.ReadOnly, spec.Idempotent, spec.Destructive = false, false, true
	return tool.New(spec, renameSymbol)
}

func renameSymbol(ctx context.Context, c *tool.Call, in renameInput) (renameOutput, error) {
	at := position{in.FilePath, in.Line, in.Col}
	name, err := at.resolveFile(ctx, c)
	if err != nil {
		return renameOutput{}, err
	}
	if strings.TrimSpace(in.NewName) == "" {
		return renameOutput{}, tool.Errorf(fault.InvalidArgument, "new_name is required")
	}
	if err := c.CheckSeen(ctx, "rename from", in.FilePath); err != nil {
		return renameOutput{}, err
	}
	s, err := serversOf(c)
	if err != nil {
		return renameOutput{}, err
	}
	list, err := s.Rename(ctx, name, in.Line, in.Col, in.NewName)
	if err != nil {
		return renameOutput{}, err
	}
	out := renameOutput{Files: []renameFile{}}
	if len(list) == 0 {
		out.text = "no rename available at " + at.String()
		return out, nil
	}
	for _, f := range list {
		out.Files = append(out.Files, renameFile{f.Path, f.Edits, textdiff.Unified(f.Path, f.Before, f.After, 0)})
	}
	note := ""
	if in.Apply {
		if note, err = s.applyRename(ctx, c, list); err != nil {
			return renameOutput{}, err
		}
		out.Applied = true
	}
	out.text = out.describe(in.NewName) + note
	return out, nil
}

// applyRename applies a rename and records the new content as read.
func (s *Set) applyRename(ctx context.Context, c *tool.Call, list []FileEdit) (string, error) {
	var names []string
	for _, f := range list {
		names = append(names, f.Path)
	}
	end, err := c.LockFiles(ctx, names...)
	if err != nil {
		return "", err
	}
	defer end()
	c.KeepBefore(ctx, names...)
	if _, err := s.Apply(ctx, list); err != nil {
		return "", err
	}
	for _, f := range list {
		seen, ok := c.Seen(f.Path)
		if ok && seen.Digest == driver.DigestBytes(f.Before) && sameLines(f) {
			c.RecordRead(f.Path, f.After, seen.Spans...)
		}
	}
	return c.AfterEdit(ctx, names...), nil
}

func sameLines(f FileEdit) bool {
	return strings.Count(string(f.Before), "\n") == strings.Count(string(f.After), "\n")
}

func (o renameOutput) describe(newName string) string {
	var b strings.Builder
	would, next := "would touch", "Review the diff below; apply via Edit once approved, or call again with apply=true:"
	if o.Applied {
		would, next = "touched", "All files were written:"
	}
	fmt.Fprintf(&b, "Rename → %q %s %d file(s):\n", newName, would, len(o.Files))
	for _, f := range o.Files {
		fmt.Fprintf(&b, "  - %s (%d edit(s))\n", f.Path, f.Edits)
	}
	fmt.Fprintf(&b, "\n%s\n\n", next)
	for _, f := range o.Files {
		b.WriteString(f.Diff)
	}
	return b.String()
}
