package snapshots

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace/driver"
)

// descriptionOf returns the description of a snapshot, else the step or cause that it was
// taken for.
func descriptionOf(s driver.SnapshotInfo) string {
	for _, key := range []string{descriptionLabel, history.StepLabel, snapshot.CauseLabel} {
		if text := s.Labels[key]; text != "" {
			return text
		}
	}
	return ""
}

type createInput struct {
	Name        string `json:"name" jsonschema:"name: letters, digits, _ - and ." croft:"name"`
	Description string `json:"description,omitempty" jsonschema:"description of this state"`
}

type createOutput struct {
	Snapshot snapshotOutput `json:"snapshot"`
}

func (o createOutput) Text() string {
	text := fmt.Sprintf("snapshot %s created: %s", o.Snapshot.displayName(), o.Snapshot.ID)
	if !o.Snapshot.Frozen {
		text += "\n(not frozen: it may contain parts of changes made while it was taken; if programs write files, end them and take another one)"
	}
	return text + o.Snapshot.missingText()
}

// missingText lists the files that the snapshot lacks, a line each.
func (s snapshotOutput) missingText() string {
	text := ""
	for _, m := range s.Missing {
		text += fmt.Sprintf("\nmissing: %s: %s", m.Path, m.Reason)
	}
	if more := s.MissingTotal - int64(len(s.Missing)); more > 0 {
		text += fmt.Sprintf("\nmissing: %d more", more)
	}
	if len(s.Credentials) > 0 {
		text += "\ncontains credential files: " + strings.Join(s.Credentials, ", ")
	}
	if s.Skipped > 0 {
		text += "\n" + strings.TrimSuffix(leftOutText([]leftOut{{snapshot.LeftOutSpecial, int(s.Skipped), s.SkippedPaths}}), "\n")
	}
	return text
}

func createTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "snapshot_create", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true,
		Description: "Take a snapshot of all files of the workspace under a name. The name means the newest snapshot that has it; older ones keep their ids.",
	}, createSnapshot)
}

func createSnapshot(ctx context.Context, c *tool.Call, in createInput) (createOutput, error) {
	if err := checkName(in.Name); err != nil {
		return createOutput{}, err
	}
	opts := &driver.SnapshotOptions{Name: in.Name, Labels: map[string]string{snapshot.ToolLabel: "true"}}
	if in.Description != "" {
		opts.Labels[descriptionLabel] = in.Description
	}
	info, err := c.Workspace.Snapshot(ctx, opts)
	if err != nil {
		return createOutput{}, err
	}
	return createOutput{newSnapshotOutput(info)}, nil
}

type listSnapshotsInput struct {
	Limit int `json:"limit,omitempty" jsonschema:"maximum number, newest first; default all"`
}

type listOutput struct {
	Snapshots []snapshotOutput `json:"snapshots"`
}

func (o listOutput) Text() string {
	if len(o.Snapshots) == 0 {
		return "no snapshots"
	}
	var lines []string
	seen := map[string]bool{}
	for _, s := range o.Snapshots {
		if s.Name != "" && seen[s.Name] {
			s.Name = "" // the newest has the name; show the id of this one
		}
		seen[s.Name] = true
		lines = append(lines, s.listLine())
	}
	return strings.Join(lines, "\n") + "\n"
}

func listTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "snapshot_list", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true, ReadOnly: true, Idempotent: true,
		Description: "List the snapshots of the workspace, the newest first: name, id, time and description.",
	}, listSnapshots)
}

func listSnapshots(ctx context.Context, c *tool.Call, in listSnapshotsInput) (listOutput, error) {
	if in.Limit < 0 {
		return listOutput{}, tool.Errorf(fault.InvalidArgument, "limit must not be negative")
	}
	all, err := c.Workspace.Snapshots(ctx, &driver.ListSnapshotsOptions{Limit: in.Limit})
	if err != nil {
		return listOutput{}, err
	}
	out := listOutput{Snapshots: []snapshotOutput{}}
	for _, s := range all {
		out.Snapshots = append(out.Snapshots, newSnapshotOutput(s))
	}
	return out, nil
}

type snapshotInput struct {
	Name        string `json:"name,omitempty" jsonschema:"name: letters, digits, _ - and .; default list the snapshots" croft:"name"`
	Description string `json:"description,omitempty" jsonschema:"description of this state"`
}

