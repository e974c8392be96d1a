package eval_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/eval"
)

// Each test here is about something that skillgym gets wrong.

func isolated(more string) string {
	return `import { assert } from "skillgym";
export const workspace = { mode: "isolated", ` + more + ` };
`
}

// TestSymlinkedTemplate: a template that is a link is what it leads to, and nobody
// writes there.
func TestSymlinkedTemplate(t *testing.T) {
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		dir := project(t, map[string]string{"real/a.txt": "original", "suite.mjs": isolated(`templateDir: "./link"`) + `
export default [{ id: "writes", prompt: "cat a.txt; echo changed > a.txt", assert() {} }];`})
		if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs})
		if e := of(t, r, "writes"); !e.Passed {
			t.Errorf("it fails: %+v", e.Error)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, "real", "a.txt")); string(got) != "original" {
			t.Errorf("the template is %q now", got)
		}
	})
}

// TestMissingPrograms: a program that is not there fails its own executions.
func TestMissingPrograms(t *testing.T) {
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		dir := project(t, map[string]string{"suite.mjs": `export default [{ id: "a", prompt: "true", assert() {} }];`,
			"skillgym.config.mjs": `export default { runners: {
				none: { agent: { type: "claude-code", model: "m", command: "no-such-agent" } },
				main: { agent: { type: "claude-code", model: "m", command: "./agent.sh" } } } };`})
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs})
		none, main := r.Cases[0].RunnerResults[0], r.Cases[0].RunnerResults[1]
		if none.Passed || none.FailureOrigin != eval.OriginRunner || none.FailureClass.ID != "runner-crash" || !strings.Contains(none.Error.Message, "no-such-agent") {
			t.Errorf("the runner without a program: %+v, %+v", none, none.Error)
		}
		if !main.Passed {
			t.Errorf("the other runner fails: %+v", main.Error)
		}
		if !exists(filepath.Join(r.ArtifactDir, eval.ResultsName)) {
			t.Error("there are no results")
		}
	})
}

func TestMissingBootstrapProgram(t *testing.T) {
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		dir := project(t, map[string]string{"suite.mjs": isolated(`bootstrap: { command: "no-such-program", args: ["x"] }`) + `
export default [{ id: "a", prompt: "true", assert() {} }, { id: "b", prompt: "true", assert() {} }];`})
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs})
		for _, id := range []string{"a", "b"} {
			if e := of(t, r, id); e.Passed || e.FailureOrigin != eval.OriginBootstrap || !strings.HasPrefix(e.Error.Message, "Workspace bootstrap failed: no-such-program x") {
				t.Errorf("%s: %s, %+v", id, e.FailureOrigin, e.Error)
			}
		}
	})
}

// TestBootstrapThatIsTooSlow: it is told that time ran out, and which tags there are
// where none matches.
func TestBootstrapThatIsTooSlow(t *testing.T) {
	dir := project(t, map[string]string{"suite.mjs": isolated(`bootstrap: { command: "sleep", args: ["600"], timeoutMs: 200 }`) + `
export default [{ id: "a", prompt: "true", tags: ["slow"], assert() {} }];`})
	r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: eval.Host{}})
	if e := of(t, r, "a"); e.FailureOrigin != eval.OriginBootstrap || e.Error.Message != "Workspace bootstrap failed: sleep 600 (exit null): it ran for longer than 200ms" {
		t.Errorf("%s, %+v", e.FailureOrigin, e.Error)
	}
	if _, err := tryRun(t, dir, "suite.mjs", &eval.Options{Envs: eval.Host{}, Tags: []string{"fast"}}); err == nil || !strings.Contains(err.Error(), "There are the tags slow.") {
		t.Errorf("another tag: %v", err)
	}
}

