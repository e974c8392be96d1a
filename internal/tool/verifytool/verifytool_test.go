package verifytool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/tool/verifytool"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// newEnv opens a workspace with files in it, and the tools over it.
func newEnv(t *testing.T, files map[string]string) *tool.Env {
	t.Helper()
	p, err := local.New(&local.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: "local", ID: workspace.NewID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := new(tool.Set)
	if err := set.Add("w", ws); err != nil {
		t.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{
		Tools: append(tool.Coding(), verifytool.Tools()...), Workspaces: set, Effects: []tool.Effect{unhurried(verifytool.Effect(nil))},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := env.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := ws.Destroy(ctx); err != nil {
			t.Error(err)
		}
	})
	for name, text := range files {
		put(t, env, name, text)
	}
	return env
}

// unhurried gives an effect more time than people are kept waiting for one, so that
// what it says does not depend on how busy the machine is.
func unhurried(effect tool.Effect) tool.Effect {
	return func(ctx context.Context, c *tool.Call, paths []string) (string, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		return effect(ctx, c, paths)
	}
}

func put(t *testing.T, env *tool.Env, name, text string) {
	t.Helper()
	ws, err := env.Workspaces.Get(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ws.WriteFile(t.Context(), name, []byte(text), &driver.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
}

// call runs a tool and returns its text, or its error's.
func call(t *testing.T, env *tool.Env, name, args string) string {
	t.Helper()
	res, err := env.Run(t.Context(), tool.Request{Tool: name, Args: json.RawMessage(args)})
	if err != nil {
		if fault.Of(err) == fault.Internal {
			t.Errorf("%s(%s): %v", name, args, err)
		}
		return tool.ErrorText(err)
	}
	if data := res.Data(); !json.Valid(data) {
		t.Errorf("%s(%s): structured is %s", name, args, data)
	}
	return res.Text
}

// has fails unless text has all of the parts, in that order.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			t.Fatalf("%q is missing, or out of order, in:\n%s", p, text)
		}
		rest = after
	}
}

var python = map[string]string{
	"setup.py": "",
	"calc.py":  "def add(a, b):\n    return a + b + 1\n",
	"test_calc.py": `import unittest
from calc import add


class CalcTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)

    def test_fine(self):
        pass
`,
	"test_other.py": "import unittest\n\n\nclass Other(unittest.TestCase):\n    def test_other(self):\n        pass\n",
}

func TestFixingATest(t *testing.T) {
	testenv.NeedsProgram(t, "python3")
	env := newEnv(t, python)
	has(t, call(t, env, "last_test_failures", `{}`), "no run_tests call yet in this session")
	has(t, call(t, env, "run_failing_tests", `{}`), "no run_tests call yet in this session")

	has(t, call(t, env, "run_tests", `{}`), "2 passed, 1 failed, 0 skipped (unittest)",
		"1. test_calc.CalcTest/test_add\n   test_calc.py:7\n   AssertionError: 4 != 3\n   --- diff ---\n   -3\n   +4\n", "exit: 1\n")
	has(t, call(t, env, "last_test_failures", `{}`), "1 test failure(s) from last run_tests call (python, ", "1. test_calc.CalcTest/test_add\n   test_calc.py:7\n")
	has(t, call(t, env, "run_failing_tests", `{}`), "0 passed, 1 failed", "1. test_calc.CalcTest/test_add")

	put(t, env, "calc.py", "def add(a, b):\n    return a + b\n")
	has(t, call(t, env, "run_failing_tests", `{}`), "1 passed, 0 failed")
	has(t, call(t, env, "run_failing_tests", `{}`), "last run_tests had no failures — nothing to rerun (python)")
	has(t, call(t, env, "last_test_failures", `{}`), "last run_tests had no failures (1 tests passed, python, ")

	has(t, call(t, env, "run_tests", `{"files":["test_other.py"]}`), "1 passed, 0 failed")
}

