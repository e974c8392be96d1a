package tool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type applyPatchInput struct {
	Patch string `json:"patch" jsonschema:"a unified diff, or a patch that begins with *** Begin Patch" croft:"patch"`
}

type applyPatchOutput struct {
	Files []patchedFile `json:"files"`
	Notes string        `json:"notes,omitempty" jsonschema:"output of the formatter and the linter"`
}

type patchedFile struct {
	Op   string `json:"op" jsonschema:"A for added, M for modified, D for deleted"`
	Path string `json:"path"`
	From string `json:"from,omitempty" jsonschema:"old path of a moved file"`
}

func (o applyPatchOutput) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "applied the patch to %d file(s)\n", len(o.Files))
	for _, f := range o.Files {
		fmt.Fprintf(&b, "%s %s\n", f.Op, f.Path)
	}
	return strings.TrimSuffix(b.String(), "\n") + o.Notes
}

func applyPatchTool() *Tool {
	return New(Spec{
		Name: "apply_patch", Family: Files, Needs: []workspace.Capability{driver.CapFS}, Destructive: true,
		Description: "Apply a patch to files of the workspace, all or nothing. The patch is a unified diff, or has the form " +
			"*** Begin Patch / *** Update File: p / @@ / lines that begin with a blank, - or + / *** End Patch, with *** Add File, *** Delete File and *** Move to.",
	}, applyPatch)
}

// A patchStep is one change of a file, with what is needed to undo it.
type patchStep struct {
	op   patchOp
	old  file // the file before the step; zero for an added file
	seen Seen // what the agent has read of old
	next []byte
}

func applyPatch(ctx context.Context, c *Call, in applyPatchInput) (applyPatchOutput, error) {
	if in.Patch == "" {
		return applyPatchOutput{}, Errorf(fault.InvalidArgument, "patch is required")
	}
	ops, err := parsePatch(in.Patch)
	if err != nil {
		return applyPatchOutput{}, err
	}
	var names []string
	for _, op := range ops {
		names = append(names, op.path)
		if op.to != "" {
			names = append(names, op.to)
		}
	}
	end, err := c.LockFiles(ctx, names...)
	if err != nil {
		return applyPatchOutput{}, err
	}
	defer end()
	c.KeepBefore(ctx, names...)
	var steps []patchStep
	for _, op := range ops {
		s, err := c.planPatch(ctx, op)
		if err != nil {
			return applyPatchOutput{}, err
		}
		steps = append(steps, s)
	}
	if err := c.applyAll(ctx, steps); err != nil {
		return applyPatchOutput{}, err
	}
	out := applyPatchOutput{}
	var changed []string
	for _, s := range steps {
		f := patchedFile{Op: string(s.op.kind), Path: s.op.path}
		if s.op.to != "" {
			f.Path, f.From = s.op.to, s.op.path
		}
		if s.op.kind != 'D' {
			changed = append(changed, c.relPath(f.Path))
		}
		out.Files = append(out.Files, f)
	}
	out.Notes = c.AfterEdit(ctx, changed...)
	if strings.Contains(in.Patch, "\r\n") && slices.ContainsFunc(ops, func(op patchOp) bool { return op.kind == 'A' }) {
		out.Notes += "\nnote: the patch has CRLF line ends; the added files have LF"
	}
	return out, nil
}

// applyAll applies the steps, all or none. Deletions go last: undoing a deletion creates
// a new file, with another owner.
func (c *Call) applyAll(ctx context.Context, steps []patchStep) error {
	order := slices.Clone(steps)
	slices.SortStableFunc(order, func(a, b patchStep) int { return deleteRank(a) - deleteRank(b) })
	for i, s := range order {
		if err := c.applyStep(ctx, s); err != nil {
			return errors.Join(err, c.undoSteps(ctx, order[:i]))
		}
	}
	return nil
}

func deleteRank(s patchStep) int {
	if s.op.kind == 'D' {
		return 1
	}
	return 0
}