// TestProgramsBehindShims: what pyenv and its like put on the PATH starts something that
// lies beside it, and a virtual environment is more than its programs.
func TestProgramsBehindShims(t *testing.T) {
	dir := project(t, map[string]string{"suite.mjs": isolated("") + `
export default [{ id: "a", prompt: "p", assert(r) { assert.equal(r.finalOutput, "of the chosen version"); } }];`})
	tools := t.TempDir()
	for name, text := range map[string]string{
		"env/shims/pick":             "#!/bin/sh\nexec " + tools + "/env/versions/1/run\n",
		"env/versions/1/run":         "#!/bin/sh\necho of the chosen version\n",
		"venv/bin/pick":              "#!/bin/sh\ncat " + tools + "/venv/lib/text\n",
		"venv/lib/text":              "of the chosen version",
		"venv/pyvenv.cfg":            "home = /usr/bin\n",
		"python/bin/pick":            "#!/bin/sh\ncat " + tools + "/python/lib/python3.9/os.py\n",
		"python/lib/python3.9/os.py": "of the chosen version",
	} {
		path := filepath.Join(tools, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, bin := range []string{"env/shims", "venv/bin", "python/bin"} {
		t.Setenv("PATH", filepath.Join(tools, bin)+":/usr/bin:/bin")
		if err := os.WriteFile(filepath.Join(dir, "skillgym.config.mjs"), []byte(`export default { runners: { main: { agent: { type: "command", command: "pick" } } } };`), 0o600); err != nil {
			t.Fatal(err)
		}
		if e := of(t, runSuite(t, dir, "suite.mjs", &eval.Options{Envs: sandboxed(t)}), "a"); !e.Passed {
			t.Errorf("%s: %+v", bin, e.Error)
		}
	}
}

// TestSoftAssertions: all of them are told.
func TestSoftAssertions(t *testing.T) {
	dir := project(t, map[string]string{"suite.mjs": `import { assert } from "skillgym";
export default [{ id: "a", prompt: "true", assert(r) { assert.soft.equal(1, 2); assert.soft.commands.includes(r, "nope"); } }];`})
	e := of(t, runSuite(t, dir, "suite.mjs", &eval.Options{}), "a")
	if e.Passed || !strings.Contains(e.Error.Message, "2 assertion failures collected") {
		t.Errorf("got %+v", e.Error)
	}
}

// TestUnknownModesAndKeys are refused before anything runs.
func TestUnknownModesAndKeys(t *testing.T) {
	for name, text := range map[string]string{
		"an unknown mode":       `export const workspace = { mode: "banana" };`,
		"an unknown key":        `export const workspace = { mode: "isolated", templateDirectory: "./x" };`,
		"a key of another mode": `export const workspace = { mode: "isolated", cwd: "." };`,
	} {
		dir := project(t, map[string]string{"suite.mjs": text + `export default [{ id: "a", prompt: "true", assert() {} }];`})
		if _, err := tryRun(t, dir, "suite.mjs", &eval.Options{}); err == nil {
			t.Errorf("%s is taken", name)
		}
		if exists(filepath.Join(dir, eval.DefaultOutputDir)) {
			t.Errorf("%s: something was run", name)
		}
	}
}

// TestTemplateWithTheResultsInIt: the results are no part of what an agent starts
// with, and a template that holds them works.
func TestTemplateWithTheResultsInIt(t *testing.T) {
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		dir := project(t, map[string]string{"a.txt": "x", "suite.mjs": isolated(`templateDir: "."`) + `
export default [{ id: "a", prompt: "test -f a.txt && test -f .hidden && ! test -e ` + eval.DefaultOutputDir + `", assert() {} },
  { id: "b", prompt: "test -f a.txt && false", assert() {} }];`, ".hidden": "y"})
		for range 2 { // with the results of an earlier run there
			r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs})
			if e := of(t, r, "a"); !e.Passed {
				t.Errorf("it fails: %+v", e.Error)
			}
			kept := of(t, r, "b").WorkspacePath
			if !exists(filepath.Join(kept, "a.txt")) || exists(filepath.Join(kept, eval.DefaultOutputDir)) {
				t.Errorf("what is kept of b in %s is not the template without the results", kept)
			}
			if exists(filepath.Join(r.ArtifactDir, "workspaces", ".template")) {
				t.Error("the copy of the template is left behind")
			}
		}
	})
}

