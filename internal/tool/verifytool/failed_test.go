package verifytool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// manyTests is a project of n tests, which all fail while calc.py is wrong.
func manyTests(n int, body string) map[string]string {
	return map[string]string{
		"setup.py": "", "calc.py": body,
		"test_many.py": "import unittest\nfrom calc import inc\n\n\nclass Many(unittest.TestCase):\n    pass\n\n\n" +
			fmt.Sprintf("for i in range(%d):\n    setattr(Many, 'test_%%04d' %% i, lambda self, i=i: self.assertEqual(inc(i), i))\n", n),
	}
}

// TestFailedRunsAll: failed runs all that failed, not only the first, and shows nothing of
// the run before as of now.
func TestFailedRunsAll(t *testing.T) {
	testenv.NeedsProgram(t, "python3")
	env := newEnv(t, manyTests(1500, "def inc(n):\n    return n + 1\n"))
	got := call(t, env, "run_tests", `{}`)
	has(t, got, "0 passed, 1500 failed, 0 skipped", "1480 more failures; the output has them:\n   test_many.Many/test_0020\n", "... and 1450 more\n")
	if strings.Contains(got, "last_test_failures") {
		t.Errorf("the answer names a tool that the set may lack:\n%s", got)
	}
	put(t, env, "calc.py", "def inc(n):\n    return n\n")
	got = call(t, env, "run_tests", `{"failed":true}`)
	has(t, got, "1500 passed, 0 failed, 0 skipped (unittest)\n")
	if strings.Contains(got, "AssertionError") || strings.Contains(got, "not run") {
		t.Errorf("after the repair: %s", got)
	}
}

// TestLimitOfFailed: what a limit leaves out is counted apart, without the texts of the run
// before, and the next call runs it.
func TestLimitOfFailed(t *testing.T) {
	testenv.NeedsProgram(t, "python3")
	env := newEnv(t, manyTests(5, "def inc(n):\n    return n + 1\n"))
	has(t, call(t, env, "run_tests", `{}`), "0 passed, 5 failed")
	put(t, env, "calc.py", "def inc(n):\n    return n\n")
	got := call(t, env, "run_failing_tests", `{"limit":2}`)
	has(t, got, "2 passed, 0 failed, 3 not run again, 0 skipped", "note: the limit is 2 of 5 tests", "note: not run again yet: test_many.Many/test_0002, ")
	if strings.Contains(got, "AssertionError") {
		t.Errorf("the answer has a text of the run before:\n%s", got)
	}
	has(t, call(t, env, "run_tests", `{"failed":true}`), "3 passed, 0 failed, 0 skipped")
	has(t, call(t, env, "run_tests", `{"failed":true}`), "nothing to rerun")
}

// TestFailedIsOfTheLastRun: a run of one project does not bring back the failures of another.
func TestFailedIsOfTheLastRun(t *testing.T) {
	testenv.NeedsProgram(t, "python3")
	files := map[string]string{}
	for _, dir := range []string{"a", "b"} {
		for name, body := range manyTests(2, "def inc(n):\n    return n + 1\n") {
			files[dir+"/"+name] = body
		}
	}
	env := newEnv(t, files)
	has(t, call(t, env, "run_tests", `{}`), "=== a (python) ===\n0 passed, 2 failed", "=== b (python) ===\n0 passed, 2 failed")
	has(t, call(t, env, "run_tests", `{"files":["b/test_many.py"]}`), "0 passed, 2 failed")
	if got := call(t, env, "run_tests", `{"failed":true}`); strings.Count(got, "0 passed, 2 failed") != 1 || strings.Contains(got, "===") {
		t.Errorf("the last run was of b alone:\n%s", got)
	}
}

// TestAssignmentsBeforeACommand: they do not keep the output from being parsed, and a rerun
// has them, too.
func TestAssignmentsBeforeACommand(t *testing.T) {
	testenv.NeedsProgram(t, "python3")
	env := newEnv(t, map[string]string{
		"setup.py": "", "lib/calc.py": "def add(a, b):\n    return a + b + 1\n",
		"test_calc.py": "import os, unittest\nfrom calc import add\n\n\nclass CalcTest(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(os.environ['GREETING'], 'a b')\n        self.assertEqual(add(1, 2), 3)\n",
	})
	args := `{"command":"GREETING='a b' PYTHONPATH=$PWD/lib python3 -m unittest -v"}`
	has(t, call(t, env, "run_tests", args), "0 passed, 1 failed, 0 skipped (unittest)", "1. test_calc.CalcTest/test_add\n", "4 != 3")
	put(t, env, "lib/calc.py", "def add(a, b):\n    return a + b\n")
	has(t, call(t, env, "run_tests", `{"failed":true}`), "1 passed, 0 failed")
	has(t, call(t, env, "run_tests", args), "1 passed, 0 failed")
}
