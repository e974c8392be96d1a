package eval_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/secret"
)

// TestKeysWhileRecording: a model that asks for a key is recorded with it, whether the
// agent has the key or the proxy adds it outside the sandbox; then the key is in no file that
// is left, and the same run is played without it.
func TestKeysWhileRecording(t *testing.T) {
	for name, test := range map[string]struct {
		variable string // that holds the key
		ask      string // what the agent does with what it has of it
		policy   func(port string) string
	}{
		"the agent has it": {"ANTHROPIC_API_KEY", `curl -H \"x-api-key: $ANTHROPIC_API_KEY\"`, func(string) string { return "{}" }},
		"the proxy adds it": {secret.DefaultPrefix + "MODEL", `! env | grep -q Key4Tests && curl`, func(port string) string {
			return `{ network: { allow: [{ host: "127.0.0.1", ports: [` + port + `], credential: "MODEL" }] } }`
		}},
	} {
		t.Run(name, func(t *testing.T) {
			const key = "sk-Key4Tests-0123456789abcdef"
			var asked atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Api-Key") != key {
					http.Error(w, "who are you?", http.StatusUnauthorized)
					return
				}
				asked.Add(1)
				fmt.Fprint(w, "an answer")
			}))
			defer srv.Close()
			at, err := url.Parse(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			dir := project(t, map[string]string{
				"skillgym.config.mjs": `export default { runners: { main: { agent: { type: "claude-code", model: "m", command: "./agent.sh", env: { ANTHROPIC_BASE_URL: "` + srv.URL + `" } } } },
					croft: { policy: ` + test.policy(at.Port()) + ` } };`,
				"suite.mjs": isolated("") + `export default [{ id: "asks", prompt: "` + test.ask + ` -sf -d question \"$ANTHROPIC_BASE_URL/v1/messages\" > answer.txt; cat answer.txt",
					assert(r) { assert.files.equals(r, "answer.txt", "an answer"); } },
					{ id: "fails", prompt: "true", assert() { assert.fail("so that its workspace is kept"); } }];`,
			})
			tapes, ground := filepath.Join(dir, "tapes"), t.TempDir()
			t.Setenv(test.variable, key)
			opts := eval.Options{Envs: sandboxWith(t, ground), NoModelNet: true, Record: tapes, Reporters: reporters(t, dir)}
			if e := of(t, runSuite(t, dir, "suite.mjs", &opts), "asks"); !e.Passed || asked.Load() != 1 {
				log, _ := os.ReadFile(filepath.Join(e.ArtifactDir, "stderr.log"))
				t.Fatalf("recorded: %+v, %d requests\n%s", e.Error, asked.Load(), log)
			}
			srv.Close()
			if found := holding(t, dir, "an answer"); len(found) < 2 {
				t.Errorf("the answer is in %v, want it in the tape and the log", found)
			}
			for _, where := range []string{dir, ground} {
				if found := holding(t, where, key); len(found) > 0 {
					t.Errorf("the key is in %v", found)
				}
			}
			os.Unsetenv(test.variable)
			opts = eval.Options{Envs: sandboxWith(t, t.TempDir()), Replay: tapes}
			if e := of(t, runSuite(t, dir, "suite.mjs", &opts), "asks"); !e.Passed {
				t.Errorf("played without the key: %+v", e.Error)
			}
		})
	}
}

// TestCredentialsOfTheUser: an agent gets a copy of the user's credentials. It is in no file
// that is left, also where the agent writes it to its output and its workspace, on this host
// and in a sandbox, in a workspace in place and in one of its own.
func TestCredentialsOfTheUser(t *testing.T) {
	token := "sk-ant-oat01-" + strings.Repeat("q7RkZ2mXv9Tb", 8)
	plain := strings.Repeat("w4Ns8HdJc3Yf", 3)
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	data := `{"claudeAiOauth": {"accessToken": "` + token + `", "refreshToken": "` + plain + `"}}`
	if err := os.WriteFile(filepath.Join(home, ".claude", ".credentials.json"), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"shared", "isolated"} {
		for _, sandboxed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, sandboxed %v", mode, sandboxed), func(t *testing.T) {
				dir := project(t, map[string]string{
					"suite.mjs": `import { assert } from "skillgym";
export const workspace = { mode: "` + mode + `" };
export default [{ id: "leaks", prompt: "cat $CLAUDE_CONFIG_DIR/.credentials.json; cp $CLAUDE_CONFIG_DIR/.credentials.json stolen.json; echo done > other.txt",
	assert(r) { assert.files.equals(r, "other.txt", "done\n"); } }];`,
				})
				opts := eval.Options{UserHome: home, Reporters: reporters(t, dir)}
				if sandboxed {
					opts.Envs = sandboxWith(t, t.TempDir())
				}
				e := of(t, runSuite(t, dir, "suite.mjs", &opts), "leaks")
				if !e.Passed {
					t.Fatalf("%+v", e.Error)
				}
				diff, err := os.ReadFile(filepath.Join(e.ArtifactDir, "changes.diff"))
				if err != nil || !bytes.Contains(diff, []byte("stolen.json")) || bytes.Contains(diff, []byte("claude-home")) {
					t.Errorf("the diff is %q, %v", diff, err)
				}
				for _, text := range []string{token, plain} {
					found := slices.DeleteFunc(holding(t, dir, text), func(path string) bool { return path == filepath.Join(dir, "stolen.json") })
					if len(found) > 0 {
						t.Errorf("%.16s... is in %v", text, found)
					}
				}
				checkPrivate(t, filepath.Dir(filepath.Dir(filepath.Dir(e.ArtifactDir))))
			})
		}
	}
}

// checkPrivate fails the test where another user can read the results.
func checkPrivate(t *testing.T, dir string) {
	t.Helper()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v, want 0700", dir, info.Mode(), err)
	}
	for _, name := range []string{"results.json", "changes.diff", "report.json", "stdout.log", "stderr.log"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != name {
				return err
			}
			if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v, want 0600", path, info.Mode(), err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sandboxWith returns environments in a sandbox whose proxy adds the secrets of the
// environment.
func sandboxWith(t *testing.T, ground string) *eval.Sandbox {
	t.Helper()
	secrets, err := secret.New(&secret.Options{Shared: secret.Set{Prefix: secret.DefaultPrefix}})
	if err != nil {
		t.Fatal(err)
	}
	inside := &eval.LoopbackServer{Base: fmt.Sprintf("http://127.0.0.1:%d", egress.RelayPort)}
	p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(ground, "ws"), Guest: bin(t, "croft-guest"), LocalHandler: inside.Handler,
		Secrets: secrets, Credentials: map[string]egress.Credential{"MODEL": {Header: "X-Api-Key", Format: "{secret}", Plain: true}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return &eval.Sandbox{Provider: p, Loopback: inside}
}

// reporters are all that write to a file, in a directory.
func reporters(t *testing.T, dir string) []eval.Reporter {
	t.Helper()
	var list []eval.Reporter
	for _, name := range []string{"html", "junit", "markdown", "json"} {
		f, err := os.Create(filepath.Join(dir, "report."+name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		r, err := eval.NewReporter(name, eval.ReporterConfig{Out: f, File: true})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// holding lists the files below a directory that have a text in them, as it is or in
// base64.
func holding(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) || bytes.Contains(data, []byte(base64.StdEncoding.EncodeToString([]byte(text)))) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
