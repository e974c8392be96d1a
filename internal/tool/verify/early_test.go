package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/local"
)

// TestEarlyEnd: a run whose process ends in the middle, with status 0, is not a pass.
func TestEarlyEnd(t *testing.T) {
	const script = "test('one', () => {});\ntest('exits', () => { process.exit(0); });\ntest('three', () => {});\n"
	for _, tt := range []struct {
		name, needs string
		files       map[string]string
		want        string
	}{
		{"pytest", "pytest", map[string]string{
			"pytest.ini": "[pytest]\n", "setup.py": "", "test_a.py": "import os\n\n\ndef test_a():\n    pass\n\n\ndef test_b():\n    os._exit(0)\n\n\ndef test_c():\n    pass\n",
		}, "0 passed: setup  (pytest ended before its tests did"},
		{"unittest", "python3", map[string]string{
			"setup.py": "", "test_a.py": "import os, unittest\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.fail()\n\n    def test_b(self):\n        os._exit(0)\n",
		}, "0 passed: setup  (unittest ended before its tests did"},
		{"mocha", "mocha", map[string]string{
			"package.json": `{"name": "m", "scripts": {"test": "mocha"}, "devDependencies": {"mocha": "*"}}`,
			"test/a.js":    strings.ReplaceAll(script, "test(", "it("),
		}, "1 passed: setup  (mocha ended before its tests did"},
		{"jest", "jest", map[string]string{
			"package.json": `{"name": "m", "scripts": {"test": "jest"}, "jest": {}, "devDependencies": {"jest": "*"}}`, "a.test.js": script,
		}, "0 passed: setup  (jest ended before its tests did"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			module := testenv.NeedsProgram(t, tt.needs)
			ws, dir := open(t, local.Kind, tt.files)
			if strings.Contains(tt.files["package.json"], "devDependencies") {
				link(t, dir, module)
			}
			r, err := Test(t.Context(), ws, project(t, ws), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := outcome(r); !strings.HasPrefix(got, tt.want) || r.OK() || r.ExitCode != 0 {
				t.Errorf("got %s, status %d, want %s\n%s\n%s", got, r.ExitCode, tt.want, r.Stdout, r.Stderr)
			}
			// All of it runs again: which tests did not is not known.
			again, err := Rerun(t.Context(), ws, project(t, ws), r, nil)
			if err != nil || outcome(again) != outcome(r) {
				t.Errorf("run again: %v, %v", again, err)
			}
		})
	}
}

// TestCommandsWithoutTests: a command that only describes the runner has no tests to lose.
func TestCommandsWithoutTests(t *testing.T) {
	testenv.NeedsProgram(t, "pytest")
	ws, _ := open(t, local.Kind, map[string]string{"pytest.ini": "[pytest]\n", "setup.py": "", "test_a.py": "def test_a():\n    pass\n"})
	for _, command := range []string{"pytest --version", "pytest --collect-only", "python3 -m unittest --help"} {
		r, err := Test(t.Context(), ws, project(t, ws), &Options{Command: command})
		if err != nil || !r.OK() {
			t.Errorf("%s: %v, %+v", command, err, r)
		}
	}
}

// outcome shows what a run found.
func outcome(r *Report) string {
	var list []string
	for _, f := range r.Failures {
		list = append(list, fmt.Sprintf("%s %s (%s)", f.Kind, f.Name(), f.Message))
	}
	return fmt.Sprintf("%d passed: %s", r.Passed, strings.Join(list, "; "))
}

// TestErrorsOutsideOfTests: an error that no test has is shown beside the failures of tests.
func TestErrorsOutsideOfTests(t *testing.T) {
	const leak = "test('leaks', async () => { Promise.reject(new Error('boom')); await new Promise(r => setTimeout(r, 20)); });\n"
	for _, tt := range []struct {
		name, needs string
		files       map[string]string
		want, note  string
	}{
		{name: "vitest", needs: "vitest", files: map[string]string{
			"package.json": `{"name": "m", "type": "module", "scripts": {"test": "vitest run"}, "devDependencies": {"vitest": "*"}}`,
			"a.test.js":    "import { test } from 'vitest';\ntest('fails', () => { throw new Error('no'); });\n" + leak,
		}, want: "1 passed: test a.test.js/fails (Error: no); setup a.test.js (Unhandled Rejection: Error: boom)"},
		{name: "node:test", needs: "node", files: map[string]string{
			"package.json":    `{"name": "m", "scripts": {"test": "node --test"}}`,
			"a.test.mjs":      "import { test } from 'node:test';\ntest('late', () => { setTimeout(() => { throw new Error('boom'); }, 10); });\n",
			"b.test.mjs":      "import { test } from 'node:test';\ntest('fine', () => {});\ntest('ends', () => process.exit(0));\n",
			"broken.test.mjs": "import { test } from './none.mjs';\n",
		}, want: `2 passed: setup a.test.mjs (Error: Test "late" at a.test.mjs:2:1 generated asynchronous activity after the test ended. ` +
			`This activity created the error "Error: boom" and would have caused the test to fail, but instead triggered an uncaughtException event.); build broken.test.mjs (`,
			note: "files that ended well and reported no test, each of which node counts as one: b.test.mjs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			module := testenv.NeedsProgram(t, tt.needs)
			ws, dir := open(t, local.Kind, tt.files)
			if tt.needs == "vitest" {
				link(t, dir, module)
			}
			r, err := Test(t.Context(), ws, project(t, ws), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := outcome(r); !strings.HasPrefix(got, tt.want) || !strings.Contains(strings.Join(r.Notes, "\n"), tt.note) {
				t.Errorf("got %s\nnotes %q\nwant %s\n%s\n%s", got, r.Notes, tt.want, r.Stdout, r.Stderr)
			}
		})
	}
}
