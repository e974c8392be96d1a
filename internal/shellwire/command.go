package shellwire

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// An Exec is driver.Command in JSON. A value that is not UTF-8 is under the key that
// ends in B64 instead.
type Exec struct {
	Argv        []string          `json:"argv,omitempty" doc:"a program and its arguments, never through a shell"`
	ArgvB64     [][]byte          `json:"argvB64,omitempty"`
	Script      string            `json:"script,omitempty" doc:"run by bash -c; instead of argv"`
	ScriptB64   []byte            `json:"scriptB64,omitempty"`
	Dir         string            `json:"dir,omitempty" doc:"where it runs; the workspace where absent"`
	DirB64      []byte            `json:"dirB64,omitempty"`
	Env         map[string]string `json:"env,omitempty" doc:"over the environment of the workspace"`
	EnvB64      [][]byte          `json:"envB64,omitempty" doc:"more of it, each NAME=value"`
	Clean       bool              `json:"clean,omitempty" doc:"env alone, nothing of the workspace's"`
	Stdin       string            `json:"stdin,omitempty" doc:"standard input; empty where absent"`
	StdinB64    []byte            `json:"stdinB64,omitempty"`
	TTY         *driver.Size      `json:"tty,omitempty" doc:"run on a terminal of this size"`
	Interactive bool              `json:"interactive,omitempty" doc:"standard input stays open for writing; sessions alone"`
	Timeout     Duration          `json:"timeout,omitempty" doc:"such as \"1m30s\", or nanoseconds; ends the whole tree"`
	Grace       Duration          `json:"grace,omitempty" doc:"between SIGTERM and SIGKILL at the time-out; such as \"5s\", or nanoseconds"`
	Limits      driver.Limits     `json:"limits,omitzero" doc:"below the workspace's"`
	MaxOutput   int64             `json:"maxOutput,omitempty" doc:"what the result holds of each stream; 0 is 1 MiB"`
	Detached    bool              `json:"detached,omitempty" doc:"the session outlives the connection and the server"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// Encode returns cmd as JSON form. Callbacks and a reader for standard input are not
// encoded: they use streams.
func Encode(cmd driver.Command) Exec {
	c := Exec{
		Argv: cmd.Argv, Script: cmd.Script, Dir: cmd.Dir, Env: cmd.Env, Clean: cmd.Clean, TTY: cmd.TTY,
		Interactive: cmd.Interactive, Timeout: Duration(cmd.Timeout), Grace: Duration(cmd.Grace), Limits: cmd.Limits,
		MaxOutput: cmd.MaxOutput, Detached: cmd.Detached, Labels: cmd.Labels,
	}
	for _, arg := range cmd.Argv {
		if !utf8.ValidString(arg) {
			c.Argv, c.ArgvB64 = nil, toBytes(cmd.Argv)
			break
		}
	}
	if !utf8.ValidString(cmd.Script) {
		c.Script, c.ScriptB64 = "", []byte(cmd.Script)
	}
	if !utf8.ValidString(cmd.Dir) {
		c.Dir, c.DirB64 = "", []byte(cmd.Dir)
	}
	c.Env, c.EnvB64 = splitEnv(cmd.Env)
	return c
}

func toBytes(words []string) [][]byte {
	out := make([][]byte, len(words))
	for i, w := range words {
		out[i] = []byte(w)
	}
	return out
}

// splitEnv separates variables that are UTF-8 from others.
func splitEnv(env map[string]string) (text map[string]string, rest [][]byte) {
	for k, v := range env {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			rest = append(rest, []byte(k+"="+v))
			continue
		}
		if text == nil {
			text = map[string]string{}
		}
		text[k] = v
	}
	return text, rest
}

// Decode returns the command, without callbacks.
func (c Exec) Decode() (driver.Command, error) {
	cmd := driver.Command{
		Argv: c.Argv, Script: c.Script, Dir: c.Dir, Clean: c.Clean, TTY: c.TTY,
		Interactive: c.Interactive, Timeout: time.Duration(c.Timeout), Grace: time.Duration(c.Grace), Limits: c.Limits,
		MaxOutput: c.MaxOutput, Detached: c.Detached, Labels: c.Labels,
	}
	for _, pair := range []struct {
		key  string
		both bool
	}{
		{"argv", c.Argv != nil && c.ArgvB64 != nil}, {"script", c.Script != "" && c.ScriptB64 != nil},
		{"dir", c.Dir != "" && c.DirB64 != nil}, {"stdin", c.Stdin != "" && c.StdinB64 != nil},
	} {
		if pair.both {
			return cmd, fmt.Errorf("command: %w: give %s or %sB64, not both", fault.InvalidArgument, pair.key, pair.key)
		}
	}
	for _, arg := range c.ArgvB64 {
		cmd.Argv = append(cmd.Argv, string(arg))
	}
	cmd.Script += string(c.ScriptB64)
	cmd.Dir += string(c.DirB64)
	cmd.Stdin = c.stdinReader()
	var err error
	cmd.Env, err = c.decodeEnv()
	return cmd, err
}

func (c Exec) stdinReader() io.Reader {
	switch {
	case c.StdinB64 != nil:
		return bytes.NewReader(c.StdinB64)
	case c.Stdin != "":
		return strings.NewReader(c.Stdin)
	}
	return nil
}

func (c Exec) decodeEnv() (map[string]string, error) {
	if len(c.EnvB64) == 0 {
		return c.Env, nil
	}
	env := map[string]string{}
	for k, v := range c.Env {
		env[k] = v
	}
	for _, pair := range c.EnvB64 {
		k, v, ok := strings.Cut(string(pair), "=")
		if !ok {
			return nil, fmt.Errorf("command: %w: an element of envB64 is not NAME=value", fault.InvalidArgument)
		}
		env[k] = v
	}
	return env, nil
}
