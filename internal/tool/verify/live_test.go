package verify

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// kinds are the places that the tests run in: a directory of the host, and one
// in a sandbox of the kernel.
var kinds = []string{local.Kind, sandbox.Kind}

// open makes a workspace of some kind with the given files in it.
func open(t *testing.T, kind string, files map[string]string) (*workspace.Workspace, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, _ := testshell.NewProvider(t, kind)
	d, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: kind, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(driver.NewID(), d, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return ws, dir
}

func TestMain(m *testing.M) { testshell.Main(m) }

// project returns the only project of a workspace.
func project(t *testing.T, ws *workspace.Workspace) profile.Project {
	t.Helper()
	p, err := profile.Detect(ws.FS(), nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Select(p, "")
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

var goProject = map[string]string{
	"go.mod":       "module example.com/m\n\ngo 1.24\n",
	"calc/calc.go": "package calc\n\nfunc Add(a, b int) int { return a + b + 1 }\n",
	"calc/calc_test.go": `package calc

import "testing"

func TestAdd(t *testing.T) {
	for _, c := range []struct{ name string; a, b, want int }{{"one and two", 1, 2, 3}, {"less", 1, -2, 0}} {
		t.Run(c.name, func(t *testing.T) {
			if got := Add(c.a, c.b); got != c.want {
				t.Errorf("Add(%d, %d) = %d, want %d", c.a, c.b, got, c.want)
			}
		})
	}
}

func TestFine(t *testing.T) {}
`,
}

func names(failures []Failure) string {
	var out []string
	for _, f := range failures {
		out = append(out, string(f.Kind)+" "+f.Name())
	}
	return strings.Join(out, "; ")
}

// TestGo runs on the host alone: in the sandbox there is no cache of the
// standard library, and building it takes a minute.
func TestGo(t *testing.T) {
	ws, dir := open(t, local.Kind, goProject)
	p := project(t, ws)
	var last Progress
	r, err := Test(t.Context(), ws, p, &Options{Progress: func(p Progress) { last = p }})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(r.Failures), "test example.com/m/calc/TestAdd/one_and_two"; got != want {
		t.Fatalf("failures: %s, want %s\n%s%s", got, want, r.Stdout, r.Stderr)
	}
	f := r.Failures[0]
	if f.File != "calc/calc_test.go" || f.Line != 9 || f.Expected != "3" || f.Actual != "4" {
		t.Errorf("failure is %+v", f)
	}
	if last.Failed != 1 || last.Done == 0 {
		t.Errorf("the last progress was %+v", last)
	}
	again, err := Rerun(t.Context(), ws, p, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(again.Failures), names(r.Failures); got != want || again.Passed != 0 {
		t.Errorf("run again: %s and %d passed, want %s alone", got, again.Passed, want)
	}
	// What is repaired passes, and only that runs.
	write(t, dir, "calc/calc.go", "package calc\n\nfunc Add(a, b int) int { return a + b }\n")
	again, err = Rerun(t.Context(), ws, p, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !again.OK() || len(again.Missing) > 0 || again.Passed != 2 { // the subtest and the test that holds it
		t.Errorf("after the repair: %d passed, %s, missing %q", again.Passed, names(again.Failures), again.Missing)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestGoThatDoesNotCompile(t *testing.T) {
	files := maps.Clone(goProject)
	files["calc/calc.go"] = "package calc\n\nfunc Add(a, b int) int { return nothing }\n"
	ws, _ := open(t, local.Kind, files)
	r, err := Test(t.Context(), ws, project(t, ws), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(r.Failures), "build example.com/m/calc"; got != want {
		t.Fatalf("failures: %s, want %s", got, want)
	}
	if f := r.Failures[0]; f.File != "calc/calc.go" || f.Line != 3 || !strings.Contains(f.Message, "undefined: nothing") {
		t.Errorf("failure is %+v", f)
	}
	if again, err := Rerun(t.Context(), ws, project(t, ws), r, nil); err != nil || names(again.Failures) != names(r.Failures) {
		t.Errorf("run again: %v, %v", again, err)
	}
}

const pyCalc = "def add(a, b):\n    return a + b + 1\n"

// live are small projects with one wrong test each. They run in every kind of
// workspace.
var live = []struct {
	name, needs string
	slow        bool // it runs in one kind of workspace only
	files       map[string]string
	want        string // failures
	place       string
	fix         [2]string // a file, and its text without the mistake
}{
	{
		name: "unittest", needs: "python3",
		files: map[string]string{
			"setup.py": "", "calc.py": pyCalc,
			"test_calc.py": "import unittest\nfrom calc import add\n\n\nclass CalcTest(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n\n    def test_fine(self):\n        pass\n",
		},
		want: "test test_calc.CalcTest/test_add", place: "test_calc.py:7", fix: [2]string{"calc.py", "def add(a, b):\n    return a + b\n"},
	},
	{
		name: "pytest", needs: "pytest",
		files: map[string]string{
			"pytest.ini": "[pytest]\n", "setup.py": "", "conftest.py": "", "calc.py": pyCalc,
			"test_calc.py": "import pytest\nfrom calc import add\n\n\n@pytest.mark.parametrize(\"a\", [1, 'x y'])\ndef test_add(a):\n    assert a == 1 or add(1, 2) == 3\n\n\ndef test_fine():\n    pass\n",
		},
		want: "test test_calc.py/test_add[x y]", place: "test_calc.py:7", fix: [2]string{"calc.py", "def add(a, b):\n    return a + b\n"},
	},
	{
		name: "node:test", needs: "node",
		files: map[string]string{
			"package.json":  `{"name": "m", "scripts": {"test": "node --test"}}`,
			"calc.js":       "exports.add = (a, b) => a + b + 1;\n",
			"calc.test.js":  "const { test, describe } = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('./calc.js');\ndescribe('add', () => {\n  test('one (and) two', () => {\n    assert.strictEqual(add(1, 2), 3);\n  });\n  test('fine', () => {});\n});\n",
			"other.test.js": "require('node:test').test('other', () => {});\n",
		},
		want: "test calc.test.js/add > one (and) two", place: "calc.test.js:6", fix: [2]string{"calc.js", "exports.add = (a, b) => a + b;\n"},
	},
	{
		name: "node:test in a script", needs: "node",
		files: map[string]string{
			"package.json": `{"name": "m", "scripts": {"test": "echo first && node --test"}}`,
			"calc.js":      "exports.add = (a, b) => a + b + 1;\n",
			"calc.test.js": "const { test } = require('node:test');\nconst assert = require('node:assert');\ntest('adds', () => {\n  assert.strictEqual(require('./calc.js').add(1, 2), 3);\n});\ntest('fine', () => {});\n",
		},
		want: "test calc.test.js/adds", place: "calc.test.js:4", fix: [2]string{"calc.js", "exports.add = (a, b) => a + b;\n"},
	},
	{
		name: "vitest", needs: "vitest", slow: true,
		files: map[string]string{
			"package.json": `{"name": "m", "type": "module", "scripts": {"test": "vitest run"}, "devDependencies": {"vitest": "*"}}`,
			"calc.js":      "export const add = (a, b) => a + b + 1;\n",
			"calc.test.js": "import { test, expect, describe } from 'vitest';\nimport { add } from './calc.js';\ndescribe('add', () => {\n  test('one (and) two', () => {\n    expect(add(1, 2)).toBe(3);\n  });\n  test('fine', () => {});\n});\n",
		},
		want: "test calc.test.js/add > one (and) two", place: "calc.test.js:5", fix: [2]string{"calc.js", "export const add = (a, b) => a + b;\n"},
	},
	{
		name: "jest", needs: "jest", slow: true,
		files: map[string]string{
			"package.json": `{"name": "m", "scripts": {"test": "echo first && jest"}, "jest": {}, "devDependencies": {"jest": "*"}}`,
			"calc.js":      "exports.add = (a, b) => a + b + 1;\n",
			"calc.test.js": "const { add } = require('./calc.js');\ndescribe('add', () => {\n  test('one (and) two', () => {\n    expect(add(1, 2)).toBe(3);\n  });\n  test('fine', () => {});\n});\n",
		},
		want: "test calc.test.js/add > one (and) two", place: "calc.test.js:4", fix: [2]string{"calc.js", "exports.add = (a, b) => a + b;\n"},
	},
	{
		name: "ctest", needs: "ctest",
		files: map[string]string{
			"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(m C)\nenable_testing()\nadd_executable(add calc.c add_test.c)\nadd_test(NAME add COMMAND add)\nadd_test(NAME fine COMMAND true)\n",
			"calc.c":         "int add(int a, int b) { return a + b + 1; }\n",
			"add_test.c":     "#include <assert.h>\nint add(int, int);\nint main(void) {\n  assert(add(1, 2) == 3);\n  return 0;\n}\n",
		},
		want: "test add", place: "add_test.c:4", fix: [2]string{"calc.c", "int add(int a, int b) { return a + b; }\n"},
	},
	{
		name: "mocha", needs: "mocha", slow: true,
		files: map[string]string{
			"package.json":      `{"name": "m", "scripts": {"test": "mocha"}, "devDependencies": {"mocha": "*"}}`,
			"calc.js":           "exports.add = (a, b) => a + b + 1;\n",
			"test/calc.test.js": "const assert = require('node:assert');\nconst { add } = require('../calc.js');\ndescribe('add', () => {\n  it('one (and) two', () => {\n    assert.strictEqual(add(1, 2), 3);\n  });\n  it('fine', () => {});\n});\n",
		},
		want: "test test/calc.test.js/add one (and) two", place: "test/calc.test.js:5", fix: [2]string{"calc.js", "exports.add = (a, b) => a + b;\n"},
	},
}

//croft:slow
func TestLive(t *testing.T) {
	for _, kind := range kinds {
		for _, tt := range live {
			t.Run(kind+"/"+tt.name, func(t *testing.T) {
				if tt.slow && kind != sandbox.Kind {
					return
				}
				module := testenv.NeedsProgram(t, tt.needs)
				ws, dir := open(t, kind, tt.files)
				if strings.Contains(tt.files["package.json"], "devDependencies") {
					link(t, dir, module)
				}
				p := project(t, ws)
				r, err := Test(t.Context(), ws, p, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := names(r.Failures); got != tt.want || !r.Structured || r.Passed == 0 {
					t.Fatalf("failures: %s and %d passed, want %s\n%s\n%s\n%+v", got, r.Passed, tt.want, r.Stdout, r.Stderr, r.Failures)
				}
				if got := fmt.Sprintf("%s:%d", r.Failures[0].File, r.Failures[0].Line); got != tt.place {
					t.Errorf("it failed at %s, want %s", got, tt.place)
				}
				again, err := Rerun(t.Context(), ws, p, r, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := names(again.Failures); got != tt.want || again.Passed != 0 || len(again.Missing) > 0 {
					t.Errorf("run again: %s, %d passed, missing %q; want the failed one alone\n%s\n%s", got, again.Passed, again.Missing, again.Stdout, again.Stderr)
				}
				write(t, dir, tt.fix[0], tt.fix[1])
				again, err = Rerun(t.Context(), ws, p, r, nil)
				if err != nil {
					t.Fatal(err)
				}
				if !again.OK() || again.Passed != 1 || len(again.Missing) > 0 {
					t.Errorf("after the repair: %s, %d passed, missing %q\n%s\n%s", names(again.Failures), again.Passed, again.Missing, again.Stdout, again.Stderr)
				}
			})
		}
	}
}

// link lets a project find the packages that are installed on the host.
func link(t *testing.T, dir, program string) {
	t.Helper()
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(real, "/node_modules/")
	if at < 0 {
		t.Fatalf("%s is not below a node_modules directory", real)
	}
	modules := real[:at+len("/node_modules")]
	if err := os.Mkdir(filepath.Join(dir, "node_modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(real[at+len("/node_modules/"):], "/")
	for from, to := range map[string]string{modules + "/" + name: name, real: ".bin/" + filepath.Base(program)} {
		to = filepath.Join(dir, "node_modules", to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
}
