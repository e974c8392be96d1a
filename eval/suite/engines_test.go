package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tail"
	"github.com/croft-run/croft/internal/testenv"
)

// hostNode starts Node on the host, for tests of the engine; croft eval starts it in a
// sandbox.
func hostNode(t *testing.T) func(context.Context, []string) (*NodeProcess, error) {
	node := testenv.NeedsNode(t)
	return func(_ context.Context, args []string) (*NodeProcess, error) {
		cmd := exec.Command(node, args...)
		var stderr tail.Buffer
		cmd.Stderr = &stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		closed := false
		return &NodeProcess{Stdin: in, Stdout: out, Stderr: stderr.String, Close: func() error {
			if closed {
				return nil
			}
			closed = true
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // it was killed
			return nil
		}}, nil
	}
}

// bothEngines loads a suite in the built-in engine and in Node.
func bothEngines(t *testing.T, path string, limit Limit) map[string]*Suite {
	t.Helper()
	cfg, err := LoadConfig(t.Context(), path, "")
	if err != nil {
		cfg = nil // the suite has no configuration
	}
	out := map[string]*Suite{}
	for name, l := range map[string]*Loader{"built-in": {Limit: limit}, "node": {Limit: limit, Node: hostNode(t)}} {
		s, err := l.Load(t.Context(), path, cfg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close %s: %v", name, err)
			}
		})
		out[name] = s
	}
	return out
}

// withoutStacks removes what the engines say in their own words: the frames of a stack,
// and the column, which in V8 is that of await where a promise was awaited.
func withoutStacks(o *Outcome) *Outcome {
	cut := func(e *ErrorInfo) {
		if e != nil {
			e.Stack = ""
			if e.Frame != nil {
				e.Frame.Column = 0
			}
		}
	}
	cut(o.Error)
	for i := range o.Soft {
		cut(&o.Soft[i])
	}
	return o
}

// compareEngines judges reports by each case in both engines.
func compareEngines(t *testing.T, path string, reports []string, env AssertEnv) {
	t.Helper()
	both := bothEngines(t, path, Limit{})
	ours, node := both["built-in"], both["node"]
	if diff := cmp.Diff(ours.Cases, node.Cases); diff != "" {
		t.Errorf("cases (-built-in +node):\n%s", diff)
	}
	if diff := cmp.Diff(ours.Workspace, node.Workspace); diff != "" {
		t.Errorf("workspace (-built-in +node):\n%s", diff)
	}
	for _, c := range ours.Cases {
		for i, report := range reports {
			want, got := withoutStacks(judge(t, ours, c.ID, report, env)), withoutStacks(judge(t, node, c.ID, report, env))
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("case %s, report %d (-built-in +node):\n%s", c.ID, i, diff)
			}
			wantClass, wantErr := ours.Classify(t.Context(), c.ID, json.RawMessage(report), EnvInfo{})
			gotClass, gotErr := node.Classify(t.Context(), c.ID, json.RawMessage(report), EnvInfo{})
			if diff := cmp.Diff(wantClass, gotClass); diff != "" || (wantErr == nil) != (gotErr == nil) {
				t.Errorf("class of case %s (-built-in +node):\n%s%v, %v", c.ID, diff, wantErr, gotErr)
			}
		}
	}
}

// TestExamplesAreTheSameInBothEngines: the suites that skillgym publishes, and those of
// the documentation, judge the same in the built-in engine and in Node.
func TestExamplesAreTheSameInBothEngines(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"testdata/skillgym/examples/*-suite.ts", "../../docs/examples/*.suite.*", "../../docs/examples/*/*.suite.*", "../../examples/*/*.suite.*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	if len(paths) < 7 {
		t.Fatalf("suites: %q, want at least 7", paths)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			dir := write(t, "made.txt", "by the agent")
			compareEngines(t, path, reports, &hostEnv{dir: dir})
		})
	}
}

// TestAssertionsAreTheSameInBothEngines asks each assertion of the table of skillgym.
func TestAssertionsAreTheSameInBothEngines(t *testing.T) {
	var b strings.Builder
	b.WriteString("import { assert, commandMatcher } from \"skillgym\";\nexport default [\n")
	for i, c := range calls {
		fmt.Fprintf(&b, "  { id: \"c%d\", prompt: \"p\", async assert(report) {\n    %s;\n  } },\n", i, c)
	}
	b.WriteString("];\n")
	dir := write(t, "a.suite.mjs", b.String())
	compareEngines(t, filepath.Join(dir, "a.suite.mjs"), reports, nil)
}

