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
	FilePath string `json:"file_path,omitempty" jsonschema:"path of the file; with name it may be left out" croft:"path"`
	Line     int    `json:"line,omitempty" jsonschema:"line, counted from 1"`
	Col      int    `json:"col,omitempty" jsonschema:"column, counted in characters from 1"`
	Name     string `json:"name,omitempty" jsonschema:"the symbol's name, or CONTAINER.NAME, instead of line and col" croft:"name"`
	NewName  string `json:"new_name" jsonschema:"the new name"`
	Apply    bool   `json:"apply,omitempty" jsonschema:"write the change to all files, or to none if one can't be written; default is only to show it"`
}

type renameFile struct {
	Path  string `json:"path"`
	Edits int    `json:"edits"`
	Diff  string `json:"diff,omitempty" jsonschema:"left out if the diffs together are too long"`
}

type renameOutput struct {
	Files   []renameFile `json:"files"`
	Applied bool         `json:"applied"`
	Also    *Mentions    `json:"also,omitempty" jsonschema:"where the old name is a text and was not changed"`

	text string
}

func (o renameOutput) Text() string { return o.text }

func renameSymbolTool() *tool.Tool {
	spec := toolSpec("rename_symbol", "Rename a symbol, given by name or at a position, in all files that its language server knows. "+
		"Shows the diff; with apply it is written, all files or none. Says where else the old name is a text. The file must have been read before.")
	spec.ReadOnly, spec.Idempotent, spec.Destructive = false, false, true
	return tool.New(spec, renameSymbol)
}

func renameSymbol(ctx context.Context, c *tool.Call, in renameInput) (renameOutput, error) {
	if strings.TrimSpace(in.NewName) == "" {
		return renameOutput{}, tool.Errorf(fault.InvalidArgument, "new_name is required")
	}
	s, err := serversOf(c)
	if err != nil {
		return renameOutput{}, err
	}
	at, err := s.resolve(ctx, c, position{in.FilePath, in.Line, in.Col, in.Name})
	if err != nil {
		return renameOutput{}, err
	}
	if err := c.CheckSeen(ctx, "rename from", at.FilePath); err != nil {
		return renameOutput{}, err
	}
	list, also, err := s.Rename(ctx, at.FilePath, at.Line, at.Col, in.NewName)
	if err != nil {
		return renameOutput{}, err
	}
	out := renameOutput{Files: []renameFile{}, Also: also}
	room := shownDiff
	if in.Apply {
		room = shownAppliedDiff
	}
	for _, f := range list {
		c.LearnSecrets(f.Before)
		diff := textdiff.Unified(f.Path, f.Before, f.After, 0)
		if room -= len(diff); room < 0 {
			diff = ""
		}
		out.Files = append(out.Files, renameFile{f.Path, f.Edits, diff})
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

// Bounds of the diffs in an answer, in bytes.
const (
	shownDiff        = 20 << 10
	shownAppliedDiff = 2 << 10
)

func (o renameOutput) describe(newName string) string {
	var b strings.Builder
	would, next, left := "would touch", "Nothing is written yet; with apply=true it is:", "would not change"
	if o.Applied {
		would, next, left = "touched", "These files were written:", "were not changed"
	}
	fmt.Fprintf(&b, "Rename → %q %s %d file(s):\n", newName, would, len(o.Files))
	for _, f := range o.Files {
		fmt.Fprintf(&b, "  - %s (%d edit(s))\n", f.Path, f.Edits)
	}
	b.WriteString(o.Also.text(left))
	fmt.Fprintf(&b, "\n%s\n\n", next)
	hidden := 0
	for _, f := range o.Files {
		b.WriteString(f.Diff)
		if f.Diff == "" {
			hidden++
		}
	}
	if hidden > 0 {
		fmt.Fprintf(&b, "... (the diffs of %d more file(s) are left out)\n", hidden)
	}
	return b.String()
}
