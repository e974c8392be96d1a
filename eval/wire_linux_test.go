package eval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// oracle is a model: it answers with a number of its own each time, and as a judge
// that all is well.
func oracle(t *testing.T) (url string, asked *atomic.Int64, end func()) {
	t.Helper()
	asked = new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"{\"pass\":true,\"score\":1,\"reason\":\"fine\"}"}}]}`)
			return
		}
		fmt.Fprintf(w, "answer %d to %s", n, body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, asked, srv.Close
}

// ask is a prompt of the stub: it asks its model, and keeps the answer.
const ask = `curl -sf -d \"$PWD wants %s\" \"$ANTHROPIC_BASE_URL/v1/messages\" | sed s:\"$PWD\":HERE: > answer.txt && cat answer.txt`

// TestRecordAndReplay: what models said, to agents and to judges, is said again
// where there is no model and no network, and what they never said is refused.
func TestRecordAndReplay(t *testing.T) {
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		url, asked, end := oracle(t)
		write := func(question string) map[string]string {
			return map[string]string{
				"skillgym.config.mjs": `export default { runners: { main: { agent: { type: "claude-code", model: "m", command: "./agent.sh", env: { ANTHROPIC_BASE_URL: "` + url + `" } } } },
					croft: { judge: { url: "` + url + `/v1", model: "j" } } };`,
				"suite.mjs": isolated("") + `export default [{ id: "asks", prompt: "` + fmt.Sprintf(ask, question) + `", async assert(r) {
					assert.files.contains(r, "answer.txt", "answer 1 to HERE wants one");
					await assert.judge(r, "It is fine."); } }];`,
			}
		}
		dir := project(t, write("one"))
		tapes := filepath.Join(dir, "tapes")
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs, NoModelNet: true, Record: tapes, Repeat: 1})
		if e := of(t, r, "asks"); !e.Passed || asked.Load() != 2 {
			t.Fatalf("recorded: %+v, %d requests", e.Error, asked.Load())
		}
		end()
		other := project(t, write("one"))
		r = runSuite(t, other, "suite.mjs", &eval.Options{Envs: envs, Replay: tapes, Repeat: 2})
		if e := of(t, r, "asks"); !e.Passed || *e.SuccessfulRepetitions != 2 {
			t.Errorf("replayed: %+v, %+v", e.Error, e)
		}
		other = project(t, write("another"))
		r = runSuite(t, other, "suite.mjs", &eval.Options{Envs: envs, Replay: tapes})
		if e := of(t, r, "asks"); e.Passed {
			t.Errorf("what was not recorded: %+v", e)
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("the model was asked %d times, want 2", n)
		}
	})
}

// TestTrafficThatCannotBe: what can't be recorded or replayed is said before
// anything is run.
func TestTrafficThatCannotBe(t *testing.T) {
	runner := func(agent string) string {
		return `export default { runners: { main: { agent: ` + agent + ` } } };`
	}
	empty := t.TempDir()
	for _, tt := range []struct {
		name, config string
		opts         eval.Options
		code         fault.Code
		want         string
	}{
		{"no switch", runner(`{ type: "cursor-agent", model: "m" }`), eval.Options{Record: "x"}, fault.Unsupported, "runner main"},
		{"both", config, eval.Options{Record: "x", Replay: "y"}, fault.InvalidArgument, "one or the other"},
		{"no tapes", config, eval.Options{Replay: filepath.Join(empty, "none")}, fault.NotFound, "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := project(t, map[string]string{"suite.mjs": `export default [{ id: "a", prompt: "true", assert() {} }];`, "skillgym.config.mjs": tt.config})
			_, err := tryRun(t, dir, "suite.mjs", &tt.opts)
			if fault.Of(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s and %q", err, tt.code, tt.want)
			}
		})
	}
	dir := project(t, map[string]string{"suite.mjs": `export default [{ id: "a", prompt: "true", assert() {} }];`})
	r := runSuite(t, dir, "suite.mjs", &eval.Options{Replay: empty})
	if e := of(t, r, "a"); e.Passed || !strings.Contains(e.Error.Message, "this session was not recorded") {
		t.Errorf("a session without a tape: %+v", e.Error)
	}
}