// TestTheWorkspaceIsTheSameInBothEngines: files, commands, judges, soft failures, logs,
// an exit and errors that no caller catches.
func TestTheWorkspaceIsTheSameInBothEngines(t *testing.T) {
	workspace := write(t, "made.txt", "by the agent", "d/e.txt", "x")
	bodies := []string{
		`assert.files.exists(report, "made.txt"); assert.files.equals(report, "made.txt", "other")`,
		`assert.soft.equal(1, 2); assert.soft.output.includes(report, "zzz"); assert.equal(3, 4)`,
		`setTimeout(() => { throw new Error("late") }, 5)`,
		`setTimeout(() => setTimeout(() => { throw new Error("later") }, 1), 1); assert.soft.ok(false, "soft one")`,
		`setTimeout(() => { throw new Error("never") }, 60000)`,
		`assert.soft.ok(false, "soft one"); throw new Error("boom")`,
		`assert.soft.ok(false, "soft one"); throw "a text"`,
		`assert.soft.ok(false, "soft one"); throw null`,
		`console.log("a %d", 1, { b: [1, 2] }); console.error(new Map([[1, 2]])); process.stdout.write("out\n")`,
		`process.exit(3)`,
		`const text = await readFile(path.join(report.workspace, "made.txt"), "utf8"); assert.equal(text, "x")`,
		`fs.readFileSync("/etc/passwd")`,
		`fs.readFileSync(path.join(report.workspace, "none"))`,
		`fs.writeFileSync(path.join(os.tmpdir(), "a"), Buffer.from([1, 2])); console.log(fs.readFileSync(path.join(os.tmpdir(), "a")), fs.existsSync(path.join(os.tmpdir(), "b")))`,
		`console.log(await readdir(report.workspace, { recursive: true }), fs.statSync(report.workspace).isDirectory())`,
		`await assert.workspace.run(report, "echo hi; exit 3", { exitCode: 0 })`,
		`Promise.reject(new Error("no one catches"))`,
		`await new Promise(() => {})`,
		`throw { not: "an error" }`,
		`assert.budget(report, { maxDurationMs: 1 })`,
		`assert.classify({ id: "x", label: "X" }, () => assert.fail("no"))`,
		`console.log(process.env.CROFT_TEST_VALUE, process.cwd(), os.homedir(), new URL("./bin/", import.meta.url).pathname, __dirname)`,
		`await assert.rejects(async () => { throw new RangeError("r") }, { name: "RangeError", message: "q" })`,
		`console.log(/^\p{L}+$/u.test("äö"), (1234.5).toLocaleString("en-US"), util.inspect({ a: [1] }))`,
	}
	t.Setenv("CROFT_TEST_VALUE", "v")
	var b strings.Builder
	b.WriteString(`import { assert } from "skillgym"; import fs from "node:fs"; import { readFile, readdir } from "node:fs/promises"; import path from "node:path"; import os from "node:os"; import util from "node:util";
export const workspace = { mode: "isolated" };
export default [
`)
	for i, text := range bodies {
		fmt.Fprintf(&b, "  { id: \"c%d\", prompt: \"p\", async assert(report) {\n    %s;\n  } },\n", i, text)
	}
	b.WriteString("];\n")
	dir := write(t, "a.suite.mjs", b.String())
	compareEngines(t, filepath.Join(dir, "a.suite.mjs"), []string{fmt.Sprintf(`{"workspace":%q,"finalOutput":"done"}`, workspace)}, &hostEnv{dir: workspace})
}

// TestNodeHasWhatTheEngineLacks, and a suite that never pauses ends alone.
func TestNodeHasWhatTheEngineLacks(t *testing.T) {
	dir := write(t, "a.suite.ts", `import { execFileSync } from "node:child_process"; import { assert } from "skillgym";
let loaded = 0;
export default [
  { id: "all", prompt: "p", assert() {
    loaded++;
    assert.equal((1234.5).toLocaleString("de-DE"), "1.234,5");
    assert.ok(/^[\p{L}--[a-c]]$/v.test("d") && !/^[\p{L}--[a-c]]$/v.test("a") && /(?i:a)/.test("A"));
    assert.equal(execFileSync("echo", ["hi"]).toString(), "hi\n");
  } },
  { id: "loop", prompt: "p", assert() { for (;;); } },
];`, "bad.suite.ts", "export default [];\nconst x: number = 1;\nthrow new TypeError('at load');")
	l := &Loader{Limit: Limit{Turn: 10 * time.Second}, Node: hostNode(t)}
	s, err := l.Load(t.Context(), filepath.Join(dir, "a.suite.ts"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if out := judge(t, s, "all", `{}`, nil); !out.Passed {
		t.Errorf("outcome = %+v, want passed", out.Error)
	}
	if out := judge(t, s, "loop", `{}`, nil); out.Passed || out.Error == nil || out.Error.Message != "it ran for 10s without a pause" {
		t.Errorf("outcome of a loop = %+v, want the limit", out.Error)
	}
	if out := judge(t, s, "all", `{}`, nil); !out.Passed {
		t.Errorf("outcome after a loop = %+v, want passed", out.Error)
	}
	_, err = l.Load(t.Context(), filepath.Join(dir, "bad.suite.ts"), nil)
	if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "bad.suite.ts:3:7: TypeError: at load") {
		t.Errorf("a suite that throws: %v, want its place", err)
	}
}
