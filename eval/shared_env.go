package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/posix/boundary"
)

// Workspaces that are made once for a whole run: the shared one, one that all
// start from after a single bootstrap, and a template without the results that
// lie in it.

func (p *provision) sharedDir() string { return filepath.Join(p.runDir, "workspaces", "shared") }

func (p *provision) setupDir() string {
	return filepath.Join(p.runDir, "workspaces", "shared-setup")
}

// sharedOnce makes the shared workspace, for whoever comes first. Its failure is
// everyone's.
func (p *provision) sharedOnce(ctx context.Context, o envRequest) error {
	p.shared.once.Do(func() { p.shared.err = p.makeShared(ctx, o) })
	return p.shared.err
}

func (p *provision) makeShared(ctx context.Context, o envRequest) error {
	failed := func(err error) error { return &setupError{OriginWorkspace, "", err} }
	o.caseID, o.runnerID, o.artifacts = "", "", p.setupDir()
	o.timeout = max(o.timeout, defaultTimeout)
	if err := os.MkdirAll(o.artifacts, 0o755); err != nil {
		return failed(fmt.Errorf("eval: make %s: %w: %w", o.artifacts, fault.Of(err), err))
	}
	if err := p.ready(); err != nil {
		return err
	}
	if err := p.fill(ctx, p.sharedDir()); err != nil {
		return failed(err)
	}
	d := &preparedEnv{file: workspaceFile{Mode: p.spec.Mode, Cwd: p.sharedDir(), TemplateDir: p.spec.TemplateDir, WorkspacePath: p.sharedDir(), Provider: p.envs.Kind()}}
	if p.spec.Bootstrap == nil {
		return writeJSON(filepath.Join(o.artifacts, "workspace.json"), d.file)
	}
	return p.bootstrapIn(ctx, d, o, p.sharedDir())
}

// fill makes dir a copy of the template.
func (p *provision) fill(ctx context.Context, dir string) error {
	if err := mountPoint(dir); err != nil {
		return fmt.Errorf("eval: make the workspace: %w: %w", fault.Of(err), err)
	}
	if p.template == "" {
		return nil
	}
	return copyTree(ctx, p.template, dir, p.exclude)
}

// bootstrapIn runs the bootstrap command in a directory of the host, in place.
func (p *provision) bootstrapIn(ctx context.Context, d *preparedEnv, o envRequest, dir string) error {
	req := EnvSpec{Dir: dir, InPlace: true, Write: []string{o.artifacts}, Read: p.read, Hosts: o.hosts, Limits: p.limits, Policy: p.policy, Env: p.env}
	req.Hide = p.hide(req)
	env, err := p.envs.Open(ctx, req)
	if err != nil {
		return &setupError{OriginWorkspace, "", err}
	}
	d.env = env
	err = d.bootstrap(ctx, p.spec.Bootstrap, o, p.runDir)
	if cerr := env.close(ctx); cerr != nil && err == nil {
		err = &setupError{OriginWorkspace, "", cerr}
	}
	return errors.Join(err, writeJSON(filepath.Join(o.artifacts, "workspace.json"), d.file))
}

// settleShared removes what was made for all, where nothing failed.
func (p *provision) settleShared(passed bool) error {
	var errs []error
	for _, name := range []string{templateName, bootstrappedName} {
		errs = append(errs, boundary.RemoveTree(filepath.Join(p.runDir, "workspaces", name)))
	}
	if passed {
		errs = append(errs, boundary.RemoveTree(p.sharedDir()))
	}
	return errors.Join(errs...)
}

// Names beside the workspaces, of what they start from. No case has one of these.
const (
	templateName     = ".template"
	bootstrappedName = ".bootstrapped"
)

// clearTemplate makes a template of its own where the results of this run lie in
// the one that is given: an overlay must not change below what lies over it, and
// nobody's results are part of what an agent starts with.
func (p *provision) clearTemplate(ctx context.Context) error {
	p.template = p.spec.TemplateDir
	if p.template == "" || checkTemplate(p.template) != nil {
		return nil // each execution says so
	}
	real, err := filepath.EvalSymlinks(p.template) // a link is what it leads to
	if err != nil {
		return fmt.Errorf("eval: template %s: %w: %w", p.template, fault.Of(err), err)
	}
	p.template = real
	if !inDir(real, p.runDir) {
		return nil
	}
	p.exclude = filepath.Dir(p.runDir)
	if p.exclude == real {
		p.exclude = p.runDir
	}
	dir := filepath.Join(p.runDir, "workspaces", templateName)
	if err := p.fill(ctx, dir); err != nil {
		return err
	}
	p.template, p.exclude = dir, ""
	return nil
}

// bootstrapOnce runs the bootstrap command once, and lets all workspaces start
// from what it left.
func (p *provision) bootstrapOnce(ctx context.Context, o envRequest) error {
	dir := filepath.Join(p.runDir, "workspaces", bootstrappedName)
	o.caseID, o.runnerID, o.artifacts = "", "", p.setupDir()
	if err := os.MkdirAll(o.artifacts, 0o755); err != nil {
		return &setupError{OriginWorkspace, "", fmt.Errorf("eval: make %s: %w: %w", o.artifacts, fault.Of(err), err)}
	}
	if err := p.fill(ctx, dir); err != nil {
		return &setupError{OriginWorkspace, "", err}
	}
	d := &preparedEnv{file: workspaceFile{Mode: p.spec.Mode, Cwd: dir, TemplateDir: p.spec.TemplateDir, WorkspacePath: dir, Provider: p.envs.Kind()}}
	if err := p.bootstrapIn(ctx, d, o, dir); err != nil {
		return err
	}
	p.template, p.made = dir, true
	return nil
}
