package snapshots

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/history"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace/driver"
)

type undoInput struct {
	To    string   `json:"to,omitempty" jsonschema:"snapshot to restore, by name or id, or id of an edit to undo; default the last edit" croft:"name"`
	Redo  bool     `json:"redo,omitempty" jsonschema:"return to what was undone last"`
	Paths []string `json:"paths,omitempty" jsonschema:"only these files and directories" croft:"path"`
}

type undoOutput struct {
	Edit     string          `json:"edit,omitempty" jsonschema:"the edit that was undone or redone"`
	Snapshot *snapshotOutput `json:"snapshot,omitempty" jsonschema:"the restored snapshot"`
	Before   *snapshotOutput `json:"before,omitempty" jsonschema:"snapshot of the state before"`
	Changed  []string        `json:"changed"`

	text string
}

func (o undoOutput) Text() string { return o.text }

func undoTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "undo", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true,
		Description: "Undo the last edit of files by a tool. Refuses if a file has changed since, and shows both. " +
			"Without edits, or with to, restore a snapshot in place. With redo, return to what was undone.",
	}, func(ctx context.Context, c *tool.Call, in undoInput) (undoOutput, error) {
		if in.To != "" && in.Redo {
			return undoOutput{}, tool.Errorf(fault.InvalidArgument, "give to or redo, not both")
		}
		out, err := undoEdit(ctx, c, in)
		if fault.Of(err) != fault.NotFound {
			return out, err
		}
		moved, err := undoSnapshot(ctx, c, in)
		if err != nil {
			return undoOutput{}, err
		}
		return undoOutput{Snapshot: &moved.Snapshot, Before: &moved.Before, Changed: moved.Changed, text: moved.Text()}, nil
	})
}

// undoEdit undoes or redoes an edit; NotFound means that a snapshot is to be restored.
func undoEdit(ctx context.Context, c *tool.Call, in undoInput) (undoOutput, error) {
	kept, err := recordsOf(ctx, c)
	if err != nil {
		return undoOutput{}, err
	}
	edits := history.Edits(kept.Edits)
	missing := tool.Errorf(fault.NotFound, "no edit is recorded")
	if edits == "" || in.To != "" && !driver.ValidID(in.To) {
		return undoOutput{}, missing
	}
	choice := history.EditChoice{ID: in.To, Paths: cleanPaths(c, in.Paths), Redo: in.Redo}
	edit, ok, err := edits.Find(choice)
	if err != nil || !ok {
		return undoOutput{}, cmp.Or(err, missing)
	}
	if in.To == "" && len(in.Paths) == 0 {
		// A checkpoint of another call than the edit is the last step.
		record, err := history.Load(ctx, c.Workspace)
		if err != nil {
			return undoOutput{}, err
		}
		if s := record.Current; s != nil && s.Labels[history.StepLabel] != "" && s.Labels[history.StepLabel] != edit.Step && s.Created.After(edit.Created) {
			return undoOutput{}, missing
		}
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
	if edit, err = edits.Move(ctx, c.Workspace, edit, choice); err != nil {
		return undoOutput{}, err
	}
	verb := "undone"
	if in.Redo {
		verb = "redone"
	}
	out := undoOutput{Edit: edit.ID}
	for _, f := range edit.Files {
		out.Changed = append(out.Changed, f.Path)
	}
	out.text = fmt.Sprintf("%s: %s (edit %s of %s):\n%s\n", verb, edit.Step, edit.ID, edit.Created.Format("2006-01-02 15:04:05Z"), strings.Join(out.Changed, "\n"))
	return out, nil
}

// undoSnapshot restores a snapshot, or the state before the present one.
func undoSnapshot(ctx context.Context, c *tool.Call, in undoInput) (movedOutput, error) {
	switch {
	case in.To != "" && len(in.Paths) > 0:
		return restorePaths(ctx, c, in.To, cleanPaths(c, in.Paths))
	case in.To != "":
		return restoreSnapshot(ctx, c, nameInput{in.To})
	case len(in.Paths) > 0:
		return movedOutput{}, tool.Errorf(fault.NotFound, "undo: no edit of %s is recorded; with to, paths of a snapshot are restored", strings.Join(in.Paths, ", "))
	}
	do, verb := history.Undo, "undone, back to"
	if in.Redo {
		do, verb = history.Redo, "redone, forth to"
	}
	m, err := do(ctx, c.Workspace)
	if err != nil {
		return movedOutput{}, err
	}
	return newMovedOutput(ctx, c, verb, m.To, m.Before)
}

// restorePaths restores files and directories of a snapshot.
func restorePaths(ctx context.Context, c *tool.Call, name string, paths []string) (movedOutput, error) {
	info, err := findSnapshot(ctx, c, name)
	if err != nil {
		return movedOutput{}, err
	}
	d, err := compareStates(ctx, c.Workspace, history.Now, info.ID, &snapshot.DiffOptions{NoGit: true, NoRenames: true, Only: paths})
	if err != nil {
		return movedOutput{}, err
	}
	files, err := history.Files(ctx, c.Workspace, info.ID, nil)
	if err != nil {
		return movedOutput{}, err
	}
	out := movedOutput{Snapshot: newSnapshotOutput(info), Changed: []string{}, verb: "restored paths of"}
	for _, ch := range d.Changes {
		out.Changed = append(out.Changed, ch.Path)
	}
	if len(out.Changed) == 0 {
		return out, nil
	}
	before, err := c.Workspace.Accept(ctx, files, out.Changed, &driver.SnapshotOptions{Name: "before-rollback", Labels: map[string]string{snapshot.CauseLabel: "paths"}})
	out.Before = newSnapshotOutput(before)
	return out, err
}
