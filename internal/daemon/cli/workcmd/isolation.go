package workcmd

import (
	"context"
	"fmt"
	"runtime"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// chooseIsolation decides whether a work runs in the provider sandbox, and refuses flags
// that need it where it does not.
func (a *command) chooseIsolation(ctx context.Context, opts *options) error {
	level := workspace.Isolation(opts.isolation)
	if level.Rank() < 0 || level == driver.IsolationContainer || level == driver.IsolationVM {
		return console.Usagef("--isolation %q: give none, process, bubblewrap, namespaces or gvisor", opts.isolation)
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
		if level == driver.IsolationProcess { // that of the sandbox has neither copies nor network rules
			opts.start.Isolation = driver.IsolationNamespaces
		}
		return nil
	}
	if err := checkYolo(opts.start); err != nil {
		return err
	}
	for _, flag := range []struct {
		given     bool
		name, why string
	}{
		{len(opts.allowNet) > 0, "allow-net", "its network is open, and there is no proxy"},
		{len(opts.policy.Secrets) > 0, "secret", "there is no proxy that adds it"},
		{opts.start.ShareLogin, "share-login", "its login is yours already"},
		{opts.start.InPlace, "in-place", "only the copy protects the project"},
		{len(opts.host.RW) > 0, "rw", "it uses the paths of this host"},
		{len(opts.host.RO) > 0, "ro", "it uses the paths of this host"},
		{len(opts.host.Sockets) > 0, "sockets", "it uses those of this host"},
		{opts.toolchain, "toolchain", "it uses those of this host"},
	} {
		if flag.given {
			return console.Usagef("--%s is for works in the sandbox; with --isolation %s leave it out: %s", flag.name, level, flag.why)
		}
	}
	return nil
}

// checkYolo refuses an agent that neither asks for permissions nor is confined.
func checkYolo(start work.Options) error {
	if start.NoAsk && start.OnHost && start.Isolation.Rank() == 0 {
		return console.Usagef("--yolo is for works in the sandbox; with --isolation none leave it out: nothing confines an agent that asks for no permissions")
	}
	return nil
}

// checkLinkedGit refuses a work tree whose repository lies elsewhere, if nothing keeps the
// work from changing that: git in the copy would use it.
func checkLinkedGit(start work.Options) error {
	if start.Project.LinkedGit == "" || !start.OnHost || start.Isolation.Rank() > 0 {
		return nil
	}
	return fmt.Errorf("work: %w: .git of %s leads to the repository %s, which git in a copy would change, too, and --isolation none does not prevent it; "+
		"clone the repository and change to the clone, or leave out --isolation none", fault.Unsupported, console.Printable(start.Project.Dir), console.Printable(start.Project.LinkedGit))
}

// hasSandbox reports whether this system has the provider sandbox. Whether it works is another
// question.
func (a *command) hasSandbox(ctx context.Context) bool {
	for _, p := range a.Providers {
		if p.Kind() == sandbox.Kind {
			_, err := p.Probe(ctx)
			return fault.Of(err) != fault.Unsupported
		}
	}
	return runtime.GOOS == "linux"
}

// noSandbox is the error of a work on a system without the provider sandbox.
func (a *command) noSandbox(opts *options) error {
	what := "-- " + console.ShellText(opts.start.Words)
	if agent := opts.start.Agent; agent != nil {
		what = agent.Name
	}
	return fmt.Errorf("work: %w: this system has no provider sandbox, which needs Linux; the lesser choices here are:\n"+
		"  croft work --isolation process %s   (sandbox-exec: writes to a copy of the project only, credential files are hidden; other files are readable, the network is open)\n"+
		"  croft work --isolation none %s   (only the project is a copy: nothing else is protected)", fault.Unsupported, what, what)
}
