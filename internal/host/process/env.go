package process

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// sessionEnv is the variable with the id of the session of a process; the scan of /proc
// reads it.
const sessionEnv = "CROFT_SESSION"

// allowedEnv are the variables that commands get from BaseEnv.
var allowedEnv = []string{"PATH", "HOME", "USER", "LANG", "LC_*", "TERM", "TMPDIR", "TZ"}

// matchName reports whether a pattern, a name or a prefix that ends in *, matches a
// variable.
func matchName(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// baseEnv returns the environment of commands that do not set Clean.
func baseEnv(o *Options) (map[string]string, error) {
	env := map[string]string{"PATH": DefaultPath, "HOME": o.Root}
	allow := slices.Concat(allowedEnv, o.AllowEnv)
	for _, kv := range o.BaseEnv {
		name, value, ok := strings.Cut(kv, "=")
		if ok && slices.ContainsFunc(allow, func(p string) bool { return matchName(p, name) }) {
			env[name] = value
		}
	}
	if err := checkEnv(o.Env); err != nil {
		return nil, err
	}
	maps.Copy(env, o.Env)
	return env, nil
}

// checkEnv refuses names and values that execve can't pass.
func checkEnv(env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("process: variable %q: %w: a name is not empty and has neither = nor NUL", name, fault.InvalidArgument)
		}
		if strings.IndexByte(value, 0) >= 0 {
			return fmt.Errorf("process: variable %s: %w: its value has a NUL", name, fault.InvalidArgument)
		}
	}
	return nil
}

// buildEnv returns the environment of one command, and the PATH for the lookup of its
// program.
func (m *Manager) buildEnv(cmd *driver.Command, id, dir string) (list []string, path string, err error) {
	if err := checkEnv(cmd.Env); err != nil {
		return nil, "", err
	}
	env := map[string]string{}
	if !cmd.Clean {
		maps.Copy(env, m.base)
		env["PWD"] = dir
		if _, ok := env["TERM"]; !ok && cmd.TTY != nil {
			env["TERM"] = "xterm-256color"
		}
	}
	maps.Copy(env, cmd.Env)
	if !cmd.Clean {
		env[sessionEnv] = id
	}
	path, ok := env["PATH"]
	if !ok {
		path = DefaultPath
	}
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list, path, nil
}
