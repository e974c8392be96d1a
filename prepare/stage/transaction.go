package stage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// asidePrefix starts the names of temporary paths of a transaction.
const asidePrefix = ".croft-aside-"

// rollbackTime bounds the rollback of a transaction that failed.
const rollbackTime = 2 * time.Minute

// A step creates one path.
type step struct {
	target string
	make   func(ctx context.Context, at string) error // at does not exist, but its directory does
}

// A transaction creates several paths, all or nothing. Its journal is
// Metadata.Pending: the temporary paths beside the targets. The journal is saved
// before the first of them exists. Saving the metadata with the result commits the
// transaction; a journal that is found before that is rolled back.
type transaction struct {
	h      *Session
	before []TempPath // entries of the journal before: of the caller, or of a transaction that could not be cleaned up
	plan   []stepPaths
	made   []string        // directories that were missing, outermost first
	there  map[string]bool // directories that exist
}

// stepPaths has the paths of a step.
type stepPaths struct {
	step
	fresh string // where the new entry is created; the target itself if it does not exist
	old   string // where the old entry is moved; "" if it does not exist
	made  bool   // the new entry is at fresh
}

// transact runs the steps and then record, which adds the result to the metadata. If
// anything fails, everything is rolled back.
func (h *Session) transact(ctx context.Context, steps []step, record func()) error {
	t := &transaction{h: h, before: slices.Clone(h.Pending)}
	was := *h.Metadata
	if err := t.apply(ctx, steps); err != nil {
		return t.rollback(ctx, &was, err)
	}
	journal := h.Pending
	h.Pending = slices.Clone(t.before)
	for _, p := range t.plan {
		if p.old != "" {
			h.Pending = append(h.Pending, TempPath{Path: p.old, Target: p.target, Old: true, Done: true})
		}
	}
	record()
	if slices.ContainsFunc(steps, func(s step) bool { return s.target == MetaFile }) {
		h.Copied = false
	}
	if err := h.Save(ctx); err != nil {
		h.Pending = journal
		return t.rollback(ctx, &was, err)
	}
	return h.cleanUp(ctx)
}

