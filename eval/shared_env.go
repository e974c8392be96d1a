package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
)

// Workspaces that are made once for a run: the shared one, one that was bootstrapped once
// and is the template of others, and a template without the results that lie in it.

// Names beside the workspaces of cases. No case key begins with a dot.
const (
	sharedName       = "shared"
	setupName        = "shared-setup"
	templateName     = ".template"
	bootstrappedName = ".bootstrapped"
)

// workspaceDir is a directory below that of the workspaces.
func (v *environments) workspaceDir(name string) string {
	return filepath.Join(v.plan.runDir, "workspaces", name)
}

// makeShared makes the shared workspace.
func (v *environments) makeShared(ctx context.Context, o envRequest) error {
	o.timeout = max(o.timeout, defaultTimeout)
	if err := v.checkTemplate(); err != nil {
		return err
	}
	return v.bootstrapDir(ctx, o, v.workspaceDir(sharedName))
}

// bootstrapDir makes dir a copy of the template and runs the bootstrap command in it, in
// place, if there is one. Its logs go to a directory of their own.
func (v *environments) bootstrapDir(ctx context.Context, o envRequest, dir string) error {
	failed := func(err error) error { return &setupError{OriginWorkspace, "", err} }
	o.caseID, o.runnerID, o.artifacts = "", "", v.workspaceDir(setupName)
	if err := os.MkdirAll(o.artifacts, 0o700); err != nil {
		return failed(fmt.Errorf("eval: make %s: %w: %w", o.artifacts, fault.Of(err), err))
	}
	if err := fillDir(ctx, v.template, dir); err != nil {
		return failed(err)
	}
	d := &preparedEnv{file: v.workspaceFile(dir)}
	d.file.Cwd = dir
	var err error
	if v.plan.workspace.Bootstrap != nil {
		o.read = nil // directories of a runner
		req := v.envSpec(o)
		req.Dir, req.InPlace = dir, true
		req.Hide = v.hiddenDir(req)
		if d.env, err = v.plan.Envs.Open(ctx, req); err != nil {
			return failed(err)
		}
		err = v.runBootstrap(ctx, d, o)
		if cerr := d.env.close(ctx); cerr != nil && err == nil {
			err = failed(cerr)
		}
	}
	return errors.Join(err, d.writeFile(o.artifacts))
}

// removeShared removes the directories of the whole run; the shared workspace only if
// nothing failed.
func (v *environments) removeShared(passed bool) error {
	names := []string{templateName, bootstrappedName}
	if passed {
		names = append(names, sharedName)
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, files.RemoveTree(v.workspaceDir(name)))
	}
	return errors.Join(errs...)
}

// resolveTemplate copies the template if this run writes in it: the lower
// directory of an overlayfs must not change while it is mounted, and agents must not see
// results.
func (v *environments) resolveTemplate(ctx context.Context) error {
	v.template = v.plan.workspace.TemplateDir
	if v.template == "" || checkTemplate(v.template) != nil {
		return nil // each execution reports it
	}
	real, err := filepath.EvalSymlinks(v.template) // without symlinks
	if err != nil {
		return fmt.Errorf("eval: template %s: %w: %w", v.template, fault.Of(err), err)
	}
	v.template = real
	own := v.plan.ownPaths(real)
	if len(own) == 0 {
		return nil
	}
	v.template = v.workspaceDir(templateName)
	return fillDir(ctx, real, v.template, own...)
}

// bootstrapOnce runs the bootstrap command once, and makes its result the template of all
// workspaces.
func (v *environments) bootstrapOnce(ctx context.Context, o envRequest) error {
	dir := v.workspaceDir(bootstrappedName)
	if err := v.bootstrapDir(ctx, o, dir); err != nil {
		return err
	}
	v.template, v.bootstrapped = dir, true
	return nil
}
