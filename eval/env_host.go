package eval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Host opens environments on the host itself: plain directories without a sandbox. Agents
// run as the user, with the user's environment and network, as in skillgym. All processes
// that an agent started are killed when it ends. Nothing else is prevented.
type Host struct{}

// Kind returns "local".
func (Host) Kind() string { return "local" }

// Sandboxed returns false.
func (Host) Sandboxed() bool { return false }

// Ready returns nil: the host needs nothing.
func (Host) Ready(context.Context) error { return nil }

// Open copies the template to the directory.
func (Host) Open(ctx context.Context, req EnvSpec) (*Env, error) {
	for _, r := range driver.Resources {
		if l := req.Limits[r.Name]; l.Max > 0 && !l.BestEffort {
			return nil, fmt.Errorf("eval: limit %s: %w: the host can't enforce it; use the sandbox", r.Name, fault.Unsupported)
		}
	}
	if err := checkHostPolicy(req.Policy); err != nil {
		return nil, err
	}
	if !req.InPlace {
		if err := fillDir(ctx, req.Template, req.Dir); err != nil {
			return nil, err
		}
	}
	d, closers, err := hostWorkspace(req.Dir)
	if err != nil {
		return nil, err
	}
	ws, err := workspace.New(driver.NewID(), d, nil, nil)
	if err != nil {
		return nil, errors.Join(err, closers(ctx))
	}
	env := envMap(os.Environ())
	maps.Copy(env, req.Policy.Env)
	return &Env{Workspace: ws, dir: req.Dir, env: env, onHost: true, destroy: ws.Close}, nil
}

// checkHostPolicy refuses a policy that only a sandbox can enforce.
func checkHostPolicy(p driver.Policy) error {
	for what, asked := range map[string]bool{
		"isolation " + string(p.Isolation): p.Isolation.Rank() > 0, "network rules": len(p.Network.Allow)+len(p.Network.Deny) > 0, "readOnly": p.ReadOnly, "durable": p.Durable,
	} {
		if asked {
			return fmt.Errorf("eval: policy: %s: %w: the host can't enforce it; use the sandbox", what, fault.Unsupported)
		}
	}
	return nil
}

// hostWorkspace returns a host directory as a driver workspace.
func hostWorkspace(dir string) (*driver.Workspace, func(context.Context) error, error) {
	root, err := files.Open(dir, nil)
	if err != nil {
		return nil, nil, err
	}
	m, err := process.New(&process.Options{Root: dir, AllowEnv: []string{"*"}})
	if err != nil {
		return nil, nil, errors.Join(err, root.Close())
	}
	end := func(ctx context.Context) error { return errors.Join(m.Close(ctx), root.Close()) }
	ref, err := driver.NewRef("host", struct{}{}, driver.NewCapabilities(driver.CapFS, driver.CapShell), 1)
	if err != nil {
		return nil, nil, err
	}
	return &driver.Workspace{
		Ref: ref, Traits: driver.Traits{Isolation: driver.IsolationNone, Network: driver.NetworkOpen, Root: dir, Streaming: true, InPlace: true},
		Life: driver.Life{Close: end, Destroy: end}, FS: root.Module(), Shell: m.Module(),
	}, end, nil
}