// TestNothingOutlives: what a bootstrap command or an agent leaves running is
// ended, whatever it did to get away, also after a time-out.
//
//croft:slow-race
func TestNothingOutlives(t *testing.T) {
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		dir := project(t, map[string]string{
			"orphan.sh": "#!/bin/sh\ndir=$(cd \"$(dirname \"$0\")\" && pwd)\n(setsid sh -c \"until test -e $dir/over; do sleep 0.05; done; echo late > $1\") >/dev/null 2>&1 &\n",
			"suite.mjs": isolated(`bootstrap: { command: "./orphan.sh", args: ["boot"], timeoutMs: 120000 }`) + `
export default [{ id: "a", prompt: "$SUITE/orphan.sh agent; test ! -e boot", timeoutMs: 120000, assert() {} },
  { id: "late", prompt: "$SUITE/orphan.sh agent; sleep 600", timeoutMs: 400, assert() {} }];`})
		t.Setenv("SUITE", dir)
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs, Schedule: eval.Parallel, MaxParallel: 2})
		late := of(t, r, "late")
		if late.FailureClass == nil || late.FailureClass.ID != "timeout" || !strings.HasPrefix(late.Error.Message, "Command timed out after 400ms: ") {
			t.Errorf("late: %+v, %+v", late.FailureClass, late.Error)
		}
		if e := of(t, r, "a"); !e.Passed {
			t.Errorf("a fails: %+v", e.Error)
		}
		if err := os.WriteFile(filepath.Join(dir, "over"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond) // an orphan would have written by now
		for _, name := range []string{"boot", "agent"} {
			if exists(filepath.Join(late.WorkspacePath, name)) {
				t.Errorf("something wrote %s after the end", name)
			}
		}
	})
}

// TestTypeScriptBelowCommonJS loads what npm init makes impossible in Node, with an
// enum, without an extension, and with imports of Node.
func TestTypeScriptBelowCommonJS(t *testing.T) {
	dir := project(t, map[string]string{"package.json": `{"type": "commonjs"}`, "kinds.ts": `export enum Kind { A = "ls" }`,
		"suite.ts": `import { assert, type Case } from "skillgym";
import path from "node:path";
import { Kind } from "./kinds";
const suite: Case[] = [{ id: path.basename("/x/a"), prompt: "true", assert(r) { assert.commands.includes(r, Kind.A); } }];
export default suite;`})
	if e := of(t, runSuite(t, dir, "suite.ts", &eval.Options{}), "a"); !e.Passed {
		t.Errorf("it fails: %+v", e.Error)
	}
}

// TestCollidingIds: cases whose ids are the same as parts of a path keep their
// artifacts and workspaces apart.
func TestCollidingIds(t *testing.T) {
	dir := project(t, map[string]string{"suite.mjs": isolated(``) + `
export default [{ id: "a b", prompt: "echo 1 > f; false", assert() {} }, { id: "a/b", prompt: "echo 2 > f; false", assert() {} }];`})
	r := runSuite(t, dir, "suite.mjs", &eval.Options{})
	one, two := of(t, r, "a b"), of(t, r, "a/b")
	if one.ArtifactDir == two.ArtifactDir || one.WorkspacePath == two.WorkspacePath {
		t.Fatalf("both have %s and %s", one.ArtifactDir, one.WorkspacePath)
	}
	if got, _ := os.ReadFile(filepath.Join(one.WorkspacePath, "f")); string(got) != "1\n" {
		t.Errorf("the first holds %q", got)
	}
}

// TestMissingTemplate is told of each execution, in skillgym's words.
func TestMissingTemplate(t *testing.T) {
	dir := project(t, map[string]string{"file": "", "suite.mjs": isolated(`templateDir: "./none"`) + `
export default [{ id: "a", prompt: "true", assert() {} }];`})
	e := of(t, runSuite(t, dir, "suite.mjs", &eval.Options{Envs: sandboxed(t)}), "a")
	if want := "Workspace template directory does not exist: " + filepath.Join(dir, "none"); e.FailureOrigin != eval.OriginWorkspace || e.Error.Message != want {
		t.Errorf("%s: %q, want %q", e.FailureOrigin, e.Error.Message, want)
	}
}