// TestAnswerIsShort: an answer has the numbers and the failures, and the output of the runner
// can be read by an id. Progress comes at most once a second.
func TestAnswerIsShort(t *testing.T) {
	testenv.NeedsProgram(t, "python3")
	body := "import unittest\n\n\nclass Noisy(unittest.TestCase):\n    def test_noisy(self):\n" +
		"        for i in range(3000):\n            print('line', i)\n"
	env := newEnv(t, map[string]string{"setup.py": "", "test_noisy.py": body})
	calls := 0
	res, err := env.Run(t.Context(), tool.Request{Tool: "run_tests", Args: json.RawMessage(`{}`), Progress: func(tool.Progress) { calls++ }})
	if err != nil {
		t.Fatal(err)
	}
	has(t, res.Text, "1 passed, 0 failed, 0 skipped (unittest)\n", `output: BashOutput with shell_id "`)
	if len(res.Text) > 300 || len(res.Data()) > 1000 {
		t.Errorf("the answer has %d bytes of text and %d of data", len(res.Text), len(res.Data()))
	}
	if calls == 0 || calls > 30 {
		t.Errorf("%d reports of progress", calls)
	}
	_, id, _ := strings.Cut(res.Text, `shell_id "`)
	id, _, _ = strings.Cut(id, `"`)
	has(t, call(t, env, "BashOutput", fmt.Sprintf(`{"shell_id":%q,"offset":0}`, id)), "line 0\n", "line 2999\n", "--- stderr ---", "Ran 1 test ")

	put(t, env, "test_noisy.py", body+"        self.fail('x\\n' * 4000)\n")
	res, err = env.Run(t.Context(), tool.Request{Tool: "run_tests", Args: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	has(t, res.Text, "0 passed, 1 failed", "1. test_noisy.Noisy/test_noisy\n   test_noisy.py:8\n", "more bytes)", "exit: 1\n", "BashOutput")
	if len(res.Text) > 8000 || len(res.Data()) > 12000 {
		t.Errorf("the answer has %d bytes of text and %d of data", len(res.Text), len(res.Data()))
	}
}

// TestSourceFiles: a source file runs the tests that cover it; where none does, that is said.
func TestSourceFiles(t *testing.T) {
	for _, tt := range []struct {
		name, needs string
		files       map[string]string
		args, want  string
	}{
		{"unittest", "python3", python, `{"files":["calc.py"]}`, "1 passed, 1 failed"},
		{"unittest, none", "python3", python, `{"files":["setup.py"]}`, "run_tests: no test covers setup.py: none imports it, directly or not"},
		{"unittest, some", "python3", python, `{"files":["setup.py","test_other.py"]}`, "1 passed, 0 failed, 0 skipped (unittest)\nnote: no test covers setup.py"},
		{"node", "node", map[string]string{
			"package.json": `{"name":"m","scripts":{"test":"node --test"}}`, "lib/calc.js": "exports.one = 2;\n", "lib/alone.js": "",
			"calc.test.js": "require('node:test').test('one', () => require('node:assert').equal(require('./lib/calc.js').one, 1));\n",
		}, `{"files":["lib/calc.js"]}`, "0 passed, 1 failed"},
		{"node, none", "node", map[string]string{
			"package.json": `{"name":"m","scripts":{"test":"node --test"}}`, "lib/alone.js": "", "calc.test.js": "",
		}, `{"files":["lib/alone.js"]}`, "run_tests: no test covers lib/alone.js"},
		{"go, by an importer", "go", map[string]string{
			"go.mod": "module example.com/m\n\ngo 1.24\n", "calc/calc.go": "package calc\n\nfunc One() int { return 2 }\n",
			"m_test.go":         "package m\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m/calc\"\n)\n\nfunc TestOne(t *testing.T) {\n\tif calc.One() != 1 {\n\t\tt.Error()\n\t}\n}\n",
			"other/o_test.go":   "package other\n\nimport \"testing\"\n\nfunc TestOther(t *testing.T) {}\n",
			"untested/alone.go": "package untested\n",
		}, `{"files":["calc/calc.go"]}`, "0 passed, 1 failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testenv.NeedsProgram(t, tt.needs)
			has(t, call(t, newEnv(t, tt.files), "run_tests", tt.args), tt.want)
		})
	}
}

// TestExplicitCommand: a command is run instead of the project's, and is parsed if it starts
// a known runner.
func TestExplicitCommand(t *testing.T) {
	testenv.NeedsProgram(t, "python3")
	env := newEnv(t, python)
	got := call(t, env, "run_tests", `{"command":"python3 -m unittest 'test_calc.CalcTest.test_add'"}`)
	has(t, got, "0 passed, 1 failed, 0 skipped (unittest)", "1. test_calc.CalcTest/test_add\n   test_calc.py:7\n", "exit: 1")
	has(t, call(t, env, "run_failing_tests", `{}`), "0 passed, 1 failed")
	has(t, call(t, env, "run_tests", `{"command":"echo $((40+2)) tests; exit 3"}`), "0 passed, 1 failed", "exit status 3", "42 tests", "exit: 3")
	has(t, call(t, env, "run_tests", `{"command":"echo fine | cat"}`), "fine\nthe command passed; its output has no numbers of tests that could be read\n")
	has(t, call(t, env, "run_tests", `{"command":"true","files":["calc.py"]}`), "run_tests: command can't be combined with files or coverage")

	none := newEnv(t, nil)
	has(t, call(t, none, "run_tests", `{"command":"false"}`), "1 failed", "exit: 1")
	has(t, call(t, none, "run_failing_tests", `{}`), "run_failing_tests: the last run was of no project; use run_tests with its command again")
}

// TestARenamedTestIsNotASuccess: one that should run again and is gone is counted and named.
func TestARenamedTestIsNotASuccess(t *testing.T) {
	env := newEnv(t, map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.24\n",
		"a_test.go": "package m\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Fatal(\"no\") }\n",
	})
	has(t, call(t, env, "run_tests", `{}`), "1 failed", "1. example.com/m/TestA\n   a_test.go:5\n   no\n")
	put(t, env, "a_test.go", "package m\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) {}\n")
	has(t, call(t, env, "run_failing_tests", `{}`), "0 passed, 0 failed, 1 not run again", "note: did not run again: example.com/m/TestA; go test found no test of that name")
	has(t, call(t, env, "last_test_failures", `{}`), "last run_tests had no failures (0 tests passed, go, ", "not run again: example.com/m/TestA")
}

