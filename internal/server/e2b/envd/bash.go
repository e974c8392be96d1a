package envd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

// A bashContext is a context whose state is in a directory of the sandbox between two runs: what the
// context is, and its variables, functions, aliases, options and directory. So it outlives the
// server.
type bashContext struct {
	driver.CodeContext
	def bool       // the default context of bash
	mu  sync.Mutex // held while code runs
}

// bashContexts is the directory of the contexts in the sandbox.
const bashContexts = "/tmp/.croft-bash"

// dir is the directory of the context in the sandbox.
func (b *bashContext) dir() string { return bashContexts + "/" + b.ID }

// bashAbout is the file in the directory that says what the context is.
type bashAbout struct {
	ID      string    `json:"id"`
	Dir     string    `json:"dir"`
	Created time.Time `json:"created"`
	Default bool      `json:"default"`
}

// createBash creates a context of bash.
func (c *sandboxCall) createBash(ctx context.Context, dir string, def bool) (driver.CodeContext, error) {
	b := &bashContext{CodeContext: driver.CodeContext{ID: driver.NewID(), Language: bashLanguage, Dir: dir, Created: time.Now().UTC()}, def: def}
	about, err := json.Marshal(bashAbout{b.ID, b.Dir, b.Created, def})
	if err == nil {
		_, err = c.inside(ctx, `umask 077; mkdir -p -- "$1" && printf '%s\n' "$2" > "$1/about"`, b.dir(), string(about))
	}
	if err != nil {
		return driver.CodeContext{}, err
	}
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	c.box.shells[b.ID] = b
	return b.CodeContext, nil
}

// bash returns a context of bash, nil if no context of bash with that id is known.
func (c *sandboxCall) bash(id string) *bashContext {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	return c.box.shells[id]
}

// findBash finds the contexts of bash that an earlier server has created. Programs inside may forge
// them: they are data.
func (c *sandboxCall) findBash(ctx context.Context) error {
	c.box.mu.Lock()
	known := c.box.shellsKnown
	c.box.mu.Unlock()
	if known {
		return nil
	}
	out, err := c.inside(ctx, `for f in "$1"/*/about; do [ ! -f "$f" ] || head -c 8192 -- "$f"; done`, bashContexts)
	if err != nil {
		return err
	}
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	for line := range bytes.Lines(out) {
		var about bashAbout
		if json.Unmarshal(line, &about) != nil || !driver.ValidID(about.ID) || !driver.ValidName(about.Dir) || c.box.shells[about.ID] != nil {
			continue
		}
		c.box.shells[about.ID] = &bashContext{
			CodeContext: driver.CodeContext{ID: about.ID, Language: bashLanguage, Dir: about.Dir, Created: about.Created}, def: about.Default,
		}
	}
	c.box.shellsKnown = true
	return nil
}

// allContexts lists the contexts of kernels and of bash.
func (c *sandboxCall) allContexts(ctx context.Context) ([]driver.CodeContext, error) {
	list, err := c.Workspace.Contexts(ctx)
	if err != nil && fault.Of(err) != fault.Unsupported {
		return nil, err
	}
	if err := c.findBash(ctx); err != nil {
		return nil, err
	}
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	for _, b := range c.box.shells {
		list = append(list, b.CodeContext)
	}
	slices.SortFunc(list, func(a, b driver.CodeContext) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// restartBash drops the state of a context.
func (c *sandboxCall) restartBash(ctx context.Context, b *bashContext) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := c.inside(ctx, `rm -f -- "$1/state"`, b.dir())
	return err
}

// deleteBash ends a context.
func (c *sandboxCall) deleteBash(ctx context.Context, b *bashContext) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := c.inside(ctx, `rm -rf -- "$1"`, b.dir()); err != nil {
		return err
	}
	c.box.mu.Lock()
	delete(c.box.shells, b.ID)
	c.box.mu.Unlock()
	return nil
}

// runScript is run by bash -c, with the directory of the context instead of DIR. It reads the code from
// its standard input, as an argument is bounded. Readonly variables can't be set again.
// It is one line, so that the line numbers of errors are those of the code.
const runScript = `[ -d DIR ] || { echo "the state of this context was lost with the directory DIR; it begins anew" >&2; mkdir -p DIR; }; ` +
	`[ ! -e DIR/state ] || . DIR/state >/dev/null 2>&1; ` +
	`trap '{ declare -p; declare -f; alias -p; shopt -p; printf "cd -- %q\n" "$PWD"; set +o; } >DIR/state 2>/dev/null' EXIT; ` +
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
		Argv: []string{"/bin/bash", "-c", strings.ReplaceAll(runScript, "DIR", b.dir()), "bash"},
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
