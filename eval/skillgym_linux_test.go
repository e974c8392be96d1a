package eval_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/internal/testenv"
)

// matrixSuite has an execution for each way to end.
const matrixSuite = `import { assert } from "skillgym";
export const workspace = { mode: "isolated", templateDir: "./template",
  bootstrap: { command: "sh", args: ["./boot.sh", "--seed", "demo"], env: { MODE: "test" }, timeoutMs: 120000 } };
export default [
  { id: "passes", prompt: "cat made", tags: ["a", "b"], assert(r) { assert.commands.includes(r, "ls"); assert.equal(r.finalOutput, "done"); } },
  { id: "asserts / fails", prompt: "true", assert(r) { assert.commands.includes(r, "nope"); } },
  { id: "crashes", prompt: "exit 3", assert() {} },
  { id: "hook", prompt: "true", assert() { throw new TypeError("boo"); } },
  { id: "expected", prompt: "true", expectedFail: true, assert() { assert.equal(1, 2); } },
  { id: "unexpected", prompt: "true", expectedFail: true, assert() {} },
  { id: "crash-expected", prompt: "exit 4", expectedFail: true, assert() {} },
  { id: "classified", prompt: "true", assert(r) { assert.classify({ id: "mine", label: "Mine" }, () => assert.ok(false, "no")); } },
  { id: "reclassified", prompt: "true", classifyFailure(r) { return "own-" + r.failureOrigin; }, assert() { assert.fail("x"); } },
  { id: "slow", prompt: "sleep 30", timeoutMs: 700, assert() {} },
];
`

const bootScript = `env | grep -E '^(SKILLGYM_|MODE=)' | sort
pwd
echo "$@"
echo made > made
`

// TestSideBySide runs one suite with npm's skillgym and with ours, on the same
// stub agent, and compares what they say and leave.
func TestSideBySide(t *testing.T) {
	npm := testenv.NeedsAgent(t, "skillgym")
	testenv.NeedsProgram(t, "node")
	dir := project(t, map[string]string{"suite.mjs": matrixSuite, "boot.sh": bootScript, "template/.hidden": "h", "template/sub/file": "f"})
	if err := os.Symlink(filepath.Dir(filepath.Dir(npm)), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "theirs")
	cmd := exec.CommandContext(t.Context(), npm, "run", "suite.mjs", "--output-dir", theirs)
	cmd.Dir = dir
	said, _ := cmd.CombinedOutput() // it exits with 1: cases fail
	dirs, err := filepath.Glob(filepath.Join(theirs, "*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("skillgym left %v, %v\n%s", dirs, err, said)
	}
	want := readRun(t, dirs[0])
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs, OutputDir: filepath.Join(dir, "ours-"+envs.Kind())})
		got := readRun(t, r.ArtifactDir)
		for _, id := range slices.Sorted(maps.Keys(want.Verdicts)) {
			t.Logf("%-24s skillgym %-8s ours %s", id, want.Verdicts[id].Status, got.Verdicts[id].Status)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("skillgym (-) and ours (+):\n%s", diff)
		}
	})
}

// A ranRun is what a run says and leaves, without what differs from one to another.
type ranRun struct {
	Verdicts  map[string]ranCase
	Files     []string          // artifacts of skillgym's kinds
	Kept      []string          // what is below workspaces
	Boot      map[string]string // what each bootstrap command said
	Workspace map[string]string // workspace.json
	Explain   map[string]string // explain.json
	Runners   any
	Tags      any
}

type ranCase struct {
	Passed                  bool
	Status, Origin, Class   string
	Label, Error, Log       string
	Tokens                  any
	Repetitions, Successful any
	RepStatus, RepOrigin    string
}

func readRun(t *testing.T, dir string) ranRun {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, eval.ResultsName))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	out := ranRun{Verdicts: map[string]ranCase{}, Boot: map[string]string{}, Workspace: map[string]string{}, Explain: map[string]string{}, Tags: doc["declaredTags"]}
	for _, c := range doc["cases"].([]any) {
		c := c.(map[string]any)
		out.Verdicts[c["caseId"].(string)] = readCase(c["runnerResults"].([]any)[0].(map[string]any), dir)
	}
	runner := doc["runners"].([]any)[0].(map[string]any)
	out.Runners = []any{runner["totalCases"], runner["passedCases"], runner["successRate"], runner["averageTotalTokens"]}
	readTree(t, dir, &out)
	return out
}

func text(v any) string { s, _ := v.(string); return s }

func readCase(e map[string]any, dir string) ranCase {
	c := ranCase{Passed: e["passed"].(bool), Status: text(e["status"]), Origin: text(e["failureOrigin"]),
		Log: strings.TrimPrefix(text(e["failureLogPath"]), dir), Repetitions: e["completedRepetitions"], Successful: e["successfulRepetitions"]}
	if class, ok := e["failureClass"].(map[string]any); ok {
		c.Class, c.Label = text(class["id"]), text(class["label"])
	}
	if x, ok := e["error"].(map[string]any); ok {
		c.Error = text(x["message"])
	}
	if c.Origin == "" || c.Origin == "assertion" { // of an agent that crashed skillgym keeps no report
		c.Tokens = e["report"].(map[string]any)["usage"].(map[string]any)["totalTokens"]
	}
	rep := e["repetitions"].([]any)[0].(map[string]any)
	c.RepStatus, c.RepOrigin = text(rep["status"]), text(rep["failureOrigin"])
	return c
}

