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
	Notes string        `json:"notes,omitempty" jsonschema:"what formatting and linting said"`
}

type patchedFile struct {
	Op   string `json:"op" jsonschema:"A for added, M for modified, D for deleted"`
	Path string `json:"path"`
	From string `json:"from,omitempty" jsonschema:"where it was, if it was moved"`
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
		Description: "Apply a patch to files of the workspace, all of it or nothing. It is a unified diff, or has the form " +
			"*** Begin Patch / *** Update File: p / @@ / lines that begin with a blank, - or + / *** End Patch, with *** Add File, *** Delete File and *** Move to.",
	}, applyPatch)
}

// A patchStep is one change of a file, and how it is taken back.
type patchStep struct {
	op   patchOp
	old  file // what is there before; zero for an added file
	seen Seen // what the agent knows of that
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
	return out, nil
}

// applyAll does the steps, all or none. What is deleted goes last, since a file
// that is made anew has another owner.
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

// planPatch computes what a file becomes. Nothing is changed.
func (c *Call) planPatch(ctx context.Context, op patchOp) (patchStep, error) {
	s := patchStep{op: op}
	for _, name := range []string{op.path, op.to} {
		_, err := c.Workspace.Stat(ctx, name, nil)
		switch made := op.kind == 'A' || name == op.to; {
		case name == "" || made && fault.Of(err) == fault.NotFound || !made && err == nil:
		case err != nil:
			return s, PathError("patch", name, err)
		default:
			return s, Errorf(fault.AlreadyExists, "patch: %s is there already", name)
		}
	}
	if op.kind == 'A' {
		if s.next = []byte(strings.Join(op.add, "\n")); len(op.add) > 0 && !op.noEOL {
			s.next = append(s.next, '\n')
		}
		return s, nil
	}
	var err error
	if s.old, err = c.loadFile(ctx, "patch", op.path); err != nil {
		return s, err
	}
	s.seen, _ = c.Seen(s.old.path)
	next, err := applyHunks(ctx, op.path, string(s.old.content), op.hunks)
	s.next = []byte(next)
	return s, err
}

// applyStep does one step, if the file is still as it was when it was planned.
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

// undoSteps undoes steps, the last first, also where the call was cancelled.
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

// restoreFile gives a file its content again, with its mode where it is gone, and the
// agent what it knew of it.
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
