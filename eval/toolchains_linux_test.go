package eval_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/workspace/driver"
)

// TestToolchainsOfAnEnvironment: an environment shows toolchains read-only, their caches
// copy-on-write, and further directories writable.
func TestToolchainsOfAnEnvironment(t *testing.T) {
	envs := sandboxed(t)
	home := t.TempDir()
	for name, text := range map[string]string{
		".nvm/versions/node/v20.0.0/bin/tool": "#!/bin/sh\necho tool of nvm\n", ".nvm/versions/node/v20.0.0/etc/npmrc": "planted", ".npm/_cacache/entry": "of the host\n", "out/a": "",
	} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	found, err := toolchain.Find(toolchain.Options{Home: home, Getenv: func(string) string { return "" }}, "nvm")
	if err != nil {
		t.Fatal(err)
	}
	env, err := envs.Open(t.Context(), eval.EnvSpec{
		Dir: filepath.Join(t.TempDir(), "ws"), Write: []string{filepath.Join(home, "out")}, Tools: found,
		Policy: driver.Policy{Env: toolchain.Env(found, os.Getenv("PATH"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer env.Workspace.Destroy(t.Context())
	const script = `tool; cat "$npm_config_cache/_cacache/entry"; echo inside > "$npm_config_cache/_cacache/entry"; touch "$0/.nvm/versions/node/new" 2>/dev/null && echo written
echo out > "$0/out/b"; grep -rs planted "$0"; echo end`
	res, err := env.Workspace.Run(t.Context(), driver.Command{Argv: []string{"sh", "-c", script, home}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(res.Stdout), "tool of nvm\nof the host\nend\n"; got != want {
		t.Errorf("got %q, want %q", got+string(res.Stderr), want)
	}
	for name, want := range map[string]string{".npm/_cacache/entry": "of the host", "out/b": "out"} {
		if data, err := os.ReadFile(filepath.Join(home, name)); err != nil || strings.TrimSpace(string(data)) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

// TestProgramsOfAnEnvironment: the directory of a program is shown without credential files,
// unless it was named for another reason.
func TestProgramsOfAnEnvironment(t *testing.T) {
	envs := sandboxed(t)
	home := t.TempDir()
	for _, name := range []string{".pyenv/versions/3.12.1/pip.conf", "suite/.npmrc", "tools/.npmrc", "tools/data/.npmrc"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pyenv, suite, tools, data := filepath.Join(home, ".pyenv"), filepath.Join(home, "suite"), filepath.Join(home, "tools"), filepath.Join(home, "tools/data")
	env, err := envs.Open(t.Context(), eval.EnvSpec{Dir: filepath.Join(t.TempDir(), "ws"), Read: []string{suite, data, pyenv, tools}, Programs: []string{pyenv, tools}})
	if err != nil {
		t.Fatal(err)
	}
	defer env.Workspace.Destroy(t.Context())
	res, err := env.Workspace.Run(t.Context(), driver.Command{Argv: []string{"sh", "-c", `cd "$0" && cat suite/.npmrc tools/.npmrc tools/data/.npmrc .pyenv/versions/3.12.1/pip.conf; echo end`, home}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(res.Stdout), "suite/.npmrc\ntools/.npmrc\ntools/data/.npmrc\nend\n"; got != want {
		t.Errorf("got %q, want %q", got+string(res.Stderr), want)
	}
}
