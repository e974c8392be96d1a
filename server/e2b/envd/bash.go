package envd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Code in bash is run by the shell of the sandbox: no kernel is needed.

// bashLanguage is the language of contexts that the shell runs.
const bashLanguage = "bash"

// A bashContext is a context whose state is in a file of the sandbox between two runs:
// variables, functions, aliases, options and the directory.
type bashContext struct {
	driver.CodeContext
	mu sync.Mutex // held while code runs
}

// state is the path of the file in the sandbox.
func (b *bashContext) state() string { return "/tmp/.croft-" + b.ID }

// createBash creates a context of bash.
func (c *sandboxCall) createBash(dir string) driver.CodeContext {
	b := &bashContext{CodeContext: driver.CodeContext{ID: driver.NewID(), Language: bashLanguage, Dir: dir, Created: time.Now().UTC()}}
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	c.box.shells[b.ID] = b
	return b.CodeContext
}

// bash returns a context of bash, nil if no context of bash has that id.
func (c *sandboxCall) bash(id string) *bashContext {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	return c.box.shells[id]
}

// allContexts lists the contexts of kernels and of bash.
func (c *sandboxCall) allContexts(ctx context.Context) ([]driver.CodeContext, error) {
	list, err := c.Workspace.Contexts(ctx)
	if err != nil && fault.Of(err) != fault.Unsupported {
		return nil, err
	}
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	for _, b := range c.box.shells {
		list = append(list, b.CodeContext)
	}
	return list, nil
}

// restartBash drops the state of a context.
func (c *sandboxCall) restartBash(ctx context.Context, b *bashContext) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := c.inside(ctx, `rm -f -- "$1"`, b.state())
	return err
}

// deleteBash ends a context.
func (c *sandboxCall) deleteBash(ctx context.Context, b *bashContext) error {
	c.box.mu.Lock()
	delete(c.box.shells, b.ID)
	c.box.mu.Unlock()
	return c.restartBash(ctx, b)
}

// runScript is run by bash -c, with the path of the state instead of STATE. It reads the code from
// its standard input, as an argument is bounded. Readonly variables can't be set again.
// It is one line, so that the line numbers of errors are those of the code.
const runScript = `[ ! -e STATE ] || . STATE >/dev/null 2>&1; ` +
	`trap '{ declare -p; declare -f; alias -p; shopt -p; printf "cd -- %q\n" "$PWD"; set +o; } >STATE 2>/dev/null' EXIT; ` +
	`eval "$(cat)" </dev/null`

// runCode runs code in a context of a kernel or of bash.
func (c *sandboxCall) runCode(ctx context.Context, code driver.Code) (driver.CodeResult, error) {
	b := c.bash(code.Context)
	if b == nil {
		return c.Workspace.RunCode(ctx, code)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	cmd := driver.Command{
		Argv: []string{"/bin/bash", "-c", strings.ReplaceAll(runScript, "STATE", b.state()), "bash"},
		Dir:  b.Dir, Env: c.Env, Stdin: strings.NewReader(code.Source), Timeout: code.Timeout,
	}
	var one sync.Mutex // the two streams are independent of each other
	on := func(o driver.Output) error {
		if code.OnOutput == nil {
			return nil
		}
		one.Lock()
		defer one.Unlock()
		return code.OnOutput(o)
	}
	var flush [2]func() error
	cmd.OnStdout, flush[0] = outputOf(driver.OutputStdout, on)
	cmd.OnStderr, flush[1] = outputOf(driver.OutputStderr, on)
	res, err := c.Workspace.Run(ctx, cmd)
	if err != nil {
		return driver.CodeResult{}, err
	}
	for _, f := range flush {
		if err := f(); err != nil {
			return driver.CodeResult{}, err
		}
	}
	out := driver.CodeResult{ExitCode: res.ExitCode, Cause: res.Cause}
	switch {
	case res.Cause != "":
		out.Error = &driver.CodeError{Name: "ExitError", Value: fmt.Sprintf("the code was ended: %s", res.Cause)}
	case res.ExitCode != 0:
		out.Error = &driver.CodeError{Name: "ExitError", Value: strconv.Itoa(res.ExitCode)}
	}
	return out, nil
}

// outputOf returns a function that passes output on as text, and one that passes on the rest. A
// character may be divided between two parts of the output.
func outputOf(kind driver.OutputKind, on func(driver.Output) error) (write func([]byte) error, flush func() error) {
	var rest []byte
	send := func(text []byte) error {
		if len(text) == 0 {
			return nil
		}
		return on(driver.Output{Kind: kind, Text: string(text)})
	}
	write = func(data []byte) error {
		data = append(rest, data...)
		end := len(data)
		for back := 1; back < utf8.UTFMax && back <= end; back++ {
			if utf8.RuneStart(data[end-back]) {
				if !utf8.FullRune(data[end-back:]) {
					end -= back
				}
				break
			}
		}
		rest = append([]byte(nil), data[end:]...)
		return send(data[:end])
	}
	return write, func() error { return send(rest) }
}