// planPatch computes the new content of a file. It changes nothing.
func (c *Call) planPatch(ctx context.Context, op patchOp) (patchStep, error) {
	s := patchStep{op: op}
	for _, name := range []string{op.path, op.to} {
		_, err := c.Workspace.Stat(ctx, name, nil)
		switch made := op.kind == 'A' || name == op.to; {
		case name == "" || made && fault.Of(err) == fault.NotFound || !made && err == nil:
		case err != nil:
			return s, PathError("patch", name, err)
		default:
			return s, Errorf(fault.AlreadyExists, "patch: %s already exists", name)
		}
	}
	if op.kind == 'A' {
		if s.next = []byte(strings.Join(op.add, "\n")); len(op.add) > 0 && !op.noEOL {
			s.next = append(s.next, '\n')
		}
		return s, c.CheckMarks("patch", op.path, nil, s.next)
	}
	var err error
	if s.old, err = c.loadFile(ctx, "patch", op.path); err != nil {
		return s, err
	}
	s.seen, _ = c.Seen(s.old.path)
	next, err := applyHunks(ctx, op.path, string(s.old.content), op.hunks)
	if err != nil {
		for _, h := range op.hunks {
			if note := c.hiddenNote(strings.Join(h.old, "\n")); note != "" {
				return s, &textError{text: ErrorText(err) + note, code: fault.Of(err), err: err}
			}
		}
		return s, err
	}
	s.next = []byte(next)
	return s, c.CheckMarks("patch", op.path, s.old.content, s.next)
}

// applyStep applies one step, if the file is unchanged since it was planned.
func (c *Call) applyStep(ctx context.Context, s patchStep) error {
	switch s.op.kind {
	case 'A':
		_, err := c.createFile(ctx, "patch", s.op.path, s.next)
		return err
	case 'D':
		if err := c.Workspace.Remove(ctx, s.op.path, nil); err != nil {
			return PathError("patch", s.op.path, err)
		}
		c.Unread(s.old.path)
		return nil
	}
	if _, err := c.saveFile(ctx, "patch", s.op.path, s.old, s.next); err != nil {
		return err
	}
	if s.seen.Digest != s.old.digest || !s.seen.Whole() {
		c.Unread(s.old.path) // a patch shows no more than its context
	}
	if s.op.to == "" {
		return nil
	}
	if err := c.Workspace.Rename(ctx, s.op.path, s.op.to, &driver.RenameOptions{CreateOnly: true, Parents: true}); err != nil {
		return errors.Join(PathError("patch", s.op.to, err), c.restoreFile(ctx, s))
	}
	c.moveSeen(s.old.path, c.relPath(s.op.to))
	return nil
}

// undoSteps undoes steps in reverse order. It runs even if the call was cancelled.
func (c *Call) undoSteps(ctx context.Context, steps []patchStep) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var errs []error
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		if s.op.kind == 'A' {
			errs = append(errs, c.Workspace.Remove(ctx, s.op.path, nil))
			c.Unread(c.relPath(s.op.path))
			continue
		}
		if s.op.to != "" {
			errs = append(errs, c.Workspace.Rename(ctx, s.op.to, s.op.path, nil))
		}
		errs = append(errs, c.restoreFile(ctx, s))
	}
	return errors.Join(errs...)
}

// restoreFile writes back the old content, and the mode if the file is gone, and restores
// the read state of the agent.
func (c *Call) restoreFile(ctx context.Context, s patchStep) error {
	c.Unread(s.old.path)
	if _, err := c.Workspace.WriteFile(ctx, s.op.path, s.old.content, &driver.WriteOptions{Mode: s.old.mode & driver.MaxMode}); err != nil {
		return err
	}
	if s.seen.Digest == s.old.digest {
		c.recordRead(s.old.path, s.seen.Digest, s.seen.Lines, s.seen.lineHashes, s.seen.Spans...)
	}
	return nil
}
