package process

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// marker names the variable that tells a process, and the walk over /proc, to
// which session it belongs.
const marker = "CROFT_SESSION"

// allowedEnv are the variables that commands get from BaseEnv.
var allowedEnv = []string{"PATH", "HOME", "USER", "LANG", "LC_*", "TERM", "TMPDIR", "TZ"}

// matchName reports whether a pattern allows a variable: its name, or a prefix
// that ends in *.
func matchName(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// baseEnv is what commands without Clean start from.
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

// checkEnv refuses what no process can be given.
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

func envList(env map[string]string) []string {
	list := make([]string, 0, len(env)+3)
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// environ is the environment of one command, and the PATH that its program is
// looked up in.
func (m *Manager) environ(cmd *driver.Command, id, dir string) (env []string, path string, err error) {
	if err := checkEnv(cmd.Env); err != nil {
		return nil, "", err
	}
	if cmd.Clean {
		path, ok := cmd.Env["PATH"]
		if !ok {
			path = DefaultPath
		}
		return envList(cmd.Env), path, nil
	}
	if len(cmd.Env) == 0 && cmd.TTY == nil {
		return append(slices.Clip(m.env), "PWD="+dir, marker+"="+id), m.base["PATH"], nil
	}
	own := map[string]string{"PWD": dir}
	if _, ok := m.base["TERM"]; !ok && cmd.TTY != nil {
		own["TERM"] = "xterm-256color"
	}
	maps.Copy(own, cmd.Env)
	own[marker] = id
	path, ok := own["PATH"]
	if !ok {
		path = m.base["PATH"]
	}
	env = make([]string, 0, len(m.env)+len(own))
	for _, kv := range m.env {
		name, _, _ := strings.Cut(kv, "=")
		if _, ok := own[name]; !ok {
			env = append(env, kv)
		}
	}
	for name, value := range own {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env, path, nil
}