// TestTools: an agent reaches the tools of its own workspace from inside, and no
// others.
func TestTools(t *testing.T) {
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		dir := project(t, map[string]string{"suite.mjs": isolated("") + `
const prompt = "url=$(sed -n 's/.*\"url\":\"\\([^\"]*\\)\".*/\\1/p' \"$CLAUDE_CONFIG_DIR/croft-tools.json\"); curl -sf -d x \"$url\" > got.txt";
const assertion = { assert(r) { assert.files.contains(r, "got.txt", "tools of "); } };
export default [{ id: "a", prompt, ...assertion }, { id: "b", prompt, ...assertion }];`})
		var ended atomic.Int64
		var ids []string
		tools := func(_ context.Context, ws *workspace.Workspace) (http.Handler, func(context.Context) error, error) {
			id := ws.ID()
			ids = append(ids, id)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "tools of %s at %s", id, r.URL.Path) }),
				func(context.Context) error { ended.Add(1); return nil }, nil
		}
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs, Tools: tools})
		if !r.Passed() || ended.Load() != 2 || len(ids) != 2 || ids[0] == ids[1] {
			t.Errorf("a: %+v, b: %+v, tools of %q, %d ended", of(t, r, "a").Error, of(t, r, "b").Error, ids, ended.Load())
		}
		r = runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs, Cases: []string{"a"}, Tools: func(context.Context, *workspace.Workspace) (http.Handler, func(context.Context) error, error) {
			return nil, nil, fmt.Errorf("no tools today: %w", fault.Unavailable)
		}})
		if e := of(t, r, "a"); e.Passed || !strings.Contains(e.Error.Message, "no tools today") {
			t.Errorf("without tools: %+v", e.Error)
		}
	})
}

// TestPolicy: what the configuration asks for holds for what runs, or is refused.
func TestPolicy(t *testing.T) {
	with := func(croft string) map[string]string {
		return map[string]string{
			"skillgym.config.mjs": `export default { runners: { main: { agent: { type: "claude-code", model: "m", command: "./agent.sh" } } }, croft: ` + croft + ` };`,
			"suite.mjs": isolated("") + `export default [{ id: "a", prompt: "[ $COLOUR = red ]; head -c 5000 /dev/zero | tr '\\0' x; echo > made", assert(r) {
				assert.equal(r.files.changed.length, 1); } }];`,
		}
	}
	t.Run("holds", func(t *testing.T) {
		dir := project(t, with(`{ policy: { isolation: "namespaces", env: { COLOUR: "red" } }, limits: { outputBytes: 1000 } }`))
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: sandboxed(t)})
		e := of(t, r, "a")
		if !e.Passed {
			t.Errorf("it fails: %+v", e.Error)
		}
		if info, err := os.Stat(filepath.Join(e.ArtifactDir, "stderr.log")); err != nil || info.Size() != 1000 {
			t.Errorf("the log: %v, %v, want 1000 bytes", info, err)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		dir := project(t, with(`{ policy: { readOnly: true, env: { COLOUR: "red" } } }`))
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: sandboxed(t)})
		if e := of(t, r, "a"); e.Passed || e.FailureOrigin != eval.OriginRunner {
			t.Errorf("an agent writes to a workspace that is read-only: %+v", e)
		}
	})
	t.Run("the host has none", func(t *testing.T) {
		dir := project(t, with(`{ policy: { isolation: "namespaces" } }`))
		r := runSuite(t, dir, "suite.mjs", &eval.Options{})
		if e := of(t, r, "a"); e.Passed || !strings.Contains(e.Error.Message, "isolation namespaces: unsupported") {
			t.Errorf("%+v", e.Error)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		dir := project(t, with(`{ policy: { isolatoin: "namespaces" } }`))
		if _, err := tryRun(t, dir, "suite.mjs", &eval.Options{}); fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "isolatoin") {
			t.Errorf("%v, want it to name the key", err)
		}
	})
}

// opened returns envs of any provider.
func opened(t *testing.T, p driver.Provider) *eval.ProviderEnvs {
	return &eval.ProviderEnvs{Provider: p.Kind(), OpenWorkspace: func(ctx context.Context, spec workspace.Spec) (*workspace.Workspace, func(context.Context) error, error) {
		spec.ID = driver.NewID()
		d, err := p.Open(ctx, spec)
		if err != nil {
			return nil, nil, err
		}
		for c := range spec.Want {
			if !d.Ref.Capabilities.Has(c) {
				return nil, nil, errors.Join(fmt.Errorf("open: %w: no %s", fault.Unsupported, c), d.Life.Destroy(ctx))
			}
		}
		ws, err := workspace.New(spec.ID, d, nil, nil)
		if err != nil {
			return nil, nil, err
		}
		return ws, ws.Destroy, nil
	}}
}