func TestCovering(t *testing.T) {
	env := newEnv(t, map[string]string{
		"go.mod":          "module example.com/m\n\ngo 1.24\n",
		"calc/calc.go":    "package calc\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n\nfunc Neg(a int) int {\n\treturn -a\n}\n",
		"calc/a_test.go":  "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { Add(1, 2) }\n\nfunc TestNothing(t *testing.T) {}\n",
		"user/user.go":    "package user\n\nimport \"example.com/m/calc\"\n\nfunc Use() int { return calc.Neg(1) }\n",
		"user/b_test.go":  "package user\n\nimport \"testing\"\n\nfunc TestUse(t *testing.T) { Use() }\n",
		"other/c_test.go": "package other\n\nimport \"testing\"\n\nfunc TestOther(t *testing.T) {}\n",
	})
	got := call(t, env, "tests_covering", `{"file":"calc/calc.go"}`)
	has(t, got, "2 test(s) cover calc/calc.go:", "example.com/m/calc:", "example.com/m/user:", "by imports")
	if strings.Contains(got, "other") {
		t.Errorf("got %s", got)
	}
	has(t, call(t, env, "run_tests", `{"coverage":true}`), "4 passed")
	has(t, call(t, env, "tests_covering", `{"file":"calc/calc.go","line":4}`), "1 test(s) cover calc/calc.go:4:\n\nexample.com/m/calc:\n  TestAdd\n", "measured")
	has(t, call(t, env, "tests_covering", `{"file":"calc/calc.go","line":8}`), "1 test(s) cover calc/calc.go:8:\n\nexample.com/m/user:\n  TestUse\n")
	has(t, call(t, env, "tests_covering", `{"file":"calc/calc.go","line":7}`), "TestUse")
	has(t, call(t, env, "tests_covering", `{"file":"calc/calc.go","line":6}`), "no coverage found for calc/calc.go:6")
	has(t, call(t, env, "tests_covering", `{"file":"calc/none.go"}`), "no such file or directory")
	has(t, call(t, env, "tests_covering", `{"file":" "}`), "tests_covering: file_path is required")
	has(t, call(t, env, "tests_covering", `{"file_path":"calc/calc.go","line":4}`), "1 test(s) cover calc/calc.go:4:")
}