// snapshotTool is snapshot_create and snapshot_list in one, for clients to which each tool
// costs.
func snapshotTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "snapshot", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true,
		Description: "Take a snapshot of all files of the workspace under a name, to which snapshot_restore returns. Without a name, list the snapshots.",
	}, func(ctx context.Context, c *tool.Call, in snapshotInput) (snapshotsOutput, error) {
		if in.Name == "" {
			list, err := listSnapshots(ctx, c, listSnapshotsInput{})
			return snapshotsOutput{list.Snapshots, list.Text()}, err
		}
		made, err := createSnapshot(ctx, c, createInput(in))
		return snapshotsOutput{[]snapshotOutput{made.Snapshot}, made.Text()}, err
	})
}

type snapshotsOutput struct {
	Snapshots []snapshotOutput `json:"snapshots"`

	text string
}

func (o snapshotsOutput) Text() string { return o.text }

type nameInput struct {
	Name string `json:"name" jsonschema:"name or id of the snapshot" croft:"name"`
}

type movedOutput struct {
	Snapshot snapshotOutput `json:"snapshot" jsonschema:"the restored snapshot"`
	Before   snapshotOutput `json:"before" jsonschema:"snapshot of the state before"`
	Changed  []string       `json:"changed"`

	verb string
}

func (o movedOutput) Text() string {
	head := fmt.Sprintf("%s snapshot %s", o.verb, o.Snapshot.displayName())
	if o.Snapshot.Description != "" && o.Snapshot.Name == "" {
		head += " (" + o.Snapshot.Description + ")"
	}
	if len(o.Changed) == 0 {
		return head + " (no files changed)"
	}
	return fmt.Sprintf("%s (%d file(s) changed):\n%s\nthe state before is snapshot %s\n", head, len(o.Changed), strings.Join(o.Changed, "\n"), o.Before.ID)
}

func restoreTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "snapshot_restore", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true, Idempotent: true,
		Description: "Return the files of the workspace, or with paths some of them, to a snapshot, in place. " +
			"A snapshot of the present state is taken first; undo and a restore of that one take it back. " +
			"In a directory of the user it first names the files that would change though no edit of a tool made them what they are, and needs force.",
	}, restoreSnapshot)
}

type restoreInput struct {
	Name  string   `json:"name" jsonschema:"name or id of the snapshot" croft:"name"`
	Paths []string `json:"paths,omitempty" jsonschema:"only these files and directories" croft:"path"`
	Force bool     `json:"force,omitempty" jsonschema:"also change files that the user or a command has changed"`
}

func restoreSnapshot(ctx context.Context, c *tool.Call, in restoreInput) (movedOutput, error) {
	info, err := findSnapshot(ctx, c, in.Name)
	if err != nil {
		return movedOutput{}, err
	}
	if len(in.Paths) > 0 {
		return restorePaths(ctx, c, info, cleanPaths(c, in.Paths))
	}
	if !in.Force {
		if err := checkExplained(ctx, c, info); err != nil {
			return movedOutput{}, err
		}
	}
	before, err := c.Workspace.Rollback(ctx, info.ID, nil)
	if err != nil {
		return movedOutput{}, err
	}
	out, err := newMovedOutput(ctx, c, "restored", info, before)
	if err == nil {
		keepOld(ctx, c, before.ID, out.Changed)
	}
	return out, err
}

// checkExplained returns an error if a restore of a directory that its user works in, too, would
// change files that are not what edits of tools made of the snapshot. It names them.
func checkExplained(ctx context.Context, c *tool.Call, to driver.SnapshotInfo) error {
	kept, err := recordsOf(ctx, c)
	if err != nil || !kept.Opened {
		return err
	}
	d, err := compareStates(ctx, c.Workspace, history.Now, to.ID, &snapshot.DiffOptions{NoGit: true, NoRenames: true})
	if err != nil {
		return err
	}
	var list strings.Builder
	n := 0
	for _, ch := range d.Changes {
		now, then := ch.Old, ch.New
		if isDirectory(now) && then == nil || now == nil && isDirectory(then) {
			continue
		}
		explained, err := history.Edits(kept.Edits).Explain(ch.Path, digestOf(then), digestOf(now))
		if err != nil {
			return err
		}
		if explained {
			continue
		}
		if n++; n <= maxNamed {
			fmt.Fprintf(&list, "%s %s\n", restoreVerb(ch), ch.Path)
		}
	}
	if n == 0 {
		return nil
	}
	if n > maxNamed {
		fmt.Fprintf(&list, "... and %d more\n", n-maxNamed)
	}
	return tool.Errorf(fault.Conflict, "restore %s: nothing was changed. It would change %d file(s) "+
		"that the user or a command has changed since, not an edit of a tool:\n%sforce=true changes these, too; paths restores only the files that you name", newSnapshotOutput(to).displayName(), n, list.String())
}

// maxNamed bounds the files that an error names.
const maxNamed = 50

