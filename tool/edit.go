package tool

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type editInput struct {
	FilePath   string `json:"file_path" jsonschema:"path of the file, relative to the workspace or absolute within it" croft:"path"`
	OldString  string `json:"old_string,omitempty" jsonschema:"text to be replaced; must occur exactly once unless replace_all"`
	NewString  string `json:"new_string,omitempty" jsonschema:"text to put in its place"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`

	Edits []singleEdit `json:"edits,omitempty" jsonschema:"several replacements, in order, all or none; instead of old_string and new_string"`
}

type editOutput struct {
	Path     string `json:"path"`
	Replaced int    `json:"replaced" jsonschema:"occurrences that were replaced"`
	Digest   string `json:"digest"`
	Notes    string `json:"notes,omitempty" jsonschema:"output of the formatter and the linter"`
}

func (o editOutput) Text() string {
	return fmt.Sprintf("replaced %d occurrence(s) in %s%s", o.Replaced, o.Path, o.Notes)
}

func editTool() *Tool {
	return New(Spec{
		Name: "Edit", Family: Files, Needs: []workspace.Capability{driver.CapFS}, Destructive: true,
		Description: "Replace text in a file. Its lines must have been read, and the file must be unchanged since. Mode and owner of the file are kept.",
	}, editFile)
}

func editFile(ctx context.Context, c *Call, in editInput) (editOutput, error) {
	_, hasOld := c.Args["old_string"]
	_, hasNew := c.Args["new_string"]
	switch {
	case len(in.Edits) > 0 && (hasOld || hasNew):
		return editOutput{}, Errorf(fault.InvalidArgument, "give edits, or old_string and new_string, not both")
	case len(in.Edits) > 0:
		return multiEdit(ctx, c, multiEditInput{in.FilePath, in.Edits})
	case in.FilePath == "":
		return editOutput{}, Errorf(fault.InvalidArgument, "file_path is required")
	case !hasOld:
		return editOutput{}, Errorf(fault.InvalidArgument, "old_string is required")
	case !hasNew:
		return editOutput{}, Errorf(fault.InvalidArgument, "new_string is required")
	case in.OldString == "":
		return editOutput{}, Errorf(fault.InvalidArgument, "old_string must be non-empty")
	}
	return c.applyEdits(ctx, in.FilePath, []workspace.Edit{{Old: in.OldString, New: in.NewString, All: in.ReplaceAll}}, "")
}

// applyEdits applies edits to a file that was read, all or none. all is the name of the
// caller's argument for every occurrence; "" is replace_all.
func (c *Call) applyEdits(ctx context.Context, name string, edits []workspace.Edit, all string) (editOutput, error) {
	end, err := c.LockFile(ctx, name)
	if err != nil {
		return editOutput{}, err
	}
	defer end()
	f, seen, err := c.loadSeen(ctx, "edit", name)
	if err != nil {
		return editOutput{}, err
	}
	if all == "" {
		all = "replace_all"
	}
	out := editOutput{Path: name}
	content := f.content
	for i, e := range edits {
		var n int
		if content, n, err = c.applyEdit(content, e, &seen, name, all); err != nil {
			if len(edits) > 1 {
				err = &textError{text: fmt.Sprintf("edit %d of %d: %s", i+1, len(edits), ErrorText(err)), code: fault.Of(err)}
			}
			return editOutput{}, err
		}
		out.Replaced += n
	}
	res, err := c.saveFile(ctx, "edit", name, f, content, seen.Spans...)
	if err != nil {
		return editOutput{}, err
	}
	out.Digest = res.Digest
	out.Notes = brokenLinksNote(res) + c.AfterEdit(ctx, f.path)
	return out, nil
}

// applyEdit replaces text in content and updates seen: the lines that the agent has read.
func (c *Call) applyEdit(content []byte, e workspace.Edit, seen *Seen, name, all string) ([]byte, int, error) {
	if e.Old == "" {
		return nil, 0, Errorf(fault.InvalidArgument, "old_string must be non-empty")
	}
	e = matchLineEndings(content, e)
	n := bytes.Count(content, []byte(e.Old))
	switch {
	case n == 0:
		return nil, 0, Errorf(fault.NotFound, "old_string not found in %s%s", name, c.hiddenNote(e.Old))
	case n > 1 && !e.All:
		return nil, 0, Errorf(fault.Conflict, "old_string matched %d times in %s; add context to make it unique or set %s=true", n, name, all)
	}
	if size := driver.Replaced(len(content), n, len(e.Old), len(e.New)); size > maxEditSize {
		return nil, 0, Errorf(fault.ResourceExhausted, "edit: %s would have %d bytes; at most %d can be edited as text", name, size, maxEditSize)
	}
	if err := seen.moveSpans(content, e, name); err != nil {
		return nil, 0, err
	}
	return bytes.ReplaceAll(content, []byte(e.Old), []byte(e.New)), n, nil
}

// matchLineEndings converts an edit without CR to CRLF if the file has CRLF line endings,
// which Read does not show.
func matchLineEndings(content []byte, e workspace.Edit) workspace.Edit {
	if !bytes.Contains(content, []byte("\r\n")) || strings.Contains(e.Old+e.New, "\r") || bytes.Contains(content, []byte(e.Old)) && !strings.Contains(e.New, "\n") {
		return e
	}
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	if bytes.Contains(content, []byte(crlf(e.Old))) {
		e.Old, e.New = crlf(e.Old), crlf(e.New)
	}
	return e
}

// moveSpans checks that the lines of every occurrence were read, and shifts the spans by
// the lines that the edit adds or removes.
func (s *Seen) moveSpans(content []byte, e workspace.Edit, name string) error {
	old, height := []byte(e.Old), strings.Count(e.Old, "\n")
	if strings.HasSuffix(e.Old, "\n") {
		height--
	}
	total, at := 0, 0
	counts := make([]int, len(s.Spans)) // occurrences in each span
	for line, rest := 1, content; ; {
		i := bytes.Index(rest, old)
		if i < 0 {
			break
		}
		line += bytes.Count(rest[:i], []byte("\n"))
		for at < len(s.Spans) && s.Spans[at].Last < line {
			at++
		}
		if at == len(s.Spans) || line < s.Spans[at].First || s.Spans[at].Last < line+height {
			return Errorf(fault.PermissionDenied, "refusing to edit %s: lines %d-%d were not read; Read them first", name, line, line+height)
		}
		counts[at]++
		total++
		line += strings.Count(e.Old, "\n")
		rest = rest[i+len(old):]
	}
	delta := strings.Count(e.New, "\n") - strings.Count(e.Old, "\n")
	spans, before := make([]Span, 0, len(s.Spans)), 0
	for i, p := range s.Spans {
		spans = append(spans, Span{p.First + delta*before, p.Last + delta*(before+counts[i])})
		before += counts[i]
	}
	s.Spans = mergeSpans(spans)
	s.Lines += delta * total
	return nil
}