// TestAnyProvider: a program works in a workspace of any provider with a shell; what
// can't be there is said before anything is run.
func TestAnyProvider(t *testing.T) {
	p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(t.TempDir(), "ws"), Guest: bin(t, "croft-guest")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() // each workspace has ended
	files := map[string]string{
		"skillgym.config.mjs": `export default { runners: { main: { agent: { type: "command", command: "./template/work.sh" } } } };`,
		"template/work.sh":    "#!/bin/sh\nset -e\ncat sub/a.txt link made\necho more >> sub/a.txt\ntouch \"$CROFT_EVAL_HOME/x\"\n[ \"$1\" = pass ] || exit 3\n",
		"template/sub/a.txt":  "a\n",
		"suite.mjs": isolated(`templateDir: "./template", bootstrap: { command: "sh", args: ["-c", "echo made > made"] }`) + `
const check = (r) => { assert.files.changed(r, "sub/a.txt"); assert.equal(r.files.changed.length, 1); assert.equal(r.finalOutput, "a\na\nmade"); };
export default [{ id: "passes", prompt: "pass", assert: check }, { id: "fails", prompt: "fail", assert: check }];`,
	}
	dir := project(t, files)
	if err := os.Symlink("sub/a.txt", filepath.Join(dir, "template", "link")); err != nil {
		t.Fatal(err)
	}
	r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: opened(t, p)})
	if e := of(t, r, "passes"); !e.Passed {
		log, _ := os.ReadFile(filepath.Join(e.ArtifactDir, "stderr.log"))
		t.Errorf("it fails: %+v\n%s", e.Error, log)
	}
	e := of(t, r, "fails")
	if got, err := os.ReadFile(filepath.Join(e.WorkspacePath, "sub", "a.txt")); string(got) != "a\nmore\n" {
		t.Errorf("of the workspace that is kept sub/a.txt is %q, %v", got, err)
	}
	for _, tt := range []struct {
		name   string
		change map[string]string
		envs   eval.EnvFactory
		want   string
	}{
		{"no shell", nil, opened(t, new(memory.Provider)), "files and no shell; suites run with sandbox"},
		{"an agent with a home", map[string]string{"skillgym.config.mjs": config}, opened(t, p), "claude-code keeps its session in files"},
		{"in place", map[string]string{"suite.mjs": `export default [{ id: "a", prompt: "true", assert() {} }];`}, opened(t, p), `workspace mode "none"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := map[string]string{}
			for _, m := range []map[string]string{files, tt.change} {
				for k, v := range m {
					all[k] = v
				}
			}
			_, err := tryRun(t, project(t, all), "suite.mjs", &eval.Options{Envs: tt.envs})
			if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want it to be unsupported, with %q", err, tt.want)
			}
		})
	}
}

// TestBootstrapOnce: one bootstrap prepares all workspaces, and what an agent
// changes in one is in no other.
func TestBootstrapOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		dir := project(t, map[string]string{
			"skillgym.config.mjs": `export default { runners: { main: { agent: { type: "claude-code", model: "m", command: "./agent.sh" } } }, croft: { bootstrap: "once" } };`,
			"template/a.txt":      "a\n",
			"suite.mjs": isolated(`templateDir: "./template", bootstrap: { command: "sh", args: ["-c", "date +%s%N > stamp; mkdir deps; echo d > deps/d"] }`) + `
const prompt = "cat stamp > \"$CLAUDE_CONFIG_DIR/../stamp\"; cat deps/d a.txt; [ ! -e left ]; echo x > left; echo y >> stamp";
const check = (r) => assert.deepEqual(r.files.changed.map((c) => c.path + " " + c.kind), ["left added", "stamp modified"]);
export default [1, 2, 3].map((n) => ({ id: "case-" + n, prompt: "set -e; " + prompt, assert: check }));`,
		})
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs, Schedule: eval.Parallel, MaxParallel: 2})
		stamps := map[string]bool{}
		for _, c := range r.Cases {
			e := c.RunnerResults[0]
			if !e.Passed {
				log, _ := os.ReadFile(filepath.Join(e.ArtifactDir, "stderr.log"))
				t.Errorf("%s: %+v\n%s", c.CaseID, e.Error, log)
			}
			stamp, err := os.ReadFile(filepath.Join(e.ArtifactDir, "stamp"))
			if err != nil {
				t.Error(err)
			}
			stamps[string(stamp)] = true
		}
		if len(stamps) != 1 {
			t.Errorf("the bootstrap command was run more than once: %v", stamps)
		}
		var file struct{ Bootstrap struct{ ExitCode *int } }
		data, err := os.ReadFile(filepath.Join(r.ArtifactDir, "workspaces", "shared-setup", "workspace.json"))
		if err == nil {
			err = json.Unmarshal(data, &file)
		}
		if err != nil || file.Bootstrap.ExitCode == nil || *file.Bootstrap.ExitCode != 0 {
			t.Errorf("workspace.json of the preparation: %s, %v", data, err)
		}
	})
	t.Run("fails", func(t *testing.T) {
		dir := project(t, map[string]string{
			"skillgym.config.mjs": `export default { runners: { main: { agent: { type: "claude-code", model: "m", command: "./agent.sh" } } }, croft: { bootstrap: "once" } };`,
			"suite.mjs":           isolated(`bootstrap: { command: "sh", args: ["-c", "echo no >&2; exit 4"] }`) + `export default [{ id: "a", prompt: "true", assert() {} }];`,
		})
		_, err := tryRun(t, dir, "suite.mjs", &eval.Options{})
		if err == nil || !strings.Contains(err.Error(), "(exit 4)") {
			t.Errorf("%v, want the exit of the bootstrap command", err)
		}
	})
}
