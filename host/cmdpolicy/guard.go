package cmdpolicy

import (
	"context"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Guard judges commands. It may be used from any number of goroutines.
type Guard struct {
	opts  Options
	fence *fence // nil where paths are not judged
}

// New returns a guard with the given rules; nil is those of Sandbox.
func New(opts *Options) (*Guard, error) {
	if opts == nil {
		opts = Sandbox()
	}
	if err := opts.check(); err != nil {
		return nil, err
	}
	g := &Guard{opts: *opts}
	if opts.Paths.Check {
		g.fence = newFence(opts)
	}
	return g, nil
}

// Check returns the command to run in place of cmd, or an error that is a
// Refusal unless ctx ended. It starts nothing and changes nothing.
func (g *Guard) Check(ctx context.Context, cmd driver.Command) (driver.Command, error) {
	if err := ctx.Err(); err != nil {
		return driver.Command{}, fmt.Errorf("guard: check: %w", err)
	}
	for _, rule := range []func(driver.Command) error{g.checkForm, g.checkLimits, g.checkArgv} {
		if err := rule(cmd); err != nil {
			return driver.Command{}, err
		}
	}
	if err := g.checkCalls(ctx, cmd); err != nil {
		return driver.Command{}, err
	}
	env, err := g.filter(cmd.Env)
	if err != nil {
		return driver.Command{}, err
	}
	cmd.Env = env
	return cmd, nil
}

// checkForm refuses what means nothing, or something else to whoever reads it on
// a terminal.
func (g *Guard) checkForm(cmd driver.Command) error {
	if len(cmd.Argv) == 0 && strings.TrimSpace(cmd.Script) == "" || len(cmd.Argv) > 0 && strings.TrimSpace(cmd.Argv[0]) == "" {
		return refuse(RuleWellFormed, fault.InvalidArgument, TextEmpty, "")
	}
	for s := range allText(cmd) {
		if strings.IndexByte(s, 0) >= 0 {
			return refuse(RuleWellFormed, fault.InvalidArgument, TextNUL, s)
		}
		if g.opts.Control && strings.ContainsFunc(s, isControl) {
			return refuse(RuleWellFormed, fault.InvalidArgument, TextControl, s)
		}
	}
	return nil
}

func isControl(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r < 0xa0
}

// allText yields everything that a process would be given.
func allText(cmd driver.Command) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, s := range cmd.Argv {
			if !yield(s) {
				return
			}
		}
		if !yield(cmd.Script) || !yield(cmd.Dir) {
			return
		}
		for k, v := range cmd.Env {
			if !yield(k) || !yield(v) {
				return
			}
		}
	}
}

func (g *Guard) checkLimits(cmd driver.Command) error {
	argv := 0
	for _, a := range cmd.Argv {
		argv += len(a) + 1
	}
	env := 0
	for k, v := range cmd.Env {
		env += len(k) + len(v) + 2
	}
	for _, l := range []struct {
		size, most int
		text       string
	}{
		{argv, g.opts.Limits.Argv, TextArgvTooLong},
		{env, g.opts.Limits.Env, TextEnvTooLong},
		{len(cmd.Script), g.opts.Limits.Script, TextScriptTooLong},
	} {
		if l.most > 0 && l.size > l.most {
			return refuse(RuleLimits, fault.InvalidArgument, l.text, fmt.Sprintf("%d bytes, at most %d", l.size, l.most))
		}
	}
	return nil
}

const metacharacters = ";&|<>`$(){}\\!\n\r"

func (g *Guard) checkArgv(cmd driver.Command) error {
	if g.opts.Argv.Only && cmd.Script != "" {
		return refuse(RuleArgv, fault.PermissionDenied, TextScript, "")
	}
	for _, a := range cmd.Argv {
		switch {
		case g.opts.Argv.Metacharacters && strings.ContainsAny(a, metacharacters):
			return refuse(RuleArgv, fault.PermissionDenied, TextMetacharacter, a)
		case g.opts.Argv.Globs && strings.ContainsAny(a, "*?["):
			return refuse(RuleArgv, fault.PermissionDenied, TextGlob, a)
		}
	}
	return nil
}

// checkCalls judges the programs, and what they are told of files.
func (g *Guard) checkCalls(ctx context.Context, cmd driver.Command) error {
	if len(g.opts.Commands.Allow) == 0 && len(g.opts.Commands.Deny) == 0 && g.fence == nil {
		return nil
	}
	f := new(finding)
	if len(cmd.Argv) > 0 {
		f.argv(cmd.Argv)
	}
	if cmd.Script != "" {
		f.script(cmd.Script, 0)
	}
	if err := g.checkPrograms(f); err != nil {
		return err
	}
	if g.fence == nil {
		return nil
	}
	home := g.opts.Paths.Home
	if h, ok := cmd.Env["HOME"]; ok {
		home = h
	}
	return g.fence.check(ctx, f, cmd.Dir, home)
}

// Module returns a module that does what shell does, after Check: its Start and
// Run refuse what the guard refuses, and the rest is shell's own. nil is nil.
func (g *Guard) Module(shell *driver.Shell) *driver.Shell {
	if shell == nil {
		return nil
	}
	out := *shell
	if shell.Starter != nil {
		out.Starter = starter{g, shell.Starter}
	}
	if run := shell.Run; run != nil {
		out.Run = func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
			cmd, err := g.Check(ctx, cmd)
			if err != nil {
				return driver.Result{}, err
			}
			return run(ctx, cmd)
		}
	}
	return &out
}

// A starter is a driver.Starter behind a guard.
type starter struct {
	guard *Guard
	next  driver.Starter
}

// Start starts what the guard lets through.
func (s starter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	cmd, err := s.guard.Check(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return s.next.Start(ctx, cmd)
}
