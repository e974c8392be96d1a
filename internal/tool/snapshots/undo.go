package snapshots

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/tool"
)

type undoInput struct {
	Edit  string   `json:"edit,omitempty" jsonschema:"id of the edit to undo or redo; default the last one" croft:"name"`
	Redo  bool     `json:"redo,omitempty" jsonschema:"redo what was undone last"`
	Paths []string `json:"paths,omitempty" jsonschema:"only these files and directories, and the last edit of one of them" croft:"path"`
}

type undoOutput struct {
	Edit    string   `json:"edit" jsonschema:"the edit that was undone or redone"`
	Changed []string `json:"changed"`

	text string
}

func (o undoOutput) Text() string { return o.text }

// undoName is the name of the tool undo.
const undoName = "undo"

func undoTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: undoName, Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true,
		Description: "Undo the last edit of files by a tool (Write, Edit, apply and so on; not by a command); called again, the edit before that. " +
			"Refuses if a file has changed since, and shows both. With redo, redo what was undone last. snapshot_restore returns to a snapshot.",
	}, undoEdit)
}

func undoEdit(ctx context.Context, c *tool.Call, in undoInput) (undoOutput, error) {
	kept, err := recordsOf(ctx, c)
	if err != nil {
		return undoOutput{}, err
	}
	edits := history.Edits(kept.Edits)
	if edits == "" {
		return undoOutput{}, tool.Errorf(fault.NotFound, "undo: the edits of this workspace are not recorded; snapshot_restore returns to a snapshot")
	}
	choice := history.EditChoice{ID: in.Edit, Paths: cleanPaths(c, in.Paths), Redo: in.Redo}
	edit, ok, err := edits.Find(choice)
	if err != nil {
		return undoOutput{}, err
	}
	if !ok {
		return undoOutput{}, nothingToUndo(in)
	}
	var paths []string
	for _, f := range edit.Files {
		paths = append(paths, f.Path)
	}
	end, err := c.LockFiles(ctx, paths...)
	if err != nil {
		return undoOutput{}, err
	}
	defer end()
	seen := wholeSeen(c, edit)
	moved, err := edits.Move(ctx, c.Workspace, edit, in.Redo)
	if err != nil {
		for _, f := range edit.Files { // a conflict shows lines of both states
			c.LearnSecrets(f.Before.Content)
			c.LearnSecrets(f.After.Content)
			c.LearnFile(ctx, f.Path, err.Error())
		}
		return undoOutput{}, fmt.Errorf("%w%s", err, otherEdits(edits, edit, in.Redo))
	}
	verb := "undone"
	if in.Redo {
		verb = "redone"
	}
	out := undoOutput{Edit: moved.ID, Changed: []string{}}
	for _, f := range moved.Files {
		out.Changed = append(out.Changed, f.Path)
		from, to := f.After, f.Before
		if in.Redo {
			from, to = to, from
		}
		if seen[f.Path] == from.Digest && to.Digest != "" && to.Mode.IsRegular() { // the agent knows both states
			c.RecordRead(f.Path, to.Content)
		}
	}
	if len(out.Changed) == 0 {
		verb += " already"
	}
	out.text = fmt.Sprintf("%s: %s (edit %s of %s):\n", verb, moved.Step, moved.ID, moved.Created.UTC().Format(time.RFC3339))
	for _, name := range out.Changed {
		out.text += name + "\n"
	}
	for _, name := range moved.Already {
		out.text += name + " had that state already\n"
	}
	return out, nil
}

// wholeSeen returns the digests of the files of an edit that the agent has seen as a whole.
func wholeSeen(c *tool.Call, edit history.Edit) map[string]string {
	out := map[string]string{}
	for _, f := range edit.Files {
		if seen, ok := c.Seen(f.Path); ok && seen.Whole() {
			out[f.Path] = seen.Digest
		}
	}
	return out
}

// nothingToUndo is the error if a call selects no edit.
func nothingToUndo(in undoInput) error {
	verb, state := "undo", "of tools is left to undo"
	if in.Redo {
		verb, state = "redo", "that was undone is left to redo"
	}
	switch {
	case in.Edit != "":
		return tool.Errorf(fault.NotFound, "%s: no edit %q %s; the last 100 of a week are recorded", verb, in.Edit, state)
	case len(in.Paths) > 0:
		return tool.Errorf(fault.NotFound, "%s: no edit of %s %s; snapshot_restore with paths returns these to a snapshot", verb, strings.Join(in.Paths, ", "), state)
	case in.Redo:
		return tool.Errorf(fault.NotFound, "redo: nothing was undone since the last edit")
	}
	return tool.Errorf(fault.NotFound, "undo: no edit of files by a tool is left to undo; snapshot_restore returns to a snapshot")
}

// otherEdits names what can be moved in place of an edit that can't: its other files, and other edits.
func otherEdits(edits history.Edits, not history.Edit, redo bool) string {
	movable := func(e history.Edit) (names []string) {
		for _, f := range e.Files {
			if f.Reason == "" && f.Undone.IsZero() != redo {
				names = append(names, f.Path)
			}
		}
		return names
	}
	var b strings.Builder
	if rest := movable(not); len(rest) > 0 && len(not.Files) > 1 {
		fmt.Fprintf(&b, "\nfiles of this edit, for the argument paths:\n%s\n", strings.Join(rest[:min(len(rest), maxOthers)], "\n"))
	}
	list, err := edits.List()
	list = slices.DeleteFunc(list, func(e history.Edit) bool { return e.ID == not.ID || len(movable(e)) == 0 })
	if err == nil && len(list) == 0 && b.Len() == 0 && !redo {
		return "\nno other edit is left to undo; snapshot_restore returns to a snapshot"
	}
	if err != nil || len(list) == 0 {
		return b.String()
	}
	b.WriteString("\nothers, for the argument edit:\n")
	for _, e := range list[:min(len(list), maxOthers)] {
		fmt.Fprintf(&b, "%s %s\n", e.ID, e.Step)
	}
	return b.String()
}

// maxOthers is the number of files or edits that are named in place of an edit.
const maxOthers = 5