// known are the kinds of artifacts that skillgym has.
var known = []string{"results.json", "workspace.json", "stdout.log", "stderr.log", "report.json", "error.json", "explain.json",
	"bootstrap.stdout.log", "bootstrap.stderr.log"}

func readTree(t *testing.T, dir string, out *ranRun) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch {
		case strings.HasPrefix(rel, "workspaces"):
			out.Kept = append(out.Kept, rel)
		case e.IsDir() || !slices.Contains(known, e.Name()):
			return nil
		default:
			out.Files = append(out.Files, rel)
		}
		data, err := os.ReadFile(p)
		said := strings.ReplaceAll(string(data), dir, "RUN")
		switch e.Name() {
		case "bootstrap.stdout.log":
			out.Boot[rel] = said
		case "explain.json":
			out.Explain[rel] = envs(said)
		case "workspace.json":
			var w map[string]any
			if err := json.Unmarshal([]byte(said), &w); err != nil {
				return err
			}
			delete(w, "provider") // ours
			delete(w["bootstrap"].(map[string]any), "durationMs")
			data, _ := json.Marshal(w)
			out.Workspace[rel] = string(data)
		}
		if e.IsDir() {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// envs takes away columns, which engines count in ways of their own.
func envs(s string) string {
	lines := strings.Split(s, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, `"column"`) }), "\n")
}

// publishedVerdicts says how each case of skillgym's examples ends with an agent that
// does nothing but `ls -la` and answers "done": "" passes, others fail with this origin
// and this first line.
var publishedVerdicts = map[string]string{
	"basic-suite.ts/always-passes":      "assertion: The input did not match the regular expression /skillgym ready/. Input:",
	"basic-suite.ts/assertion-fails":    "assertion: The input did not match the regular expression /this will never match/. Input:",
	"basic-suite.ts/assert-crashes":     "assert-hook: assert hook crashed intentionally",
	"basic-suite.ts/max-steps-exceeded": "assertion: The input did not match the regular expression /all steps done/i. Input:",
	"explain-command-mismatch-suite.ts/command-mismatch-for-explain": "assertion: expected the agent to run `pwd`. Expected commands to include a value matching \"pwd\". " +
		`Observed commands: ls -la parsed (executable="ls", options={"-l":[true],"-a":[true]})`,
	"failure-classification-suite.ts/wrong-cli-alias-echo":          "", // "done" has no wrong alias
	"failure-classification-suite.ts/wrong-cli-alias-command":       "",
	"flaky-retry-suite.ts/retry-once":                               "assert-hook: Intentional first-run failure. Run the same suite again.",
	"repeat-counter-suite.ts/repeat-counter-stable":                 "",
	"repeat-counter-suite.ts/repeat-counter-flaky":                  "", // its third repetition fails
	"skill-selection-suite.ts/find-skills-expo-opencode-compatible": `assertion: Expected detectedSkills to include "find-skills". Observed detectedSkills: (none)`,
	"skill-selection-suite.ts/find-skills-expo-strict": `assertion: Expected detectedSkills to include all of: "find-skills", "upgrading-expo". ` +
		`Missing: "find-skills", "upgrading-expo". Observed detectedSkills: (none)`,
	"workspace-isolation-suite.ts/isolated-workspace-check": `assertion: Expected file reads to include a value matching /README\.md$/. Observed file reads: (none)`,
}

// TestPublishedExamplesRun runs skillgym's own example suites, unchanged, with a
// stub for each of their agents.
func TestPublishedExamplesRun(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("suite/testdata/skillgym")); err != nil {
		t.Fatal(err)
	}
	bins := t.TempDir()
	if err := os.WriteFile(filepath.Join(bins, "claude"), []byte(strings.Replace(stub, `eval "$last" >&2 || exit $?`, "", 1)), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bins+":"+os.Getenv("PATH"))
	suites, err := filepath.Glob(filepath.Join(dir, "examples", "*-suite.ts"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, path := range suites {
		name := filepath.Base(path)
		r, err := tryRun(t, filepath.Dir(path), name, &eval.Options{Envs: sandboxed(t), Runners: []string{"claude-main"}, OutputDir: t.TempDir()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, c := range r.Cases {
			e := c.RunnerResults[0]
			verdict := ""
			if !e.Passed && e.Error != nil {
				line, _, _ := strings.Cut(e.Error.Message, "\n")
				verdict = string(e.FailureOrigin) + ": " + line
			}
			if e.Passed != (verdict == "") {
				t.Errorf("%s: %s: passed is %v, and its error is %+v", name, c.CaseID, e.Passed, e.Error)
			}
			got[name+"/"+c.CaseID] = verdict
		}
	}
	if diff := cmp.Diff(publishedVerdicts, got); diff != "" {
		t.Errorf("verdicts differ (-want +got):\n%s", diff)
	}
}
