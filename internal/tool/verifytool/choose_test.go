package verifytool_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// nodeTest is a test file that requires a module, with more after it.
func nodeTest(module, more string) string {
	return "const x = require('" + module + "');\nrequire('node:test').test(" + "'uses " + module + "', () => {});\n" + more
}

// TestNodeTestsOfASource: the tests of a source file are found through directories, index
// files, the main file of a package and what can't be resolved, and are named.
func TestNodeTestsOfASource(t *testing.T) {
	testenv.NeedsProgram(t, "node")
	// The layout of a library whose tests load it by its directory.
	library := map[string]string{
		"package.json": `{"name":"lib","main":"index.js","exports":"./index.js","scripts":{"test":"node --test --require ./test/support/env test/"}}`,
		"index.js":     "module.exports = require('./lib/main');\n",
		"lib/main.js":  "exports.part = require('./part');\n", "lib/part.js": "", "lib/alone.js": "",
		"test/support/env.js": "", "test/support/utils.js": "", "test/data.json": "{}",
		"test/a.js": nodeTest("..", ""), "test/b.js": nodeTest("../", ""), "test/deep/c.js": nodeTest("../..", ""), "test/d.js": nodeTest("../lib/part", ""),
		"test/e.js": nodeTest("./support/utils", ""), "test/f.js": nodeTest("lib", ""),
	}
	with := func(more map[string]string) map[string]string {
		files := maps.Clone(library)
		maps.Copy(files, more)
		return files
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		args  string
		want  []string
	}{
		{"by a directory", library, `{"files":["lib/part.js"]}`, []string{
			"5 passed, 0 failed", "note: chosen by imports: 5 of 6 test files: test/a.js, test/b.js, test/d.js, test/deep/c.js, test/f.js; tests that reach the source in another way",
		}},
		{"the main file", library, `{"files":["index.js"]}`, []string{"4 passed, 0 failed", "chosen by imports: 4 of 6"}},
		{"help for tests", library, `{"files":["test/support/utils.js"]}`, []string{"1 passed, 0 failed", "chosen by imports: 1 of 6 test files: test/e.js;"}},
		{"what the runner loads", library, `{"files":["test/support/env.js"]}`, []string{"note: which tests cover test/support/env.js is not known; all ran"}},
		{"no script", library, `{"files":["test/data.json"]}`, []string{"note: which tests cover test/data.json is not known; all ran"}},
		{"none", library, `{"files":["lib/alone.js"]}`, []string{"no test covers lib/alone.js: none imports it, directly or not; without files all tests run"}},
		{"not there", library, `{"files":["lib/none.js"]}`, []string{"there is no file lib/none.js"}},
		{"a computed import", with(map[string]string{"test/g.js": nodeTest("node:fs", "require(process.cwd() + '/lib/alone.js');\n")}), `{"files":["lib/alone.js"]}`, []string{
			"chosen by imports: 1 of 7 test files: test/g.js;",
		}},
		{"a built file", with(map[string]string{".gitignore": "dist\n", "dist/alone.js": "", "test/g.js": nodeTest("../dist/alone.js", "")}), `{"files":["lib/alone.js"]}`, []string{
			"chosen by imports: 1 of 7 test files: test/g.js;",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			has(t, call(t, newEnv(t, tt.files), "run_tests", tt.args), tt.want...)
		})
	}
}