func isDirectory(s *snapshot.Side) bool { return s != nil && s.Type == driver.TypeDir }

// digestOf returns the digest of a regular file, "" if there is none. For other files it
// returns what no edit has.
func digestOf(s *snapshot.Side) string {
	switch {
	case s == nil:
		return ""
	case s.Type != driver.TypeFile:
		return string(s.Type)
	}
	return s.Digest
}

// restoreVerb says what a restore does to a path.
func restoreVerb(ch snapshot.FileChange) string {
	switch {
	case ch.Old == nil:
		return "bring back"
	case ch.New == nil:
		return "remove"
	}
	return "change"
}

// restorePaths restores files and directories of a snapshot.
func restorePaths(ctx context.Context, c *tool.Call, info driver.SnapshotInfo, paths []string) (movedOutput, error) {
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
	if err != nil {
		return movedOutput{}, err
	}
	out.Before = newSnapshotOutput(before)
	keepOld(ctx, c, before.ID, out.Changed)
	return out, nil
}

// Limits of what keepOld keeps of one call.
const (
	maxOldFiles = 500
	maxOldBytes = 16 << 20
)

// keepOld keeps, for undo, the files that a call has changed as the snapshot before the change
// has them. If there are too many, undo refuses the change, and names the snapshot.
func keepOld(ctx context.Context, c *tool.Call, before string, changed []string) {
	list, err := readOld(ctx, c, before, changed)
	if err != nil {
		list = []tool.KeptFile{{Path: ".", Err: tool.Errorf(fault.ResourceExhausted, "%s; snapshot_restore with name %s returns to the state before", tool.ErrorText(err), before)}}
	}
	c.KeepStates(list...)
}

func readOld(ctx context.Context, c *tool.Call, before string, changed []string) ([]tool.KeptFile, error) {
	if len(changed) > maxOldFiles {
		return nil, tool.Errorf(fault.ResourceExhausted, "%d files were changed, at most %d are kept", len(changed), maxOldFiles)
	}
	files, err := c.Workspace.SnapshotFiles(ctx, before, nil)
	if err != nil {
		return nil, err
	}
	var list []tool.KeptFile
	size := 0
	for _, name := range changed {
		info, err := files.Stat(ctx, name, &driver.StatOptions{NoFollow: true})
		switch {
		case fault.Of(err) == fault.NotFound:
			if now, err := c.Workspace.Stat(ctx, name, &driver.StatOptions{NoFollow: true}); err == nil && now.Type != driver.TypeDir {
				list = append(list, tool.KeptFile{Path: name})
			}
			continue
		case err != nil:
			return nil, err
		case info.Type == driver.TypeDir:
			continue
		case info.Type == driver.TypeSymlink:
			list = append(list, tool.KeptFile{Path: name, Exists: true, Content: []byte(info.Target), Mode: fs.ModeSymlink})
			continue
		}
		body, info, err := files.Read(ctx, name, &driver.ReadOptions{})
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(body, maxOldBytes+1))
		if err = errors.Join(err, body.Close()); err != nil {
			return nil, err
		}
		if size += len(data); size > maxOldBytes {
			return nil, tool.Errorf(fault.ResourceExhausted, "the changed files had more than %d bytes", maxOldBytes)
		}
		list = append(list, tool.KeptFile{Path: name, Exists: true, Content: data, Mode: info.Mode})
	}
	return list, nil
}

// newMovedOutput lists the files that changed between two states.
func newMovedOutput(ctx context.Context, c *tool.Call, verb string, to, before driver.SnapshotInfo) (movedOutput, error) {
	d, err := compareStates(ctx, c.Workspace, before.ID, to.ID, &snapshot.DiffOptions{NoGit: true})
	if err != nil {
		return movedOutput{}, err
	}
	out := movedOutput{Snapshot: newSnapshotOutput(to), Before: newSnapshotOutput(before), Changed: []string{}, verb: verb}
	for _, ch := range d.Changes {
		out.Changed = append(out.Changed, ch.Path)
	}
	for _, g := range d.Git {
		out.Changed = append(out.Changed, g.Path)
	}
	return out, nil
}

func deleteTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "snapshot_delete", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true, Destructive: true,
		Description: "Delete a snapshot. The files of the workspace are unchanged.",
	}, func(ctx context.Context, c *tool.Call, in nameInput) (tool.Message, error) {
		info, err := findSnapshot(ctx, c, in.Name)
		if err == nil {
			err = c.Workspace.DeleteSnapshot(ctx, info.ID, nil)
		}
		return tool.Message{Message: fmt.Sprintf("snapshot %s deleted", in.Name)}, err
	})
}
