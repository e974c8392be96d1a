package cli

import (
	"context"
	"fmt"
	"runtime"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// chooseIsolation decides whether a work runs in the provider sandbox, and refuses flags
// that need it where it does not.
func (a *command) chooseIsolation(ctx context.Context, opts *workOptions) error {
	level := workspace.Isolation(opts.isolation)
	if level.Rank() < 0 || level == driver.IsolationContainer || level == driver.IsolationVM {
		return usagef("--isolation %q: give none, process, bubblewrap, namespaces or gvisor", opts.isolation)
	}
	opts.start.Isolation = level
	opts.start.OnHost = level == driver.IsolationNone
	if !opts.start.OnHost && !a.hasSandbox(ctx) {
		if level != driver.IsolationProcess {
			return a.noSandbox(opts)
		}
		opts.start.OnHost = true
	}
	if !opts.start.OnHost {
		return nil
	}
	for _, flag := range []struct {
		given     bool
		name, why string
	}{
		{len(opts.allowNet) > 0, "allow-net", "its network is open, and there is no proxy"},
		{len(opts.policy.secrets) > 0, "secret", "there is no proxy that adds it"},
		{opts.start.ShareLogin, "share-login", "its login is yours already"},
		{opts.start.InPlace, "in-place", "only the copy protects the project"},
		{len(opts.host.rw)+len(opts.host.ro)+len(opts.host.sockets) > 0, "rw, --ro and --sockets", "it uses the paths of this host"},
		{opts.toolchain, "toolchain", "it uses those of this host"},
		{opts.start.NoAsk && level == driver.IsolationNone, "yolo", "nothing confines an agent that asks for no permissions"},
	} {
		if flag.given {
			return usagef("--%s is for works in the sandbox; with --isolation %s leave it out: %s", flag.name, level, flag.why)
		}
	}
	return nil
}

// hasSandbox reports whether this system has the provider sandbox. Whether it works is another
// question.
func (a *command) hasSandbox(ctx context.Context) bool {
	for _, p := range a.providers {
		if p.Kind() == sandboxKind {
			_, err := p.Probe(ctx)
			return fault.Of(err) != fault.Unsupported
		}
	}
	return runtime.GOOS == "linux"
}

// noSandbox is the error of a work on a system without the provider sandbox.
func (a *command) noSandbox(opts *workOptions) error {
	what := "-- " + shellText(opts.start.Words)
	if agent := opts.start.Agent; agent != nil {
		what = agent.Name
	}
	return fmt.Errorf("work: %w: this system has no provider sandbox, which needs Linux; the lesser choices here are:\n"+
		"  croft work --isolation process %s   (sandbox-exec: writes to a copy of the project only, credential files are hidden; other files are readable, the network is open)\n"+
		"  croft work --isolation none %s   (only the project is a copy: nothing else is protected)", fault.Unsupported, what, what)
}
