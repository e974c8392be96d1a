package eval_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/provider/sandbox"
)

// elsewhere opens workspaces whose path inside is not that of the results.
func elsewhere(t *testing.T) eval.EnvFactory {
	p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(t.TempDir(), "ws"), Guest: bin(t, "croft-guest")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return opened(t, p)
}

// TestSuitesSeeTheWorkspaceWithNodeFS: the suite finds the workspace by workspace.json
// beside the logs that the report names, as suites of skillgym do, and reads, lists and
// misses files there, whatever the provider.
func TestSuitesSeeTheWorkspaceWithNodeFS(t *testing.T) {
	const suiteText = `import { assert } from "skillgym";
import fs from "node:fs";
import { readFile, access } from "node:fs/promises";
import path from "node:path";
export const workspace = { mode: "isolated", templateDir: "./template", bootstrap: { command: "sh", args: ["-c", 'printf %s "$SKILLGYM_WORKSPACE" > boot.txt'] } };
const doc = (r) => JSON.parse(fs.readFileSync(path.join(path.dirname(r.rawArtifacts.stdoutPath), "workspace.json"), "utf8"));
const prompt = "echo x > x.txt; mkdir d; echo y > d/y; rm old.txt";
const checks = {
  reads: async (at) => { assert.equal(fs.readFileSync(path.join(at, "x.txt"), "utf8"), "x\n"); assert.equal(await readFile(path.join(at, "d/y"), "utf8"), "y\n"); },
  lists: (at) => assert.deepEqual(fs.readdirSync(at, { recursive: true }).sort(), ["boot.txt", "d", "d/y", "same.txt", "x.txt"]),
  exists: async (at) => { assert.ok(fs.existsSync(at)); assert.ok(fs.statSync(path.join(at, "d")).isDirectory()); await access(path.join(at, "same.txt")); },
  absent: (at) => assert.ok(!fs.existsSync(path.join(at, "x.txt")), "x.txt is there"),
  removed: (at) => assert.ok(!fs.existsSync(path.join(at, "old.txt"))),
};
const inside = (r) => fs.readFileSync(path.join(doc(r).workspacePath, "boot.txt"), "utf8");
export default Object.entries(checks).flatMap(([id, check]) => [
  { id, prompt, assert: (r) => check(doc(r).workspacePath) },
  { id: id + ", path inside", prompt, assert: (r) => check(inside(r)) },
]);
`
	files := map[string]string{"suite.mjs": suiteText, "template/old.txt": "old", "template/same.txt": "same",
		"skillgym.config.mjs": `export default { runners: { main: { agent: { type: "command", model: "m", command: "sh", commandArgs: ["-c", 'eval "$0"'] } } } };`}
	for name, envs := range map[string]func(*testing.T) eval.EnvFactory{
		"sandbox":   func(t *testing.T) eval.EnvFactory { return sandboxed(t) },
		"host":      func(*testing.T) eval.EnvFactory { return eval.Host{} },
		"elsewhere": elsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			r := runSuite(t, project(t, files), "suite.mjs", &eval.Options{Envs: envs(t)})
			for _, c := range r.Cases {
				e := c.RunnerResults[0]
				want := c.CaseID != "absent" && c.CaseID != "absent, path inside"
				if e.Passed != want || !want && e.Error.Message != "x.txt is there" {
					t.Errorf("%s: passed is %v: %+v", c.CaseID, e.Passed, e.Error)
				}
			}
		})
	}
}

// TestClassifyFailureSeesTheWorkspace: classifyFailure reads the kept workspace, by the path
// in the result and by that inside.
func TestClassifyFailureSeesTheWorkspace(t *testing.T) {
	const suiteText = `import { assert } from "skillgym";
import fs from "node:fs";
import path from "node:path";
export const workspace = { mode: "isolated", bootstrap: { command: "sh", args: ["-c", 'printf %s "$SKILLGYM_WORKSPACE" > boot.txt'] } };
export default [{
  id: "fails", prompt: "echo broke > why.txt", assert() { assert.fail("no"); },
  classifyFailure(result) {
    const inside = fs.readFileSync(path.join(result.workspacePath, "boot.txt"), "utf8");
    const why = [result.workspacePath, inside].map((at) => fs.readFileSync(path.join(at, "why.txt"), "utf8").trim());
    return { id: why.join("-"), label: String(fs.existsSync(path.join(inside, "none"))) };
  },
}];
`
	for name, envs := range map[string]func(*testing.T) eval.EnvFactory{
		"sandbox":   func(t *testing.T) eval.EnvFactory { return sandboxed(t) },
		"host":      func(*testing.T) eval.EnvFactory { return eval.Host{} },
		"elsewhere": elsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			dir := project(t, map[string]string{"suite.mjs": suiteText,
				"skillgym.config.mjs": `export default { runners: { main: { agent: { type: "command", model: "m", command: "sh", commandArgs: ["-c", 'eval "$0"'] } } } };`})
			r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs(t)})
			if got, want := r.Cases[0].RunnerResults[0].FailureClass, (&eval.Class{ID: "broke-broke", Label: "false"}); !cmp.Equal(got, want) {
				t.Errorf("the class is %+v, want %+v", got, want)
			}
		})
	}
}

// TestEarlierSessionsTellWhatIsKept: the workspace of a retry replaces that of the session
// before, whose files then say so.
func TestEarlierSessionsTellWhatIsKept(t *testing.T) {
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		dir := project(t, map[string]string{"suite.mjs": isolated("") + `export default [{ id: "fails", prompt: "date > made", assert() { assert.fail("no"); } }];`})
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs, RepeatFailure: new(2)})
		type kept struct {
			Preserved bool
			Path      string
		}
		var got []kept
		for _, s := range of(t, r, "fails").Sessions {
			data, err := os.ReadFile(filepath.Join(s.ArtifactDir, "workspace.json"))
			if err != nil {
				t.Fatal(err)
			}
			k := kept{Path: s.WorkspacePath}
			if err := json.Unmarshal(data, &k); err != nil {
				t.Fatal(err)
			}
			got = append(got, k)
		}
		want := []kept{{}, {}, {true, filepath.Join(r.ArtifactDir, "workspaces", "fails", "main--0d6e4079")}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
	})
}

// TestLongIDs: ids of cases and runners have any length, and those that begin alike are
// told apart.
func TestLongIDs(t *testing.T) {
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		dir := project(t, map[string]string{
			"skillgym.config.mjs": `export default { runners: { ["r".repeat(3000)]: { agent: { type: "claude-code", model: "m", command: "./agent.sh" } } } };`,
			"suite.mjs": isolated("") + `
const id = "a case, with much to say ".repeat(200);
export default [{ id: id + "1", prompt: "pwd > here", assert(r) { assert.files.exists(r, "here"); } }, { id: id + "2", prompt: "true", assert(r) { assert.files.notExists(r, "here"); assert.fail("kept"); } }];`})
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs})
		if e := r.Cases[0].RunnerResults[0]; !e.Passed {
			t.Errorf("%+v", e.Error)
		}
		if e := r.Cases[1].RunnerResults[0]; e.Error == nil || e.Error.Message != "kept" || !exists(e.WorkspacePath) {
			t.Errorf("%+v, workspace %s", e.Error, e.WorkspacePath)
		}
	})
}