// TestCoveringWithABrokenFile: a test file that can't be loaded does not end the measurement
// of the others, and is named. If no test runs, the reason is said.
func TestCoveringWithABrokenFile(t *testing.T) {
	testenv.NeedsProgram(t, "pytest")
	env := newEnv(t, map[string]string{
		"pytest.ini": "[pytest]\n", "setup.py": "", "calc.py": "def add(a, b):\n    return a + b\n",
		"test_calc.py":   "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
		"test_broken.py": "import no_such_module\n",
	})
	has(t, call(t, env, "run_tests", `{"coverage":true}`), "1 passed, 1 failed", "test_broken.py [does not build]",
		"note: coverage lacks the tests of files that could not be loaded: test_broken.py")
	has(t, call(t, env, "tests_covering", `{"file":"calc.py","line":2}`), "1 test(s) cover calc.py:2:", "test_add", "measured")

	put(t, env, "conftest.py", "import no_such_module\n")
	has(t, call(t, env, "run_tests", `{"coverage":true}`), "note: coverage: ", "pytest ran no test: exit status 4", "No module named 'no_such_module'")
}

func TestAfterAnEdit(t *testing.T) {
	env := newEnv(t, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.24\n",
		"a.go":   "package m\n\nfunc F() int { return 1 }\n",
	})
	call(t, env, "Read", `{"file_path":"a.go"}`)
	got := call(t, env, "Edit", `{"file_path":"a.go","old_string":"return 1","new_string":"return   1"}`)
	has(t, got, "replaced 1 occurrence(s) in a.go", "--- format ---\na.go was formatted:\n", "-func F() int { return   1 }\n+func F() int { return 1 }\n")
	// The agent knows the file as it is now.
	got = call(t, env, "Edit", `{"file_path":"a.go","old_string":"return 1 }","new_string":"return }"}`)
	has(t, got, "replaced 1 occurrence(s) in a.go", "post-edit lint findings (1):\na.go:3:")
	// So is code that can't be parsed.
	has(t, call(t, env, "Edit", `{"file_path":"a.go","old_string":"return }","new_string":"return ("}`), "post-edit format: gofmt: exit status 2: a.go:3:")
}

// TestAfterAnEditInAMixedProject: what follows an edit is of the file's language,
// whichever was detected first. Where its formatter is not installed that is told.
func TestAfterAnEditInAMixedProject(t *testing.T) {
	env := newEnv(t, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.24\n", "a.go": "package m\n",
		"pyproject.toml": "[tool.ruff]\n", "app.py": "x = 1\n",
	})
	call(t, env, "Read", `{"file_path":"app.py"}`)
	got := call(t, env, "Edit", `{"file_path":"app.py","old_string":"x = 1","new_string":"x  =  2"}`)
	has(t, got, "replaced 1 occurrence(s) in app.py")
	if !strings.Contains(got, "ruff not found on PATH") && !strings.Contains(got, "app.py was formatted") {
		t.Errorf("nothing is told of the formatter of Python:\n%s", got)
	}
	// A second answer does not repeat it.
	if got = call(t, env, "Edit", `{"file_path":"app.py","old_string":"2","new_string":"3"}`); strings.Contains(got, "not found on PATH") {
		t.Errorf("the missing formatter is named again:\n%s", got)
	}
}

func TestRunScript(t *testing.T) {
	env := newEnv(t, map[string]string{"package.json": `{"name":"m","scripts":{"hello":"echo hi; exit 3","b":"true"}}`})
	for args, want := range map[string]string{
		`{"name":" "}`:    "run_script: name is required",
		`{"name":"none"}`: `run_script: no script named "none" in package.json; available: b, hello`,
	} {
		has(t, call(t, env, "run_script", args), want)
	}
	testenv.NeedsProgram(t, "npm")
	has(t, call(t, env, "run_script", `{"name":"hello"}`), "hi\n", "exit: 3\n")
	put(t, env, "package.json", `{"name":`)
	has(t, call(t, env, "run_script", `{"name":"b"}`), "run_script: parsing package.json: ")
	other := newEnv(t, map[string]string{"go.mod": "module m\n"})
	has(t, call(t, other, "run_script", `{"name":"b"}`), "run_script: only Node projects support scripts today (detected: go)")
	has(t, call(t, newEnv(t, nil), "run_script", `{"name":"b"}`), "run_script: package.json not found in workspace root")
}

