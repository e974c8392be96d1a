package eval_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// shapeSuite has a case for each way to end that both tell of.
const shapeSuite = `import { assert } from "skillgym";
export const workspace = { mode: "isolated", templateDir: "./template", bootstrap: { command: "sh", args: ["-c", "echo made > made"] } };
export default [
  { id: "passes", prompt: "true", tags: ["a"], assert(r) { assert.equal(r.finalOutput, "done"); } },
  { id: "has no tags, and a comma", prompt: "true", assert() {} },
  { id: "fails", prompt: "true", assert(r) { assert.commands.includes(r, "nope", { explain: { question: "Why not?" } }); } },
  { id: "expected", prompt: "true", expectedFail: true, assert() { assert.equal(1, 2); } },
  { id: "unexpected", prompt: "true", expectedFail: true, assert() {} },
];
`

// shapeReporter writes each event as a line.
const shapeReporter = `const hooks = ["onSuiteStart", "onCaseStart", "onRunnerStart", "onRunnerFinish", "onCaseFinish", "onSuiteFinish", "onError"];
const write = (hook) => ({ error, ...event }) => {
  if (error) event.error = { name: error.name, message: error.message };
  console.log(JSON.stringify({ hook, event }));
};
export default Object.fromEntries(hooks.map((hook) => [hook, write(hook)]));
`

// shapeAgent is stub with an answer for sessions that are resumed.
const shapeAgent = `#!/bin/sh
echo '{"type":"system","subtype":"init","session_id":"s1"}'
echo '{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"working"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls -la"}},{"type":"tool_use","id":"t2","name":"Read","input":{"file_path":"/x/skill/SKILL.md"}},{"type":"tool_use","id":"t3","name":"Skill","input":{"skill":"greet"}}]}}'
echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}}'
echo '{"type":"result","result":"done","session_id":"s1","usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":2}}'
`

// A document is a text of JSON, or lines of it, that both write.
type document struct{ name, text string }

// TestShapesSideBySide runs one suite with npm's skillgym and with croft, and compares the
// shapes of all JSON that they write: each field of skillgym's is in ours, with its type.
//
//croft:slow
func TestShapesSideBySide(t *testing.T) {
	npm := testenv.NeedsAgent(t, "skillgym")
	testenv.NeedsProgram(t, "node")
	dir := project(t, map[string]string{"suite.mjs": shapeSuite, "reporter.mjs": shapeReporter, "agent.sh": shapeAgent, "template/file": "f"})
	if err := os.Symlink(filepath.Dir(filepath.Dir(npm)), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	theirs := shapeDocuments(t, dir, "theirs", func(args ...string) []string { return append([]string{npm}, args...) })
	ours := shapeDocuments(t, dir, "ours", func(args ...string) []string {
		return slices.Concat([]string{bin(t, "croft"), "--data", data, "eval"}, args, []string{"--provider", "local"})
	})
	var table strings.Builder
	fmt.Fprintf(&table, "%-40s %8s %8s %8s\n", "document", "skillgym", "lacking", "differ")
	for i, want := range theirs {
		is, was := shapeOf(t, ours[i]), shapeOf(t, want)
		lacking, differ := compareShapes(was, is)
		fmt.Fprintf(&table, "%-40s %8d %8d %8d\n", want.name, len(was), len(lacking), len(differ))
		if len(lacking)+len(differ) > 0 {
			t.Errorf("%s:\nwe lack %s\nof another type %s\n%s", want.name, strings.Join(lacking, "\n\t"), strings.Join(differ, "\n\t"), ours[i].text)
		}
	}
	t.Logf("shapes side by side:\n%s", table.String())
}

// shapeDocuments runs the suite in several ways and returns what was written.
func shapeDocuments(t *testing.T, dir, name string, command func(args ...string) []string) (docs []document) {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		argv := command(args...)
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		var errs strings.Builder
		cmd.Dir, cmd.Stderr = dir, &errs
		out, err := cmd.Output() // cases fail, so it exits with 1
		if len(out) == 0 {
			t.Fatalf("%v: %v\n%s", argv, err, errs.String())
		}
		return string(out)
	}
	for _, way := range [][]string{{}, {"--repeat", "2", "--repeat-failure", "1"}, {"--tag", "a"}} {
		more := append([]string{"--output-dir", name}, way...)
		title := strings.Join(way, " ")
		docs = append(docs, document{"json-summary " + title, run(slices.Concat([]string{"run", "suite.mjs", "--reporter", "json-summary"}, more)...)},
			document{"json " + title, run(slices.Concat([]string{"run", "suite.mjs", "--reporter", "json"}, more)...)},
			document{"events of reporters " + title, run(slices.Concat([]string{"run", "suite.mjs", "--reporter", "./reporter.mjs"}, more)...)})
	}
	docs = append(docs, document{"onError", run("run", "suite.mjs", "--output-dir", name, "--case", "none", "--reporter", "./reporter.mjs")})
	runs, err := filepath.Glob(filepath.Join(dir, name, "*"))
	if err != nil || len(runs) == 0 {
		t.Fatalf("%s left %v, %v", name, runs, err)
	}
	failed := filepath.Join(runs[0], "fails", "main--0d6e4079", "repeat-1")
	run("explain", failed)
	for _, file := range []string{"explanations.json", "explain.json", "workspace.json", "report.json", "error.json"} {
		text, err := os.ReadFile(filepath.Join(failed, file))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, document{file, string(text)})
	}
	return docs
}

// shapeOf returns the types at each path of a document. Lines are told apart by hook.
func shapeOf(t *testing.T, d document) map[string]map[string]bool {
	t.Helper()
	shape := map[string]map[string]bool{}
	for dec := json.NewDecoder(strings.NewReader(d.text)); dec.More(); {
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s: %v\n%s", d.name, err, d.text)
		}
		prefix := "$"
		if line, ok := v.(map[string]any); ok && line["hook"] != nil {
			prefix = line["hook"].(string)
		}
		addShape(shape, prefix, v)
	}
	return shape
}

func addShape(shape map[string]map[string]bool, path string, v any) {
	kind := fmt.Sprintf("%T", v)
	switch v := v.(type) {
	case map[string]any:
		kind = "object"
		for key, value := range v {
			addShape(shape, path+"."+key, value)
		}
	case []any:
		kind = "list"
		for _, value := range v {
			addShape(shape, path+"[]", value)
		}
	}
	if shape[path] == nil {
		shape[path] = map[string]bool{}
	}
	shape[path][kind] = true
}

// compareShapes returns the paths that is lacks, and those with another type.
func compareShapes(was, is map[string]map[string]bool) (lacking, differ []string) {
	for _, path := range slices.Sorted(maps.Keys(was)) {
		switch {
		case is[path] == nil:
			lacking = append(lacking, path)
		case !maps.Equal(was[path], is[path]):
			differ = append(differ, fmt.Sprintf("%s is %v, and not %v", path, slices.Sorted(maps.Keys(is[path])), slices.Sorted(maps.Keys(was[path]))))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(is)) {
		if was[path] == nil && is[path]["<nil>"] {
			differ = append(differ, path+" is null")
		}
	}
	return lacking, differ
}