// TestTestsInOtherPackages: of a file of a package the tests of the packages that import it
// run, too, each by the command of its own package.
func TestTestsInOtherPackages(t *testing.T) {
	testenv.NeedsProgram(t, "node")
	files := map[string]string{
		"packages/core/package.json": `{"name":"@m/core","exports":{".":{"types":"./dist/index.d.ts","import":"./dist/index.js"},"./deep":"./src/deep.js"},"scripts":{"test":"node --test"}}`,
		"packages/core/src/index.js": "exports.a = 1;\n", "packages/core/src/deep.js": "exports.b = 1;\n", "packages/core/src/index.test.js": nodeTest("./index.js", ""),
		"packages/app/package.json": `{"name":"app","dependencies":{"@m/core":"workspace:*","other":"*"},"scripts":{"test":"node --test"}}`,
		"packages/app/main.js":      "try { require('@m/core'); } catch {}\n", "packages/app/main.test.js": nodeTest("./main", ""), "packages/app/other.test.js": "require('node:test').test('o', () => {});\n",
		"packages/deep/package.json": `{"name":"deep","dependencies":{"@m/core":"workspace:*"},"scripts":{"test":"node --test"}}`,
		"packages/deep/d.test.js":    "try { require('@m/core/deep'); } catch {}\n" + nodeTest("node:fs", ""),
		"packages/far/package.json":  `{"name":"far","scripts":{"test":"node --test"}}`, "packages/far/f.test.js": nodeTest("node:fs", ""),
	}
	for _, root := range []map[string]string{
		{"package.json": `{"name":"root","private":true,"workspaces":["packages/*"]}`},
		{"package.json": `{"name":"root","private":true}`, "pnpm-workspace.yaml": "packages: ['packages/*']\n"},
	} {
		maps.Copy(root, files)
		if _, ok := root["pnpm-workspace.yaml"]; ok { // a stand-in for pnpm, which starts the script's program
			for name := range root {
				root[name] = strings.ReplaceAll(root[name], "workspace:*", "*")
			}
		}
		env := newEnv(t, root)
		got := call(t, env, "run_tests", `{"files":["packages/core/src/index.js"]}`)
		has(t, got, "1 passed, 0 failed", "chosen by imports: 1 of 1 test files: packages/core/src/index.test.js", "1 passed, 0 failed", "chosen by imports: 1 of 2 test files: packages/app/main.test.js;")
		if strings.Contains(got, "packages/far") || strings.Contains(got, "packages/deep") {
			t.Errorf("packages that do not import it ran:\n%s", got)
		}
		got = call(t, env, "run_tests", `{"files":["packages/core/src/deep.js"]}`)
		for _, name := range []string{"packages/deep/d.test.js", "packages/app/main.test.js"} { // app imports what is built from all of core
			if !strings.Contains(got, name) {
				t.Errorf("%s is not chosen:\n%s", name, got)
			}
		}
		has(t, call(t, env, "tests_covering", `{"file":"packages/core/src/index.js"}`), "packages/app/main.test.js", "packages/core/src/index.test.js")
	}
}

// TestACommandWithoutFiles: a project whose command takes no files runs all of it, and the tests
// of packages that import the file run beside it.
func TestACommandWithoutFiles(t *testing.T) {
	testenv.NeedsProgram(t, "npm")
	env := newEnv(t, map[string]string{
		"package.json":      `{"name":"root","private":true,"workspaces":["core","app"]}`,
		"core/package.json": `{"name":"core","main":"index.js","scripts":{"test":"node check.js"}}`, "core/index.js": "", "core/check.js": "console.log('checked');\n",
		"app/package.json": `{"name":"app","dependencies":{"core":"*"},"scripts":{"test":"node --test"}}`, "app/a.test.js": "try { require('core'); } catch {}\n" + nodeTest("node:fs", ""),
	})
	has(t, call(t, env, "run_tests", `{"files":["core/index.js"]}`), "=== core (node) ===\n", "checked", "note: npm can't run the tests of some files; all ran", "=== app (node) ===\n1 passed, 0 failed", "app/a.test.js")
}

// TestPythonTestsOfASource: imports of several lines, of the package around a module, and of
// a directory that a configuration adds.
func TestPythonTestsOfASource(t *testing.T) {
	testenv.NeedsProgram(t, "pytest")
	const test = "\n\ndef test_it():\n    pass\n"
	files := map[string]string{
		"pytest.ini": "[pytest]\npythonpath = lib\n", "setup.py": "",
		"lib/pkg/__init__.py": "", "lib/pkg/one.py": "", "lib/pkg/two.py": "from . import three\n", "lib/pkg/three.py": "",
		"tests/test_a.py": "from pkg import (\n    one,  # the first\n    two,\n)\n" + test,
		"tests/test_b.py": "import pkg.one as first\n" + test, "tests/test_c.py": test, "tests/conftest.py": "",
	}
	env := newEnv(t, files)
	for file, want := range map[string][]string{
		"lib/pkg/three.py":    {"test_a.py"},
		"lib/pkg/one.py":      {"test_a.py", "test_b.py"},
		"lib/pkg/__init__.py": {"test_a.py", "test_b.py"},
	} {
		got := call(t, env, "run_tests", `{"files":["`+file+`"]}`)
		for _, name := range []string{"test_a.py", "test_b.py", "test_c.py"} {
			if strings.Contains(got, "tests/"+name) != slices.Contains(want, name) {
				t.Errorf("%s: want %q:\n%s", file, want, got)
			}
		}
	}
	has(t, call(t, env, "run_tests", `{"files":["tests/conftest.py"]}`), "3 passed", "which tests cover tests/conftest.py is not known; all ran")
}