func TestWhichProject(t *testing.T) {
	none := newEnv(t, nil)
	both := newEnv(t, map[string]string{"go.mod": "module m\n\ngo 1.24\n", "a.go": "package m\n", "package.json": `{"name":"m","scripts":{"test":"node --test"}}`})
	for _, tt := range []struct {
		env              *tool.Env
		tool, args, want string
	}{
		{none, "run_tests", `{}`, "no supported project detected in workspace root"},
		{both, "run_tests", `{}`, "polyglot workspace: 2 project types detected (go, node) — pass `language` to pick one"},
		{both, "run_lint", `{"language":"rust"}`, `language "rust" not detected in workspace; detected: go, node`},
		{both, "run_tests", `{"timeout":1801}`, "timeout must be between 1 and 1800 seconds"},
		{both, "run_lint", `{"timeout":601}`, "timeout must be between 1 and 600 seconds"},
		{both, "run_tests", `{"files":"a.go"}`, "files must be an array of strings, not a string"},
	} {
		if got := call(t, tt.env, tt.tool, tt.args); got != tt.want {
			t.Errorf("%s(%s) = %q, want %q", tt.tool, tt.args, got, tt.want)
		}
	}
	has(t, call(t, both, "run_tests", `{"language":" Go "}`), "0 passed, 0 failed", "no tests ran")
}

func TestLintAndFormat(t *testing.T) {
	env := newEnv(t, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.24\n",
		"a/a.go": "package a\n\nimport \"fmt\"\n\nfunc F() {\n\tfmt.Printf(\"%d\\n\", \"x\")\n}\n",
		"b/b.go": "package b\n\nfunc G() int { return nothing }\n",
	})
	has(t, call(t, env, "run_lint", `{"files":["a/a.go"]}`), "a/a.go:6:14:error: fmt.Printf format %d has arg \"x\" of wrong type string\n1 findings\n", "exit: 1\n")
	has(t, call(t, env, "run_typecheck", `{}`), "b/b.go:3:23:error: undefined: nothing\n")
	put(t, env, "a/a.go", "package a\nfunc F() {}\n")
	has(t, call(t, env, "format", `{"files":["a/a.go"]}`), "formatted a/a.go\n--- a/a/a.go\n+++ b/a/a.go\n@@ -1,2 +1,3 @@\n package a\n+\n func F() {}\n")
	has(t, call(t, env, "format", `{"files":["a/a.go"]}`), "already formatted")
	put(t, env, ".golangci.yml", "version: \"2\"\n")
	put(t, env, "a/.keep", "")
	if got, want := call(t, env, "run_lint", `{"files":["README.md"]}`), "not about README.md"; !strings.Contains(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestTimeout(t *testing.T) {
	testenv.NeedsProgram(t, "python3")
	files := map[string]string{"setup.py": "", "test_slow.py": "import time, unittest\n\n\nclass Slow(unittest.TestCase):\n    def test_slow(self):\n        time.sleep(60)\n"}
	got := call(t, newEnv(t, files), "run_tests", `{"timeout":1}`)
	has(t, got, "0 passed, ", "[cut short]\n   timed out after 1s", "timed out after 1s\nexit: 124\n")
}

// TestTimeoutOfSeveralProjects: the time limit is of the call, and what did not run is named.
func TestTimeoutOfSeveralProjects(t *testing.T) {
	testenv.NeedsProgram(t, "python3")
	slow := "import time, unittest\n\n\nclass Slow(unittest.TestCase):\n    def test_slow(self):\n        time.sleep(60)\n"
	files := map[string]string{}
	for _, dir := range []string{"a", "b", "c"} {
		files[dir+"/setup.py"], files[dir+"/test_slow.py"] = "", slow
	}
	for _, in := range []string{
		`{"timeout":1,"language":"all"}`,
		`{"timeout":1,"files":["a/test_slow.py","b/test_slow.py","c/test_slow.py"]}`,
	} {
		got := call(t, newEnv(t, files), "run_tests", in)
		const notRun = " (python) ===\nnot run: the 1 s of the call were over"
		has(t, got, "=== a (python) ===", "timed out after 1s", "=== b"+notRun, "=== c"+notRun)
	}
}

func ExampleTools() {
	for _, t := range verifytool.Tools() {
		fmt.Println(t.Name, t.ReadOnly)
	}
	// Output:
	// run_tests false
	// run_failing_tests false
	// last_test_failures true
	// tests_covering true
	// run_lint false
	// run_typecheck false
	// check false
	// format false
	// install false
	// run_script false
}
