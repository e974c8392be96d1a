package eval_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/provider/sandbox"
)

var builtDir string // to be removed

// built builds a program of ours, once. A guest needs nothing of the host.
func built(name string, env ...string) func() (string, error) {
	return sync.OnceValues(func() (_ string, err error) {
		if builtDir == "" {
			if builtDir, err = os.MkdirTemp("", "croft-eval-test-"); err != nil {
				return "", err
			}
		}
		cmd := exec.Command("go", "build", "-o", builtDir, "github.com/croft-run/croft/cmd/"+name)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return filepath.Join(builtDir, name), os.Chmod(builtDir, 0o755)
	})
}

var programs = map[string]func() (string, error){"croft-guest": built("croft-guest", "CGO_ENABLED=0"), "croft": built("croft")}

func TestMain(m *testing.M) {
	code := m.Run()
	if builtDir != "" {
		os.RemoveAll(builtDir)
	}
	os.Exit(code)
}

func bin(t *testing.T, name string) string {
	t.Helper()
	path, err := programs[name]()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// sandboxed returns environments in a sandbox.
func sandboxed(t *testing.T) *eval.Sandbox {
	t.Helper()
	inside := &eval.LoopbackServer{Base: fmt.Sprintf("http://127.0.0.1:%d", egress.RelayPort)}
	p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(t.TempDir(), "ws"), Guest: bin(t, "croft-guest"), LocalHandler: inside.Handler})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return &eval.Sandbox{Provider: p, Loopback: inside}
}

// stub is an agent that writes what Claude Code does, and does what its prompt
// says besides: each line of it is a command of the shell.
const stub = `#!/bin/sh
for last; do :; done
echo '{"type":"system","subtype":"init","session_id":"s1"}'
echo '{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"working"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls -la"}}]}}'
echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}}'
eval "$last" >&2 || exit $?
echo '{"type":"result","result":"done","usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":2}}'
`

const config = `export default { runners: { main: { agent: { type: "claude-code", model: "m", command: "./agent.sh" } } } };
`

// project writes files to a directory; there is a stub agent and a configuration
// in it.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"agent.sh": stub, "skillgym.config.mjs": config}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		path := filepath.Join(dir, name)
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runSuite runs suite.mjs, or another file, of a project.
func runSuite(t *testing.T, dir, name string, opts *eval.Options) *eval.Result {
	t.Helper()
	r, err := tryRun(t, dir, name, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryRun(t *testing.T, dir, name string, opts *eval.Options) (*eval.Result, error) {
	t.Helper()
	path := filepath.Join(dir, name)
	cfg, err := suite.LoadConfig(t.Context(), path, "")
	if err != nil {
		return nil, err
	}
	s, err := suite.Load(t.Context(), path, cfg)
	if err != nil {
		return nil, err
	}
	defer s.Close() // temporary files
	if opts.Dir == "" {
		opts.Dir = dir
	}
	opts.Note = t.Logf
	return eval.Run(t.Context(), eval.File(s), cfg, opts)
}

// of returns the result of a case on the only runner.
func of(t *testing.T, r *eval.Result, id string) *eval.ExecutionResult {
	t.Helper()
	for _, c := range r.Cases {
		if c.CaseID == id {
			return c.RunnerResults[0]
		}
	}
	t.Fatalf("there is no result of %s", id)
	return nil
}

// everywhere runs a test in the sandbox and on the plain host.
func everywhere(t *testing.T, f func(t *testing.T, envs eval.EnvFactory)) {
	t.Run("sandbox", func(t *testing.T) { f(t, sandboxed(t)) })
	t.Run("host", func(t *testing.T) { f(t, eval.Host{}) })
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