// apply saves the journal, creates the new entries, and swaps them in.
func (t *transaction) apply(ctx context.Context, steps []step) error {
	for _, s := range steps {
		p, err := t.planStep(ctx, s)
		if err != nil {
			return err
		}
		t.plan = append(t.plan, p)
	}
	if err := t.saveJournal(ctx); err != nil {
		return err
	}
	for i := range t.plan {
		p := &t.plan[i]
		if err := t.makeParents(ctx, p.target); err != nil {
			return err
		}
		if err := p.make(ctx, p.fresh); err != nil {
			return err
		}
		p.made = true
	}
	for _, p := range t.plan {
		if p.old == "" {
			continue
		}
		if err := t.rename(ctx, p.target, p.old); err != nil {
			return err
		}
		if err := t.rename(ctx, p.fresh, p.target); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) rename(ctx context.Context, from, to string) error {
	return t.h.s.ws.Rename(ctx, from, to, &driver.RenameOptions{CreateOnly: true})
}

func (t *transaction) planStep(ctx context.Context, s step) (stepPaths, error) {
	_, err := t.h.s.ws.Stat(ctx, s.target, &driver.StatOptions{NoFollow: true})
	switch {
	case err == nil:
		return stepPaths{step: s, fresh: temporaryPath(s.target), old: temporaryPath(s.target)}, nil
	case errors.Is(err, fault.NotFound):
		return stepPaths{step: s, fresh: s.target}, nil
	}
	return stepPaths{}, err
}

func temporaryPath(target string) string {
	return path.Join(path.Dir(target), asidePrefix+strings.ToLower(rand.Text()[:16]))
}

func (t *transaction) saveJournal(ctx context.Context) error {
	for _, p := range t.plan {
		if p.old != "" {
			t.h.Pending = append(t.h.Pending, TempPath{Path: p.fresh, Target: p.target}, TempPath{Path: p.old, Target: p.target, Old: true})
		}
	}
	if len(t.h.Pending) == 0 {
		return nil
	}
	return t.h.Save(ctx)
}

// makeParents creates the parent directories of a target, and records which were missing.
func (t *transaction) makeParents(ctx context.Context, target string) error {
	dir := path.Dir(target)
	if dir == "." {
		return nil
	}
	var missing []string
	for at := dir; at != "." && !t.there[at]; at = path.Dir(at) {
		if _, err := t.h.s.ws.Stat(ctx, at, nil); !errors.Is(err, fault.NotFound) {
			break
		}
		missing = append(missing, at)
	}
	if t.there == nil {
		t.there = map[string]bool{}
	}
	t.there[dir] = true
	if len(missing) == 0 {
		return nil
	}
	slices.Reverse(missing)
	t.made = append(t.made, missing...)
	return t.h.s.ws.Mkdir(ctx, dir, &driver.MkdirOptions{Parents: true})
}

// rollback undoes the steps, also if ctx has ended.
func (t *transaction) rollback(ctx context.Context, was *Metadata, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	h, journal := t.h, t.h.Pending
	*h.Metadata = *was
	h.Pending = journal
	var errs []error
	for _, p := range slices.Backward(t.plan) {
		if p.old == "" && p.made {
			errs = append(errs, h.s.removeAll(ctx, p.target))
		}
	}
	errs = append(errs, h.rollbackJournal(ctx))
	for _, dir := range slices.Backward(t.made) {
		_ = h.s.ws.Remove(ctx, dir, nil) // fails if another process has filled it
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w (and rolling back: %w)", cause, err)
	}
	return cause
}

// cleanUp removes what was replaced. The transaction is committed, so the next call
// removes what can't be removed now.
func (h *Session) cleanUp(ctx context.Context) error {
	if len(h.Pending) == 0 {
		return nil
	}
	for _, a := range h.Pending {
		if err := h.s.removeAll(ctx, a.Path); err != nil {
			h.s.opts.Log.Warn("stage: remove what was replaced", "workspace", h.s.ws.ID(), "path", a.Path, "error", err)
			return nil
		}
	}
	h.Pending = nil
	return h.Save(ctx)
}

// rollbackJournal rolls back, by its journal, a transaction that failed or was interrupted:
// it removes new entries and moves old entries back. A committed transaction is
// cleaned up.
func (h *Session) rollbackJournal(ctx context.Context) error {
	if len(h.Pending) == 0 {
		return nil
	}
	for _, a := range h.Pending {
		_, err := h.s.ws.Stat(ctx, a.Path, &driver.StatOptions{NoFollow: true})
		if errors.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if !a.Old || a.Done {
			if err := h.s.removeAll(ctx, a.Path); err != nil {
				return err
			}
			continue
		}
		if err := h.s.removeAll(ctx, a.Target); err != nil {
			return err
		}
		if err := h.s.ws.Rename(ctx, a.Path, a.Target, &driver.RenameOptions{CreateOnly: true}); err != nil {
			return err
		}
	}
	h.Pending = nil
	return h.Save(ctx)
}

// removeAll removes a path, also a tree that was staged read-only. A missing path is
// no error.
func (s *Stage) removeAll(ctx context.Context, name string) error {
	err := s.ws.Remove(ctx, name, &driver.RemoveOptions{Recursive: true})
	if errors.Is(err, fault.PermissionDenied) {
		if err := s.makeWritable(ctx, name); err != nil {
			return err
		}
		err = s.ws.Remove(ctx, name, &driver.RemoveOptions{Recursive: true})
	}
	if errors.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Remove removes a path of the workspace, also a tree that was staged read-only. A
// missing path is no error.
func (s *Stage) Remove(ctx context.Context, name string) error {
	target, err := s.cleanTarget(name)
	if err != nil {
		return err
	}
	return s.removeAll(ctx, target)
}

// makeWritable adds write permission to the directories of a tree, so that it can be
// removed.
func (s *Stage) makeWritable(ctx context.Context, dir string) error {
	const usable = 0o700
	if err := s.ws.Chmod(ctx, dir, usable); err != nil {
		return err
	}
	entries, err := s.ws.ReadDir(ctx, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type == driver.TypeDir {
			if err := s.makeWritable(ctx, e.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDisjoint refuses targets of one call that are equal, or one inside another.
func checkDisjoint(targets []string) error {
	sorted := slices.Sorted(slices.Values(targets))
	for i, name := range sorted {
		for _, other := range sorted[i+1:] {
			if other == name || strings.HasPrefix(other, name+"/") {
				return fmt.Errorf("stage: targets %q and %q: %w: targets of one call must differ, and none may be inside another", name, other, fault.InvalidArgument)
			}
			if !strings.HasPrefix(other, name) {
				break
			}
		}
	}
	return nil
}

// cleanTarget cleans and checks the path of a target.
func (s *Stage) cleanTarget(name string) (string, error) {
	clean, err := s.ws.Clean(name)
	if err != nil {
		return "", err
	}
	if clean == "." {
		return "", fmt.Errorf("stage: path %q: %w: the path is the workspace itself", name, fault.InvalidArgument)
	}
	return clean, nil
}
