package eval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/eval/agent"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// ProviderEnvs opens environments with any provider whose workspaces have files and a
// shell, such as containers. No host directory is mounted: the template is copied in, and
// the directories of the suite and of the artifacts do not exist inside. So only agents
// that write their session to standard output work in them.
type ProviderEnvs struct {
	Provider string // its kind

	// OpenWorkspace opens a workspace and returns a function that destroys it. Required.
	OpenWorkspace func(ctx context.Context, spec workspace.Spec) (*workspace.Workspace, func(context.Context) error, error)
}

// Kind returns the kind of the provider.
func (o *ProviderEnvs) Kind() string { return o.Provider }

// Sandboxed returns true: processes do not run directly on the host.
func (o *ProviderEnvs) Sandboxed() bool { return true }

// Ready opens and destroys a workspace. It refuses a provider whose workspaces have no
// shell.
func (o *ProviderEnvs) Ready(ctx context.Context) error {
	ws, destroy, err := o.OpenWorkspace(ctx, workspace.Spec{Kind: o.Provider})
	if err != nil {
		return err
	}
	has := ws.Capabilities().Has(driver.CapShell)
	if err := destroy(context.WithoutCancel(ctx)); err != nil || has {
		return err
	}
	return fmt.Errorf("eval: provider %s: %w: agents are programs, and its workspaces have files and no shell; suites run with sandbox (the default), local, docker, "+
		"or any other provider that has one", o.Provider, fault.Unsupported)
}

// providerHome is the home directory of programs in these environments.
const providerHome = "/tmp/croft-eval-home"

// Open opens a workspace and copies the template to it.
func (o *ProviderEnvs) Open(ctx context.Context, req EnvSpec) (_ *Env, err error) {
	if req.InPlace {
		return nil, fmt.Errorf("eval: work in %s: %w: workspaces of provider %s are not directories of the host; use mode isolated, or the sandbox", req.Dir, fault.Unsupported, o.Provider)
	}
	policy, err := policyOf(req)
	if err != nil {
		return nil, err
	}
	ws, destroy, err := o.OpenWorkspace(ctx, workspace.Spec{Kind: o.Provider, Want: driver.NewCapabilities(driver.CapFS, driver.CapShell), Policy: policy})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, destroy(context.WithoutCancel(ctx)))
		}
	}()
	if req.Template != "" {
		if err := importTemplate(ctx, ws, req.Template); err != nil {
			return nil, err
		}
	}
	home := providerHome
	if res, err := ws.Run(ctx, driver.Command{Argv: []string{"mkdir", "-p", home}}); err != nil || res.ExitCode != 0 {
		home = "" // only the workspace is writable
	}
	env := map[string]string{}
	maps.Copy(env, req.Policy.Env)
	return &Env{Workspace: ws, dir: ws.Traits().Root, env: env, sandboxed: true, noHostMounts: true, template: req.Template, home: home, destroy: destroy}, nil
}

// importTemplate copies the content of a host directory to an empty workspace.
func importTemplate(ctx context.Context, ws *workspace.Workspace, from string) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("eval: read %s: %w: %w", from, fault.Of(err), err)
	}
	for _, e := range list {
		at := filepath.Join(from, e.Name())
		switch {
		case e.IsDir():
			_, err = ws.Import(ctx, at, e.Name(), nil)
		case e.Type()&fs.ModeSymlink != 0:
			var target string
			if target, err = os.Readlink(at); err == nil {
				err = ws.Symlink(ctx, target, e.Name())
			}
		case e.Type().IsRegular():
			err = importFile(ctx, ws, at, e.Name())
		}
		if err != nil {
			return fmt.Errorf("eval: copy %s into the workspace: %w: %w", at, fault.Of(err), err)
		}
	}
	return nil
}

func importFile(ctx context.Context, ws *workspace.Workspace, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = ws.Write(ctx, to, f, &workspace.WriteOptions{Mode: info.Mode().Perm(), SetMode: true, ModTime: info.ModTime()})
	return err
}

// translatePaths replaces paths of the template by paths in the workspace, and sets the
// home inside, for an environment without host mounts.
func (p *Env) translatePaths(argv []string, env map[string]string) ([]string, map[string]string) {
	if !p.noHostMounts {
		return argv, env
	}
	argv, env = slices.Clone(argv), maps.Clone(env)
	for i, a := range argv {
		if p.template == "" || !filepath.IsAbs(a) || !paths.Inside(p.template, a) {
			continue
		}
		if rel, err := filepath.Rel(p.template, a); err == nil {
			argv[i] = path.Join(p.dir, filepath.ToSlash(rel))
		}
	}
	if env["CROFT_EVAL_HOME"] != "" {
		env["CROFT_EVAL_HOME"] = p.home
	}
	return argv, env
}

// streamingAgents write their session to standard output and need no home directory of
// the run.
var streamingAgents = []string{"acp", "command"}

var _ agent.Runner = (*Env)(nil)
