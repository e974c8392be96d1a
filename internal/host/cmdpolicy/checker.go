package cmdpolicy

import (
	"context"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Checker checks commands against rules. It is safe for concurrent use.
type Checker struct {
	opts  Options
	paths *pathChecker // nil if paths are not checked
}

// New returns a checker with the given rules; nil is Sandbox.
func New(opts *Options) (*Checker, error) {
	if opts == nil {
		opts = Sandbox()
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	c := &Checker{opts: *opts}
	if opts.Paths.Check {
		c.paths = newPathChecker(opts)
	}
	return c, nil
}

// Check returns the command to run instead of cmd, or an error, which is a Refusal unless
// ctx ended. It has no side effects.
func (c *Checker) Check(ctx context.Context, cmd driver.Command) (driver.Command, error) {
	if err := ctx.Err(); err != nil {
		return driver.Command{}, fmt.Errorf("cmdpolicy: check: %w", err)
	}
	for _, rule := range []func(driver.Command) error{c.checkForm, c.checkLimits, c.checkArgv} {
		if err := rule(cmd); err != nil {
			return driver.Command{}, err
		}
	}
	if err := c.checkCalls(ctx, cmd); err != nil {
		return driver.Command{}, err
	}
	if err := c.checkEnv(cmd); err != nil {
		return driver.Command{}, err
	}
	return cmd, nil
}

// checkForm refuses empty commands, NUL, and control characters, which can mislead a reader
// on a terminal.
func (c *Checker) checkForm(cmd driver.Command) error {
	if len(cmd.Argv) == 0 && strings.TrimSpace(cmd.Script) == "" || len(cmd.Argv) > 0 && strings.TrimSpace(cmd.Argv[0]) == "" {
		return newRefusal(RuleWellFormed, fault.InvalidArgument, TextEmpty, "")
	}
	for s := range allText(cmd) {
		if strings.IndexByte(s, 0) >= 0 {
			return newRefusal(RuleWellFormed, fault.InvalidArgument, TextNUL, s)
		}
		if c.opts.Control && strings.ContainsFunc(s, isControl) {
			return newRefusal(RuleWellFormed, fault.InvalidArgument, TextControl, s)
		}
	}
	return nil
}

func isControl(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r < 0xa0
}

// allText yields all strings of a command that a process gets.
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

func (c *Checker) checkLimits(cmd driver.Command) error {
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
		{argv, c.opts.Limits.Argv, TextArgvTooLong},
		{env, c.opts.Limits.Env, TextEnvTooLong},
		{len(cmd.Script), c.opts.Limits.Script, TextScriptTooLong},
	} {
		if l.most > 0 && l.size > l.most {
			return newRefusal(RuleLimits, fault.InvalidArgument, l.text, fmt.Sprintf("%d bytes, at most %d", l.size, l.most))
		}
	}
	return nil
}

const metacharacters = ";&|<>`$(){}\\!\n\r"

func (c *Checker) checkArgv(cmd driver.Command) error {
	if c.opts.Argv.Only && cmd.Script != "" {
		return newRefusal(RuleArgv, fault.PermissionDenied, TextScript, "")
	}
	for _, a := range cmd.Argv {
		switch {
		case c.opts.Argv.Metacharacters && strings.ContainsAny(a, metacharacters):
			return newRefusal(RuleArgv, fault.PermissionDenied, TextMetacharacter, a)
		case c.opts.Argv.Globs && strings.ContainsAny(a, "*?["):
			return newRefusal(RuleArgv, fault.PermissionDenied, TextGlob, a)
		}
	}
	return nil
}

// checkCalls checks the programs, arguments, redirections and directory of a command.
func (c *Checker) checkCalls(ctx context.Context, cmd driver.Command) error {
	if len(c.opts.Commands.Allow) == 0 && len(c.opts.Commands.Deny) == 0 && c.paths == nil {
		return nil
	}
	f := new(analysis)
	if len(cmd.Argv) > 0 {
		f.addArgv(cmd.Argv)
	}
	if cmd.Script != "" {
		f.addScript(cmd.Script, 0)
	}
	if err := c.checkPrograms(f); err != nil {
		return err
	}
	if c.paths == nil {
		return nil
	}
	home := c.opts.Paths.Home
	if h, ok := cmd.Env["HOME"]; ok {
		home = h
	}
	return c.paths.checkCommand(ctx, f, cmd.Dir, home)
}

// Module returns a copy of shell whose Start and Run call Check first. A nil shell gives
// nil.
func (c *Checker) Module(shell *driver.Shell) *driver.Shell {
	if shell == nil {
		return nil
	}
	out := *shell
	if shell.Starter != nil {
		out.Starter = checkedStarter{c, shell.Starter}
	}
	if run := shell.Run; run != nil {
		out.Run = func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
			cmd, err := c.Check(ctx, cmd)
			if err != nil {
				return driver.Result{}, err
			}
			return run(ctx, cmd)
		}
	}
	return &out
}

// A checkedStarter is a driver.Starter that calls Check first.
type checkedStarter struct {
	checker *Checker
	next    driver.Starter
}

// Start starts the command if Check allows it.
func (s checkedStarter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	cmd, err := s.checker.Check(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return s.next.Start(ctx, cmd)
}
