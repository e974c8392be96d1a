package bootstrap

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace/driver"
)

// A Hook runs once, after a workspace was made and before it is handed out. It
// does not converge: what must hold later is for a Spec.
type Hook func(ctx context.Context, st *stage.Stage) error

// HookSpec is a hook in words: inputs, then commands in order.
type HookSpec struct {
	Inputs   []stage.Input
	Commands []HookCommand
}

// A HookCommand is one program that a hook runs.
type HookCommand struct {
	Name    string // in errors; "" is its number
	Cmd     string
	Args    []string
	Env     map[string]string
	Cwd     string
	Stdin   string
	Timeout time.Duration // 0 is DefaultTimeout
	Limits  driver.Limits
}

// NewHook returns the hook that does what spec says. A command that does not exit
// with 0 fails it.
func NewHook(spec HookSpec) Hook {
	return func(ctx context.Context, st *stage.Stage) error {
		for i, c := range spec.Commands {
			if c.Cmd == "" {
				return fmt.Errorf("command %s: %w: cmd is empty", c.label(i), fault.InvalidArgument)
			}
		}
		if len(spec.Inputs) > 0 {
			if _, err := st.StageInputs(ctx, spec.Inputs); err != nil {
				return fmt.Errorf("inputs: %w", err)
			}
		}
		for i, c := range spec.Commands {
			if err := c.run(ctx, st); err != nil {
				return fmt.Errorf("command %s: %w", c.label(i), err)
			}
		}
		return nil
	}
}

func (c HookCommand) label(i int) string {
	if c.Name != "" {
		return fmt.Sprintf("%q", c.Name)
	}
	return fmt.Sprint(i)
}

func (c HookCommand) run(ctx context.Context, st *stage.Stage) error {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	res, err := st.Run(ctx, driver.Command{
		Argv: append([]string{c.Cmd}, c.Args...), Env: c.Env, Dir: c.Cwd, Stdin: strings.NewReader(c.Stdin), Timeout: c.Timeout, Limits: c.Limits,
	})
	if err != nil {
		return err
	}
	return runError(c.Cmd, res)
}

// cleanupTime bounds the end of a workspace whose hooks failed.
const cleanupTime = 30 * time.Second

// RunHooks runs hooks in order. Where one fails, cleanup, which destroys the
// workspace, is called, and the error says which hook it was.
func RunHooks(ctx context.Context, st *stage.Stage, cleanup func(ctx context.Context) error, hooks ...Hook) error {
	for i, h := range hooks {
		if h == nil {
			return fmt.Errorf("bootstrap: workspace init hook %d: %w: it is nil", i, fault.InvalidArgument)
		}
	}
	for i, h := range hooks {
		err := h(ctx, st)
		if err == nil {
			continue
		}
		err = fmt.Errorf("bootstrap: workspace init hook %d: %w", i, err)
		if cleanup != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
			defer cancel()
			if cerr := cleanup(ctx); cerr != nil {
				return fmt.Errorf("%w (and to clean up: %w)", err, cerr)
			}
		}
		return err
	}
	return nil
}
